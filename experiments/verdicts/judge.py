"""Verdicts: per cell and guarantee, whether it held in the cell's trials, with the reasons.

`docs/contract.md` describes the rules. A verdict rests on the sealed trials that are conclusive for
its guarantee. A void, incomplete or failed trial is set aside: it is in no share, and it cannot
show that a guarantee held. With a complete ledger it can show that one was violated, since what
happened in it is no more than the fault was to do; only what depends on the fault's duration is not
judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from pydantic import ConfigDict, Field, computed_field

from ackbench.experiments.ledger.quantities import TrialQuantities
from ackbench.experiments.ledger.trial_manifest import SET_ASIDE, Frozen, Status
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.evidence import (
    ControlNotClean,
    Evidence,
    GeneratorLate,
    Inconclusive,
    NoSealedTrial,
    Observed,
    ObservedSetAside,
    PositiveControlFailed,
    PowerNotShown,
    SetAside,
    Stalled,
    UnknownCause,
)
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee, NamedGuarantee
from ackbench.experiments.verdicts.guarantees.violations import Doubt, Violation
from ackbench.experiments.verdicts.sentences import JudgedCase, evidence_sentence
from ackbench.experiments.verdicts.statistics import Share, share_of


class Verdict(StrEnum):
    """The verdict on one guarantee of one cell."""

    HELD = "HELD"
    """Guaranteed, and no trial showed a violation."""
    VIOLATED = "VIOLATED"
    """Guaranteed, and at least one trial showed a violation."""
    NOT_GUARANTEED = "NOT GUARANTEED"
    """Not guaranteed; `Judgement.violation_seen` is whether it was observed all the same."""
    UNKNOWN = "UNKNOWN"
    """The trials or the sweep's controls do not allow a verdict, or the contract does not know
    whether it is guaranteed."""


class HarnessCheck(Frozen):
    """What a sweep's controls show about the harness itself."""

    control_clean: bool | None = None
    """No lost, duplicate, phantom or corrupt record without a fault; null: no control measured."""
    positive_control_lost: bool | None = None
    """The positive control, which must lose, lost in each of its trials; null: none measured."""
    positive_control_torn: bool | None = None
    """Each trial in which a late EndTxn must tear a transaction shows one that is torn; null: the
    sweep has no such cell, or none of its trials was measured."""
    detections: Mapping[NamedGuarantee, int] = Field(default_factory=dict)
    """In how many measured trials of the sweep each guarantee was seen to be violated.

    Whatever the cell: it proves that this workload, ledger and measure can show such a violation.
    """
    sentences: tuple[str, ...] = ()
    """What the controls showed, as text."""

    @property
    def failed(self) -> bool:
        """Whether a control failed. A control that was not measured has not failed."""
        return False in {self.control_clean, self.positive_control_lost, self.positive_control_torn}

    def shows_power(self, guarantee: Guarantee) -> bool:
        """Return whether a trial of the sweep showed a violation of this guarantee."""
        return bool(self.detections.get(guarantee))


class NamedRecord(Frozen):
    """A record that violated a guarantee."""

    trial_id: str
    producer: int | None
    seq: int | None


class TrialFacts(TrialQuantities):
    """What a verdict takes into account of one trial. `None`: unknown, which is not zero."""

    trial_id: str
    status: Status
    reason: str | None = None
    """Why the trial is set aside."""
    disturbed: bool = False
    """Whether a process died of something else than the fault: the trial shows nothing."""
    stalls: tuple[str, ...] = ()
    """What kept processes of the trial from running, other than Kafka and the fault."""
    records: Mapping[NamedGuarantee, tuple[NamedRecord, ...]] = Field(default_factory=dict)
    """The first records that violated a guarantee, for guarantees about records."""


