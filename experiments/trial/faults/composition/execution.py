"""Injection of a trial's fault, one or several joined, and its evidence.

Faults in turn run in the calling thread, parallel faults in a thread each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.messages.errors import HealFailed
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.events.journal import Event
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    FaultAbandoned,
    FaultContext,
    FaultMissed,
)
from ackbench.experiments.trial.faults.core.context import IN_THE_LOAD
from ackbench.experiments.trial.faults.core.kind import TrialObservations, extend_evidence


@dataclass(frozen=True)
class InjectedFault:
    """A single fault that was injected and healed."""

    name: str
    """Its kind; one of several has its position in front: `2.leader-pause`."""
    request: FaultRequest
    evidence: FaultEvidence
    """As of its heal; see `evidence_of`."""
    began_ns: int | None
    """`None`: it found no target."""


def inject(request: FaultRequest, context: FaultContext) -> tuple[InjectedFault, ...]:
    """Inject a fault with all its parts, and return them once all are healed.

    Raises:
        HealFailed: a heal failed; all others were done.
        HarnessError: a part could not be injected; all parts are healed.
    """
    try:
        return _inject(request, context, 1, several=len(request.leaves()) > 1)
    finally:
        context.restore_nodes()


def evidence_of(
    request: FaultRequest,
    faults: Sequence[InjectedFault],
    events: tuple[Event, ...],
    acks: str,
    load_end_ns: int,
    request_timeout_s: float,
) -> FaultEvidence:
    """Return the evidence of the whole fault, completed with what brokers and clients logged.

    It took effect if each of its parts did. Otherwise it was carried out in part if one did, or
    one was injected without the effect that it is meant to have.

    Args:
        request: the requested fault.
        faults: its parts, as `inject` returned them.
        events: all events of the trial, by time.
        acks: the producers' `acks`.
        load_end_ns: when the last record was due; a fault that begins later has no effect.
        request_timeout_s: how long the producers wait for a response.
    """
    evidence = [
        _confirmed(
            fault,
            TrialObservations(events, acks, fault.began_ns, request_timeout_s),
            load_end_ns,
            _steps_ns(fault, events, alone=len(faults) == 1),
        )
        for fault in faults
    ]
    if len(evidence) == 1:
        return evidence[0].model_copy(
            update={"kind": request.kind, "parameters": request.parameters}
        )
    named = [(fault.name, part) for fault, part in zip(faults, evidence, strict=True)]
    without_effect = [
        f"{name} {'was carried out in part' if part.carried_out_in_part else 'had no effect'}"
        for name, part in named
        if not part.took_effect
    ]
    sentences = [f"{name}: {sentence}" for name, part in named for sentence in part.evidence]
    return FaultEvidence(
        kind=request.kind,
        parameters=request.all_parameters(),
        targets=tuple(dict.fromkeys(node for part in evidence for node in part.targets)),
        took_effect=not without_effect,
        carried_out_in_part=bool(without_effect)
        and any(part.took_effect or part.carried_out_in_part for part in evidence),
        evidence=(*without_effect, *sentences),
    )


def _steps_ns(fault: InjectedFault, events: Iterable[Event], *, alone: bool) -> list[int]:
    """Return when something was done to a process, a disk, the network or a topic."""
    label = "" if alone else f"{fault.name}: "
    return [
        event.at_ns
        for event in events
        if event.kind == EFFECTIVE and event.detail.startswith(label)
    ]


def _confirmed(
    fault: InjectedFault, observations: TrialObservations, load_end_ns: int, steps_ns: Sequence[int]
) -> FaultEvidence:
    evidence = _evidence_after_trial(fault, observations, load_end_ns, steps_ns)
    in_part = bool(steps_ns) and not evidence.took_effect
    return evidence.model_copy(update={"carried_out_in_part": in_part})


def _evidence_after_trial(
    fault: InjectedFault, observations: TrialObservations, load_end_ns: int, steps_ns: Sequence[int]
) -> FaultEvidence:
    if fault.began_ns is not None and fault.began_ns >= load_end_ns:
        late_s = (fault.began_ns - load_end_ns) / 1e9
        return extend_evidence(
            fault.evidence,
            f"it began {late_s:.2f} s after the last record was due",
            took_effect=False,
        )
    kind, evidence = FAULTS[fault.request.kind], fault.evidence
    if any(sentence.endswith(IN_THE_LOAD) for sentence in evidence.evidence):
        return evidence
    in_time = sum(at_ns < load_end_ns for at_ns in steps_ns)
    if in_time < len(steps_ns):
        evidence = extend_evidence(
            evidence,
            f"{in_time} of its {len(steps_ns)} steps came {IN_THE_LOAD}",
            took_effect=evidence.took_effect and kind.acts_on_stored_records,
        )
    return kind.confirm(evidence, observations) if evidence.took_effect else evidence


def _inject(
    request: FaultRequest, context: FaultContext, first: int, *, several: bool
) -> tuple[InjectedFault, ...]:
    """Inject a fault, or the parts of a joined one, numbered from `first` on."""
    if not request.parts:
        name = f"{first}.{request.kind}" if several else request.kind
        label, may_exit = name if several else "", FAULTS[request.kind].may_exit
        return (_inject_one(request, context.for_part(request.kind, name, label, may_exit)),)
    numbered = []
    for part in request.parts:
        numbered.append((part, first))
        first += len(part.leaves())
    return (_in_turn if request.joined == ">>" else _in_parallel)(numbered, context)


def _in_turn(
    parts: Sequence[tuple[FaultRequest, int]], context: FaultContext
) -> tuple[InjectedFault, ...]:
    """Inject one part after the other; the times of each count from the heal of the one before."""
    faults: tuple[InjectedFault, ...] = ()
    for part, number in parts:
        part_context = context.starting_now() if faults else context
        faults += _inject(part, part_context, number, several=True)
    return faults


def _in_parallel(
    parts: Sequence[tuple[FaultRequest, int]], context: FaultContext
) -> tuple[InjectedFault, ...]:
    """Inject all parts at the same time.

    If one fails, or the trial is interrupted, the others stop and heal.
    """
    with ThreadPoolExecutor(len(parts), "fault") as threads:
        injections = [
            threads.submit(_inject, part, context, number, several=True) for part, number in parts
        ]
        try:
            wait(injections, return_when=FIRST_EXCEPTION)
        finally:
            if not all(one.done() and one.exception() is None for one in injections):
                context.cancelled.set()
    errors = [
        error for error in (injection.exception() for injection in injections) if error is not None
    ]
    if errors:
        raise min(errors, key=_rank)
    return tuple(fault for injection in injections for fault in injection.result())


def _rank(error: BaseException) -> int:
    """Return the rank of an error; the lowest is raised.

    A failed heal outranks any other error, and an abandoned part is the consequence of another
    one's.
    """
    if isinstance(error, HealFailed):
        return 0
    return 2 if isinstance(error, FaultAbandoned) else 1


def _inject_one(request: FaultRequest, context: FaultContext) -> InjectedFault:
    kind = FAULTS[request.kind]
    try:
        evidence = kind.inject(context, kind.parameters.model_validate(request.parameters))
    except FaultMissed as missed:
        context.add_evidence(str(missed))
        evidence = context.fault_evidence(took_effect=False)
    began_ns = context.begins_ns[0] if context.begins_ns else None
    return InjectedFault(context.name, request, evidence, began_ns)
