"""What became of each promise: held, violated, not made, or not known, and why. Pure.

`docs/contract.md` has the rules in words. Share and reasons count sealed trials in which the promise can be judged; void and failed ones
are named in the reasons and judged in nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import Field

from experiments.ledger.record import Frozen, Status
from experiments.messages.counts import plural
from experiments.verdicts.contract import ContractClause, Guarantee
from experiments.verdicts.statistics import Share, share, words


class Verdict(StrEnum):
    """On one promise of one cell."""

    HELD = "HELD"
    VIOLATED = "VIOLATED"
    NOT_PROMISED = "NOT PROMISED"
    UNKNOWN = "UNKNOWN"


class HarnessCheck(Frozen):
    """Whether the sweep's own controls say that its figures can be believed."""

    control_clean: bool | None = None
    """No loss, no duplicate, no phantom, no corrupt record without a fault; null: no control was measured."""
    positive_control_lost: bool | None = None
    """The cell that must lose did, in at least one trial; null: none was measured."""
    sentences: tuple[str, ...] = ()
    """What the controls showed, for a person."""

    @property
    def failed(self) -> bool:
        """Whether a control forbids to believe the sweep's figures; one that was not measured forbids nothing."""
        return self.control_clean is False or self.positive_control_lost is False


class NamedRecord(Frozen):
    """A record that broke a promise."""

    trial_id: str
    producer: int | None
    seq: int | None


class TrialFacts(Frozen):
    """What a verdict needs to know of one trial. `None`: the trial does not tell, which is not the same as none."""

    trial_id: str
    status: Status
    reason: str | None = None
    """Why it is void or failed."""
    lost: tuple[int, int] | None = None
    """Acked and absent; and that with the unknown and absent ones."""
    duplicated: int | None = None
    """Records with more than one copy."""
    reordered: int | None = None
    """Records whose first copy lies behind one that was sent later."""
    unatomic: int | None = None
    """Transactions shown in part, and records shown of those that were not committed; `None`: it had no transactions."""
    group_missed: int | None = None
    """Records that the consumer group committed past and no member processed; `None`: there was no group."""
    group_repeated: int | None = None
    """How often members processed a record again; `None`: there was no group."""
    recovered_before_heal: bool | None = None
    """Every partition that stopped to take records took them again before the fault was healed; `None` also without a fault."""
    generator_late: bool | None = None
    records: Mapping[Guarantee, tuple[NamedRecord, ...]] = Field(default_factory=dict)
    """The first records that broke a promise, where it is one of records."""


class Judgement(Frozen):
    """A verdict with its reasons."""

    guarantee: Guarantee
    verdict: Verdict
    seen: bool | None
    """Whether the thing that the promise excludes was seen in any judged trial; `None`: none could be judged."""
    share: Share | None
    """Of the judged trials, in how many it was seen."""
    reasons: tuple[str, ...]
    """Sentences: what it rests on, the commitment's mechanism first."""
    trials: tuple[str, ...] = ()
    """Where it was seen."""
    records: tuple[NamedRecord, ...] = ()
    """The first of them, by trial and number; all are in `results/anomalies.parquet`."""
    records_total: int = 0


NAMED: Final = 5
"""How many records a judgement names."""

EXCLUDED: Final[Mapping[Guarantee, str]] = {
    Guarantee.NO_ACKED_LOSS: "an acknowledged record was lost",
    Guarantee.NO_DUPLICATES: "a record was stored more than once",
    Guarantee.ORDER: "a record lies behind one that was sent later",
    Guarantee.ATOMICITY: "a transaction was shown in part, or was shown though it was not committed",
    Guarantee.AVAILABILITY: "a partition took no record until the fault was healed",
    Guarantee.NONE_MISSED: "a record was committed and processed by no member of the group",
    Guarantee.NONE_REPEATED: "a record was processed more than once by the group",
}
"""What each promise excludes, as it reads after "in 2 of 5 trials"."""


def judge(
    clauses: Sequence[ContractClause], trials: Sequence[TrialFacts], harness: HarnessCheck
) -> tuple[Judgement, ...]:
    """Return a verdict on each commitment of a cell.

    Args:
        clauses: what is promised to the cell, and what not.
        trials: all trials of the cell that came to an end, in any order, void and failed ones among them.
        harness: what the sweep's controls showed.
    """
    ordered = sorted(trials, key=lambda trial: trial.trial_id)
    return tuple(_judgement(_JudgedCell(commitment, ordered, harness)) for commitment in clauses)


@dataclass(frozen=True)
class _JudgedCell:
    """One promise before the judge."""

    commitment: ContractClause
    trials: Sequence[TrialFacts]
    harness: HarnessCheck

    @property
    def guarantee(self) -> Guarantee:
        return self.commitment.guarantee

    def sealed(self) -> list[TrialFacts]:
        return [trial for trial in self.trials if trial.status is Status.SEALED]

    def clear(self) -> list[TrialFacts]:
        return [trial for trial in self.sealed() if _seen(self.guarantee, trial) is not None]

    def unclear(self) -> list[TrialFacts]:
        return [trial for trial in self.sealed() if _seen(self.guarantee, trial) is None]

    def broken(self) -> list[TrialFacts]:
        return [trial for trial in self.sealed() if _seen(self.guarantee, trial)]

    def seen(self) -> bool | None:
        """Seen once is seen; not seen is known only where every sealed trial tells."""
        return True if self.broken() else None if self.unclear() or not self.clear() else False

    def without_power(self) -> bool:
        return (
            self.guarantee is Guarantee.NO_ACKED_LOSS
            and self.harness.positive_control_lost is False
        )