class Judgement(Frozen):
    """A verdict with its reasons."""

    model_config = ConfigDict(
        validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    guarantee: NamedGuarantee
    verdict: Verdict
    unknown_cause: UnknownCause | None = None
    """For UNKNOWN: why. `None`: another verdict."""
    power_shown: bool | None = None
    """For HELD: whether another trial of the sweep showed a violation of this guarantee, which
    proves that the sweep can see one. `None`: another verdict."""
    violation_seen: bool | None = Field(alias="seen")
    """Whether a conclusive trial showed a violation, guaranteed or not; `None`: unknown. In JSON it
    is `seen`."""
    share: Share | None
    """In how many trials; its `unknown` ones are inconclusive. `None`: all of them are."""
    mechanism: str
    """Of the contract clause, as a sentence."""
    evidence: tuple[Evidence, ...] = ()
    """In the order of the sentences."""
    trials: tuple[str, ...] = ()
    """IDs of the trials that showed a violation."""
    set_aside: tuple[str, ...] = ()
    """Of these, those that are void, incomplete or failed; they are in no share."""
    records: tuple[NamedRecord, ...] = ()
    """The first `MAX_NAMED_RECORDS`, by trial, producer and seq.

    `results/anomalies.parquet` has all, or the first `ANOMALY_ROWS` of each trial and cause.
    """
    records_total: int = 0

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know pydantic's decorator
    @property
    def reasons(self) -> tuple[str, ...]:
        """Sentences: the mechanism of the contract clause first, then the evidence."""
        violating = [trial for trial in self.trials if trial not in self.set_aside]
        case = JudgedCase(self.guarantee, self.share, violating)
        return (self.mechanism, *(evidence_sentence(case, one) for one in self.evidence))


MAX_NAMED_RECORDS: Final = 5
"""How many records a judgement names."""


def judge(
    clauses: Sequence[ContractClause], trials: Sequence[TrialFacts], harness: HarnessCheck
) -> tuple[Judgement, ...]:
    """Return a judgement for each clause of a cell's contract.

    Args:
        clauses: what is guaranteed to the cell, and what is not.
        trials: all finished trials of the cell in any order, including void and failed ones.
        harness: what the sweep's controls showed.
    """
    ordered = sorted(trials, key=lambda trial: trial.trial_id)
    return tuple(_judgement(_Case(clause, ordered, harness)) for clause in clauses)


@dataclass(frozen=True)
class _Case:
    """One clause with the evidence on it."""

    clause: ContractClause
    trials: Sequence[TrialFacts]
    harness: HarnessCheck

    @property
    def guarantee(self) -> Guarantee:
        return self.clause.guarantee

    @property
    def violated_by(self) -> Violation:
        return self.guarantee.violated_by

    def sealed(self) -> list[TrialFacts]:
        return [trial for trial in self.trials if trial.status is Status.SEALED]

    def conclusive(self) -> list[TrialFacts]:
        return [t for t in self.sealed() if self.violated_by.shown_in(t) is not None]

    def inconclusive(self) -> list[TrialFacts]:
        return [t for t in self.sealed() if self.violated_by.shown_in(t) is None]

    def violating(self) -> list[TrialFacts]:
        return [t for t in self.sealed() if self.violated_by.shown_in(t)]

    def violating_set_aside(self) -> list[TrialFacts]:
        if self.violated_by.of_time:
            return []
        return [
            trial
            for trial in self.trials
            if trial.status is not Status.SEALED
            and not trial.disturbed
            and self.violated_by.shown_in(trial)
        ]

    def observed(self) -> bool | None:
        """Return whether a trial shows a violation; `None` if inconclusive trials may hide one."""
        if self.violating():
            return True
        if self.inconclusive() or not self.conclusive():
            return None
        return False

    def is_violated(self) -> bool:
        """Return whether a trial, sealed or set aside, shows a violation."""
        return bool(self.violating() or self.violating_set_aside())

    def share(self) -> Share:
        return share_of(self.violated_by.shown_in(trial) for trial in self.sealed())

    def power_shown(self) -> bool:
        """Return whether a trial of the sweep showed a violation of the guarantee."""
        return self.harness.shows_power(self.guarantee)

    def lacks_power(self) -> bool:
        """Return whether the guarantee's positive control failed, so that HELD proves nothing."""
        control = self.guarantee.control
        return control is not None and getattr(self.harness, control.result) is False


def _judgement(case: _Case) -> Judgement:
    set_aside = case.violating_set_aside()
    trials = [*case.violating(), *set_aside]
    records = sorted(
        (record for trial in trials for record in trial.records.get(case.guarantee, ())),
        key=_record_key,
    )
    unknown_cause = _unknown_cause(case)
    verdict = _verdict(case, unknown_cause)
    return Judgement(
        guarantee=case.guarantee,
        verdict=verdict,
        unknown_cause=unknown_cause,
        power_shown=case.power_shown() if verdict is Verdict.HELD else None,
        violation_seen=True if verdict is Verdict.VIOLATED else case.observed(),
        share=case.share() if case.conclusive() else None,
        mechanism=case.clause.reason,
        evidence=tuple(_evidence(case, verdict)),
        trials=_ids(trials),
        set_aside=_ids(set_aside),
        records=tuple(records[:MAX_NAMED_RECORDS]),
        records_total=sum(case.violated_by.count(trial) for trial in trials),
    )


def _unknown_cause(case: _Case) -> UnknownCause | None:
    """Return why the verdict is unknown; `None`: there is another one."""
    if case.harness.control_clean is False:
        return UnknownCause.CONTROL_NOT_CLEAN
    if case.clause.guaranteed is None:
        return UnknownCause.CONTRACT
    if not case.clause.guaranteed or case.is_violated():
        return None
    if not case.sealed():
        return UnknownCause.NO_SEALED_TRIAL
    if case.observed() is None:
        return UnknownCause.INCONCLUSIVE
    return UnknownCause.POSITIVE_CONTROL_FAILED if case.lacks_power() else None


def _verdict(case: _Case, unknown_cause: UnknownCause | None) -> Verdict:
    if unknown_cause:
        return Verdict.UNKNOWN
    if not case.clause.guaranteed:
        return Verdict.NOT_GUARANTEED
    return Verdict.VIOLATED if case.is_violated() else Verdict.HELD


class _Ended(Protocol):
    """A trial with its values, of which `TrialFacts` is one."""

    @property
    def status(self) -> Status: ...


def count_detections(trials: Iterable[_Ended]) -> dict[Guarantee, int]:
    """Return in how many of the sealed trials each guarantee was seen to be violated.

    Args:
        trials: of all cells of a sweep, whether they have the guarantee or not.
    """
    sealed = [trial for trial in trials if trial.status is Status.SEALED]
    return {
        guarantee: sum(bool(guarantee.violated_by.shown_in(trial)) for trial in sealed)
        for guarantee in GUARANTEES
    }


def violations_of(trial: TrialQuantities) -> dict[Guarantee, int]:
    """Return how many records, reads or transactions violate each guarantee that is about them.

    Guarantees without a violation are left out, and so is what the trial cannot tell.
    """
    return {
        guarantee: count
        for guarantee in GUARANTEES
        if (count := guarantee.violated_by.count(trial))
    }


def _record_key(record: NamedRecord) -> tuple[str, int, int]:
    return (
        record.trial_id,
        -1 if record.producer is None else record.producer,
        -1 if record.seq is None else record.seq,
    )


def _evidence(case: _Case, verdict: Verdict) -> Iterator[Evidence]:
    """Yield what the verdict rests on, in addition to the mechanism of the clause."""
    if case.harness.control_clean is False:
        yield ControlNotClean()
    if not case.sealed():
        yield NoSealedTrial()
    if case.conclusive():
        yield Observed()
    for trial in case.violating_set_aside():
        yield ObservedSetAside(
            trial_id=trial.trial_id, status=trial.status, count=case.violated_by.count(trial)
        )
    yield from _inconclusive_trials(case)
    if case.lacks_power():
        yield PositiveControlFailed()
    elif verdict is Verdict.HELD and not case.power_shown():
        yield PowerNotShown()
    yield from _unjudged_and_late_trials(case)


def _inconclusive_trials(case: _Case) -> Iterator[Inconclusive]:
    """Yield the sealed trials that cannot tell: those that were measured, then the others."""
    inconclusive, of = case.inconclusive(), len(case.sealed())
    if measured := [trial for trial in inconclusive if trial.is_measured]:
        yield _inconclusive(case.violated_by, measured, of)
    if others := [trial for trial in inconclusive if not trial.is_measured]:
        yield Inconclusive(doubt=Doubt.NOT_MEASURED, trials=_ids(others), of=of)


def _unjudged_and_late_trials(case: _Case) -> Iterator[Evidence]:
    for status in SET_ASIDE:
        reasons = {one.trial_id: one.reason for one in case.trials if one.status is status}
        if reasons:
            yield SetAside(status=status, reasons=reasons)
    if late := [trial for trial in case.sealed() if trial.generator_late]:
        yield GeneratorLate(trials=_ids(late))
    if stalled := {trial.trial_id: trial.stalls[0] for trial in case.sealed() if trial.stalls}:
        yield Stalled(first=stalled)


def _inconclusive(violated_by: Violation, trials: Sequence[TrialFacts], of: int) -> Inconclusive:
    doubt = violated_by.doubt(trials)
    bounds = [violated_by.at_most(trial) for trial in trials if doubt is Doubt.NOT_BOUNDED]
    return Inconclusive(
        doubt=doubt,
        trials=_ids(trials),
        of=of,
        at_most=tuple(bound for bound in bounds if bound is not None),
    )


def _ids(trials: Iterable[TrialFacts]) -> tuple[str, ...]:
    return tuple(trial.trial_id for trial in trials)
