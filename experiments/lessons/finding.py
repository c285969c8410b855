"""What a sweep has to say to the claim of its experiment: a sentence made of its figures, and whether the claim stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from statistics import median
from typing import Final

from pydantic import Field

from experiments.ledger.record import Frozen, Scalar
from experiments.lessons.plots import Plot
from experiments.messages.counts import counted
from experiments.results.cells import judged_trials
from experiments.results.models import CellResult, SweepResults, TrialResult
from experiments.results.rows import Row
from experiments.sweep.plan import Plan
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.statistics import Share, share


class Conclusion(StrEnum):
    """What becomes of a claim."""

    SUPPORTED = "supported"
    PARTLY_SUPPORTED = "partly supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


class Finding(Frozen):
    """The answer to an experiment's question."""

    lesson: int
    conclusion: Conclusion
    lead: str | None = None
    """What was done or is compared, before all sentences, where they would say it each time."""
    sentences: tuple[str, ...] = Field(min_length=1)
    """What was seen, with its figures and their intervals: a sentence for each case."""
    remark: str
    """What follows; of a claim that does not stand as it is said: what is true instead; of one that is open: what is missing."""
    repeats_needed: int | None = None
    """Of one that is open: how many repeats would do; `None`: more repeats are not what is missing."""
    plot: Plot | None = Field(default=None, discriminator="kind")

    @property
    def sentence(self) -> str:
        """What was seen, in a row."""
        return " ".join([*([self.lead] if self.lead else []), *self.sentences])

    @property
    def summary(self) -> str:
        """What follows, or what is missing and how many repeats would do."""
        return (
            f"{self.remark} {self.repeats_needed} repeats would do (--repeats {self.repeats_needed})."
            if self.repeats_needed
            else self.remark
        )

    def lines(self) -> list[str]:
        """Return all of it a line each: what becomes of the claim, a point for each case, what follows."""
        head = f"{self.conclusion}:"
        if len(self.sentences) == 1:
            return [f"{head} {self.sentence}", self.summary]
        points = [f"- {sentence}" for sentence in self.sentences]
        return [f"{head} {self.lead}" if self.lead else head, *points, self.summary]

    def markdown(self) -> str:
        """Return the same as paragraphs and a list."""
        seen = (
            [self.sentence]
            if len(self.sentences) == 1
            else [
                *([self.lead] if self.lead else []),
                "\n".join(f"- {one}" for one in self.sentences),
            ]
        )
        inconclusive = self.conclusion is Conclusion.INCONCLUSIVE
        head = "The evidence is inconclusive." if inconclusive else f"The claim is {self.conclusion}."
        return "\n\n".join([f"**{head}**", *seen, self.summary])

    @property
    def text(self) -> str:
        """All of it in a row."""
        return f"{self.sentence} {self.summary}"


@dataclass(frozen=True)
class FindingInput:
    """What findings are made of."""

    plan: Plan
    results: SweepResults
    rows: Callable[[str], Mapping[str, Sequence[Row]]]
    """A table of `experiments.ledger.result_tables.RESULTS`, by trial."""

    def cells(self, **wanted: Scalar) -> list[CellResult]:
        """Return the experiment's own cells that were run and have these values; dots in names are written as two underscores (`min__insync__replicas`)."""
        named = {name.replace("__", "."): value for name, value in wanted.items()}
        own = [cell for cell in self.results.cells if not cell.added and cell.refused is None]
        return [
            cell
            for cell in own
            if all(
                name in cell.cell and _same(cell.cell[name], value) for name, value in named.items()
            )
        ]

    def trials(self, **wanted: Scalar) -> list[TrialResult]:
        """Return the judged trials of such cells."""
        return [
            trial for cell in self.cells(**wanted) for trial in judged_trials(self.results, cell)
        ]

    def rows_of(self, cell: CellResult, name: str) -> list[Row]:
        """Return a table's rows of a cell's judged trials."""
        rows = self.rows(name)
        return [
            row
            for trial in judged_trials(self.results, cell)
            for row in rows.get(trial.trial_id, ())
        ]

    def violated(self, guarantee: Guarantee) -> bool:
        """Whether a promise that Kafka gives was seen broken in any cell."""
        from experiments.verdicts.judge import Verdict

        return any(
            judgement.guarantee is guarantee and judgement.verdict is Verdict.VIOLATED
            for cell in self.cells()
            for judgement in cell.judgements
        )