def _judgement(case: _JudgedCell) -> Judgement:
    records = sorted(
        (record for trial in case.broken() for record in trial.records.get(case.guarantee, ())),
        key=_place,
    )
    return Judgement(
        guarantee=case.guarantee,
        verdict=_verdict(case),
        seen=case.seen(),
        share=share(len(case.broken()), len(case.clear())) if case.clear() else None,
        reasons=(case.commitment.reason, *_reasons(case)),
        trials=tuple(trial.trial_id for trial in case.broken()),
        records=tuple(records[:NAMED]),
        records_total=sum(_records(case.guarantee, trial) for trial in case.broken()),
    )


def _verdict(case: _JudgedCell) -> Verdict:
    if case.harness.control_clean is False:
        return Verdict.UNKNOWN
    if not case.commitment.guaranteed:
        return Verdict.NOT_PROMISED
    if case.seen():
        return Verdict.VIOLATED
    return Verdict.UNKNOWN if case.seen() is None or case.without_power() else Verdict.HELD


def _seen(guarantee: Guarantee, trial: TrialFacts) -> bool | None:
    """Say whether the trial shows what the promise excludes; `None`: it does not tell."""
    if guarantee is Guarantee.NO_ACKED_LOSS:
        return _lost(trial)
    if guarantee is Guarantee.AVAILABILITY:
        return None if trial.recovered_before_heal is None else not trial.recovered_before_heal
    count = _counts(trial)[guarantee]
    return None if count is None else count > 0


def _counts(trial: TrialFacts) -> Mapping[Guarantee, int | None]:
    """Return how much there is of what promises exclude, where that can be counted without doubt."""
    return {
        Guarantee.NO_DUPLICATES: trial.duplicated,
        Guarantee.ORDER: trial.reordered,
        Guarantee.ATOMICITY: trial.unatomic,
        Guarantee.NONE_MISSED: trial.group_missed,
        Guarantee.NONE_REPEATED: trial.group_repeated,
    }


def _lost(trial: TrialFacts) -> bool | None:
    """Lost for certain, not lost for certain, or in between: an absent record of unknown outcome may have been acknowledged."""
    if trial.lost is None:
        return None
    low, high = trial.lost
    return True if low > 0 else False if high == 0 else None


def _records(guarantee: Guarantee, trial: TrialFacts) -> int:
    """Return how many records broke the promise for certain; availability is no matter of records."""
    of = {Guarantee.NO_ACKED_LOSS: trial.lost and trial.lost[0], **_counts(trial)}
    return of.get(guarantee) or 0


def _place(record: NamedRecord) -> tuple[str, int, int]:
    return (
        record.trial_id,
        -1 if record.producer is None else record.producer,
        -1 if record.seq is None else record.seq,
    )


def _reasons(case: _JudgedCell) -> Iterator[str]:
    """Yield what the verdict rests on, after the commitment's mechanism."""
    if case.harness.control_clean is False:
        yield "the control, in which nothing was broken, was not clean: the harness is at fault, and nothing it saw can be relied on"
    yield from _observed(case)
    yield from _untold(case)
    yield from _power(case)
    yield from _left_out(case)


def _observed(case: _JudgedCell) -> Iterator[str]:
    if not case.sealed():
        yield "no sealed trial: there is nothing to judge"
    if case.clear():
        named = "".join(f", {trial.trial_id}" for trial in case.broken())
        yield f"{EXCLUDED[case.guarantee]} in {words(share(len(case.broken()), len(case.clear())))}{named}"


def _untold(case: _JudgedCell) -> Iterator[str]:
    if not case.unclear():
        return
    if case.guarantee is Guarantee.NO_ACKED_LOSS and all(trial.lost for trial in case.unclear()):
        named = ", ".join(
            f"{trial.trial_id}: {trial.lost[1]}" for trial in case.unclear() if trial.lost
        )
        yield f"records of unknown outcome are absent, and any of them may have been acknowledged ({named})"
    else:
        yield f"not told by {len(case.unclear())} of {len(case.sealed())} sealed {plural(len(case.sealed()), 'trial')}"


def _power(case: _JudgedCell) -> Iterator[str]:
    if case.without_power():
        yield "the positive control, which must lose, lost nothing: that this harness would see a loss is not shown"
    elif (
        case.commitment.guaranteed
        and case.guarantee is Guarantee.NO_ACKED_LOSS
        and case.harness.positive_control_lost is None
        and case.seen() is False
    ):
        yield "no positive control was measured: that this harness would see a loss is not shown by this sweep"


def _left_out(case: _JudgedCell) -> Iterator[str]:
    for status in (Status.VOID, Status.FAILED):
        of = [trial for trial in case.trials if trial.status is status]
        if of:
            told = "; ".join(
                f"{trial.trial_id}: {trial.reason or 'no reason was left'}" for trial in of
            )
            yield f"{len(of)} {status.value} {plural(len(of), 'trial')}, judged in nothing ({told})"
    late = [trial.trial_id for trial in case.sealed() if trial.generator_late]
    if late:
        yield f"in {len(late)} judged {plural(len(late), 'trial')} the generator fell behind its own schedule ({', '.join(late)})"
