"""What the event journal says while a trial runs: the load, the fault, leaders and ISRs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic_core import from_json

from ackbench.experiments.sweep.cell_names import NO_FAULT
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.infra.process.log_tail import LineFollower

_LABEL: Final = re.compile(r"\d+\.[a-z-]+")
_PHASES: Final = ("load_begin", "settled", "healthy")


class FaultState(StrEnum):
    """How far the fault of a trial is."""

    NONE = "none"
    """The trial has no fault."""
    PENDING = "pending"
    BEGUN = "begun"
    EFFECTIVE = "effective"
    """An effect was observed."""
    HEALED = "healed"


@dataclass(frozen=True)
class FaultSpan:
    """A fault, or one of several: when it began, took effect and was healed."""

    name: str
    """One of several: `2.leader-pause`; the only one: empty."""
    begin_ns: int
    effective_ns: int | None = None
    """When its first effect was observed; `None`: none so far."""
    end_ns: int | None = None
    """`None`: it was not healed so far."""


@dataclass(frozen=True)
class LeaderSpan:
    """From when a partition had a leader."""

    at_ns: int
    node: int | None
    """`None`: no leader."""


@dataclass(frozen=True)
class IsrSpan:
    """From when a partition had an ISR."""

    at_ns: int
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class PartitionHistory:
    """The leaders and ISRs of a partition, the first as of the trial's begin."""

    partition: int
    leaders: tuple[LeaderSpan, ...]
    isrs: tuple[IsrSpan, ...]


@dataclass(frozen=True)
class TrialEvents:
    """What the journal has so far. Times are nanoseconds since the epoch."""

    load_begin_ns: int | None = None
    settled_ns: int | None = None
    healthy_ns: int | None = None
    faults: tuple[FaultSpan, ...] = ()
    partitions: tuple[PartitionHistory, ...] = ()
    controller: int | None = None
    """The active controller; `None`: not observed, or none."""
    metadata_unavailable_ns: int | None = None
    """Since when no broker answers for the topic; `None`: one does."""


def fault_state(request: FaultRequest, faults: Sequence[FaultSpan]) -> FaultState:
    """Return how far the fault of a trial is; of several, those count that are not healed.

    Args:
        request: the requested fault.
        faults: its parts that have begun.
    """
    if request.kind == NO_FAULT:
        return FaultState.NONE
    active = [span for span in faults if span.end_ns is None]
    if not active:
        names = {span.name for span in faults}
        return FaultState.HEALED if len(names) == len(request.leaves()) else FaultState.PENDING
    is_effective = any(span.effective_ns is not None for span in active)
    return FaultState.EFFECTIVE if is_effective else FaultState.BEGUN


class JournalFollower:
    """Reads the new lines of a trial's journal.

    Args:
        path: the journal; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._lines = LineFollower(path)
        self._builder = _EventsBuilder()

    def read(self) -> TrialEvents:
        """Return what the journal has so far.

        An incomplete last line is read when it is complete. A line that is no event is left out.
        """
        try:
            lines = self._lines.new_lines()
        except OSError:  # not there yet, or deleted with the sealed trial
            lines = []
        for line in lines:
            try:
                event = from_json(line)
                self._builder.add(event)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
        return self._builder.events()


def _fault_name(detail: str) -> str:
    """Return which of several faults an event is about; of a single one its name is not given."""
    label, separator, _ = detail.partition(": ")
    return label if separator and _LABEL.fullmatch(label) else ""


@dataclass
class _EventsBuilder:
    phases: dict[str, int] = field(default_factory=dict)
    faults: list[FaultSpan] = field(default_factory=list)
    leaders: dict[int, list[LeaderSpan]] = field(default_factory=dict)
    isrs: dict[int, list[IsrSpan]] = field(default_factory=dict)
    controller: int | None = None
    unavailable_ns: int | None = None

    def add(self, event: dict[str, Any]) -> None:
        kind, at_ns = str(event["kind"]), int(event["at_ns"])
        if kind in _PHASES:
            self.phases.setdefault(kind, at_ns)
        elif kind in {"fault_begin", "fault_effective", "fault_end"}:
            self._add_fault(kind, at_ns, _fault_name(str(event["detail"])))
        elif kind == "leader":
            span = LeaderSpan(at_ns, event["node"])
            self.leaders.setdefault(int(event["partition"]), []).append(span)
        elif kind == "isr":
            nodes = tuple(int(node) for node in event["detail"].split(",") if node)
            self.isrs.setdefault(int(event["partition"]), []).append(IsrSpan(at_ns, nodes))
        elif kind == "controller":
            self.controller = event["node"]
        elif kind == "metadata_unavailable":
            self.unavailable_ns = at_ns
        elif kind == "metadata_available":
            self.unavailable_ns = None

    def _add_fault(self, kind: str, at_ns: int, name: str) -> None:
        """Add a mark; that of an effect or a heal to the oldest span of its fault without it."""
        if kind == "fault_begin":
            self.faults.append(FaultSpan(name, at_ns))
            return
        for number, span in enumerate(self.faults):
            if span.name != name or span.end_ns is not None:
                continue
            if kind == "fault_end":
                self.faults[number] = replace(span, end_ns=at_ns)
                return
            if span.effective_ns is None:
                self.faults[number] = replace(span, effective_ns=at_ns)
                return

    def events(self) -> TrialEvents:
        numbers = sorted(self.leaders.keys() | self.isrs.keys())
        return TrialEvents(
            load_begin_ns=self.phases.get("load_begin"),
            settled_ns=self.phases.get("settled"),
            healthy_ns=self.phases.get("healthy"),
            faults=tuple(self.faults),
            partitions=tuple(
                PartitionHistory(
                    number, tuple(self.leaders.get(number, ())), tuple(self.isrs.get(number, ()))
                )
                for number in numbers
            ),
            controller=self.controller,
            metadata_unavailable_ns=self.unavailable_ns,
        )