RATE: Final = "workload.rate_records_per_s"
LEAST_TRIALS: Final = 3
"""Of a cell; fewer carry no finding: what was seen in none of two may happen in three of four. Its interval stands in the sentence, however wide."""


def repeats_needed(conclusion: Conclusion, seen: Iterable[Share]) -> int | None:
    """Return how many repeats would do where a finding is open for want of judged trials, or of ones in which the rare thing happened; else `None`."""
    if conclusion is not Conclusion.INCONCLUSIVE:
        return None
    return max(LEAST_TRIALS, *(2 * found.of for found in seen), 2 * LEAST_TRIALS)


def lossy(trials: Sequence[TrialResult]) -> Share:
    """Return in how many of the trials an acknowledged record was lost for certain."""
    return trials_with(trials, lambda trial: trial.lost[0] if trial.lost else None)


def trials_with(trials: Sequence[TrialResult], count: Callable[[TrialResult], int | None]) -> Share:
    """Return in how many of the trials there was any; those of which it is not known are in neither number."""
    known = [found for found in map(count, trials) if found is not None]
    return share(sum(found > 0 for found in known), len(known))


def back_before_the_heal(trials: Sequence[TrialResult]) -> Share:
    """Return in how many of the trials records were taken again before the fault was healed."""
    return trials_with(trials, lambda trial: trial.recovered_before_heal)


def in_time_percent(trials: Sequence[TrialResult]) -> list[float]:
    """Return how much of the load was acknowledged within its time, a trial each; trials whose cell does not say its rate are left out."""
    return [
        100 * trial.throughput_records_per_s / float(str(trial.cell[RATE]))
        for trial in trials
        if trial.throughput_records_per_s is not None and RATE in trial.cell
    ]


def by_trial(rows: Sequence[Row]) -> list[list[Row]]:
    """Return rows that stand trial by trial, as `Material.rows_of` has them, those of each trial together."""
    return [list(of) for _, of in groupby(rows, key=itemgetter("trial_id"))]


def _same(found: Scalar, wanted: Scalar) -> bool:
    """`1` and `True` are different values of an axis, and equal ones to Python."""
    return found == wanted and isinstance(found, bool) == isinstance(wanted, bool)


# ---------- Figures of several trials in words: a time's median and between which values it lies, how many records were lost. Pure.


CLIENTS: Final = {"librdkafka": "librdkafka", "java": "Java's client"}
"""What the values of the axis `client` are called."""


def seconds(values_ms: Sequence[float]) -> str:
    """Say how long something took in each of some trials: `9.4 s (9.1 s to 9.9 s in 3 trials)`; of one, `9.4 s (1 trial)`. Milliseconds in.

    Raises:
        ValueError: there is no value.
    """
    return _spread(values_ms, seconds_of_one)


def seconds_of_one(value_ms: float) -> str:
    """Say a time: `9.4 s`, and below a second `350 ms`. Milliseconds in."""
    return f"{value_ms:.0f} ms" if value_ms < 999.5 else f"{value_ms / 1000:.1f} s"  # noqa: PLR2004 - what would be rounded to 1000 ms


def spread(values: Sequence[float], decimals: int = 0, unit: str = "") -> str:
    """Say a figure of each of some trials: `1.02 (0.98 to 1.10 in 3 trials)`; where all are alike, `1.02 (3 trials)`.

    Raises:
        ValueError: there is no value.
    """
    return _spread(values, lambda value: f"{value:,.{decimals}f}{unit}")


def percent(share: float) -> str:
    """Say a share; what is neither 0 nor 1 is hardly ever rounded to it: `0.4 %`, `36 %`, `99.6 %`."""
    hundredths = 100 * share
    decimals = 1 if 0 < hundredths < 1 or 99 < hundredths < 100 else 0  # noqa: PLR2004 - of a hundred
    return f"{hundredths:.{decimals}f} %"


def records_lost(trials: Sequence[TrialResult]) -> str:
    """Say how many records the trials with loss lost, as the end of a clause: ` (2,310 records at the median)`; of none with loss, nothing."""
    counts = [trial.lost[0] for trial in trials if trial.lost and trial.lost[0]]
    return f" ({median(counts):,.0f} records at the median)" if counts else ""


def _spread(values: Sequence[float], told: Callable[[float], str]) -> str:
    if not values:
        raise ValueError("no value has no median")
    middle, least, most = map(told, (median(values), min(values), max(values)))
    apart = f"{least} to {most} in " if least != most else ""
    return f"{middle} ({apart}{counted(len(values), 'trial')})"
