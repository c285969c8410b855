"""Lets a fault strike, one or several joined: in turn in this thread, at the same time each in a thread of its own; then gathers the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from experiments.errors import HealFailed
from experiments.events.journal import Event
from experiments.faults import FAULTS
from experiments.faults.core import FaultAbandoned, FaultContext, FaultMissed
from experiments.faults.core.kind import TrialObservations
from experiments.ledger.record import FaultEvidence
from experiments.sweep.plan import FaultRequest


@dataclass(frozen=True)
class InjectedFault:
    """One fault that struck, and has been healed."""

    name: str
    """Its kind; of several, with its place in front: `2.leader-pause`."""
    request: FaultRequest
    evidence: FaultEvidence
    began_ns: int | None
    """`None`: it found nothing to strike."""


def inject(request: FaultRequest, context: FaultContext) -> tuple[InjectedFault, ...]:
    """Let a fault strike, all its parts, and return what became of each once all are healed.

    Raises:
        HealFailed: something could not be undone, after all else was.
        HarnessError: a part could not be carried out; all are healed.
    """
    try:
        return _strike(request, context, 1, several=len(request.leaves()) > 1)
    finally:
        context.put_right()


def evidence_of(
    request: FaultRequest,
    struck: Sequence[InjectedFault],
    events: tuple[Event, ...],
    acks: str,
    load_end_ns: int,
) -> FaultEvidence:
    """Return the evidence of the whole, completed by what brokers and clients logged; it bit when each part did.

    Args:
        request: what was asked for.
        struck: what became of it.
        events: all of the trial.
        acks: the producers'.
        load_end_ns: when the last record was due: what strikes later strikes nothing.
    """
    told = [
        _confirmed(one, TrialObservations(events, acks, one.began_ns), load_end_ns)
        for one in struck
    ]
    if len(told) == 1:
        return told[0].model_copy(update={"parameters": request.parameters})
    names = [one.name for one in struck]
    missed = [
        f"{name} did not bite"
        for name, part in zip(names, told, strict=True)
        if not part.took_effect
    ]
    sentences = [
        f"{name}: {sentence}"
        for name, part in zip(names, told, strict=True)
        for sentence in part.evidence
    ]
    targets = tuple(dict.fromkeys(node for part in told for node in part.targets))
    return FaultEvidence(
        kind=request.kind,
        parameters=request.all_parameters(),
        targets=targets,
        took_effect=not missed,
        evidence=(*missed, *sentences),
    )


def _strike(
    request: FaultRequest, context: FaultContext, first: int, *, several: bool
) -> tuple[InjectedFault, ...]:
    """Strike; the parts are numbered from `first` on."""
    if not request.parts:
        name = f"{first}.{request.kind}" if several else request.kind
        return (_strike_one(request, context.part(name, label=name if several else "")),)
    numbers = [
        first + sum(len(before.leaves()) for before in request.parts[:place])
        for place in range(len(request.parts))
    ]
    return (_in_turn if request.joined == ">>" else _together)(
        list(zip(request.parts, numbers, strict=True)), context
    )


def _in_turn(
    parts: Sequence[tuple[FaultRequest, int]], context: FaultContext
) -> tuple[InjectedFault, ...]:
    """Strike one after the other; each one's times count from the heal of the one before."""
    struck: tuple[InjectedFault, ...] = ()
    for part, number in parts:
        struck += _strike(part, context.from_now() if struck else context, number, several=True)
    return struck


def _together(
    parts: Sequence[tuple[FaultRequest, int]], context: FaultContext
) -> tuple[InjectedFault, ...]:
    """Strike at the same time; where one fails, or the trial is interrupted, the others go no further and heal."""
    with ThreadPoolExecutor(len(parts), "fault") as threads:
        begun = [
            threads.submit(_strike, part, context, number, several=True) for part, number in parts
        ]
        try:
            wait(begun, return_when=FIRST_EXCEPTION)
        finally:
            if not all(_ended_well(one) for one in begun):
                context.over.set()
    errors = [error for error in (one.exception() for one in begun) if error is not None]
    if errors:
        raise min(errors, key=_weight)
    return tuple(struck for one in begun for struck in one.result())


def _ended_well(part: Future[tuple[InjectedFault, ...]]) -> bool:
    return part.done() and part.exception() is None


def _weight(error: BaseException) -> int:
    """What could not be healed weighs more than any other error; a part that gave up did so for another's."""
    return 0 if isinstance(error, HealFailed) else 2 if isinstance(error, FaultAbandoned) else 1


def _strike_one(request: FaultRequest, context: FaultContext) -> InjectedFault:
    fault = FAULTS[request.kind]
    try:
        evidence = fault.inject(context, fault.parameters.model_validate(request.parameters))
    except FaultMissed as missed:
        evidence = FaultEvidence(
            kind=request.kind,
            took_effect=False,
            evidence=(*context.facts, f"{missed}: nothing was done"),
        )
    return InjectedFault(
        context.name, request, evidence, context.begins_ns[0] if context.begins_ns else None
    )


def _confirmed(
    struck: InjectedFault, aftermath: TrialObservations, load_end_ns: int
) -> FaultEvidence:
    if struck.began_ns is not None and struck.began_ns >= load_end_ns:
        late = (
            f"it struck {(struck.began_ns - load_end_ns) / 1e9:.2f} s after the last record was due"
        )
        return struck.evidence.model_copy(
            update={"took_effect": False, "evidence": (*struck.evidence.evidence, late)}
        )
    return (
        FAULTS[struck.request.kind].confirm(struck.evidence, aftermath)
        if struck.evidence.took_effect
        else struck.evidence
    )
