"""A finding: whether the figures of a sweep support the claim of its experiment.

A finding is computed from measured figures only. It has one sentence per case, with its figures and
their intervals. Where the figures decide nothing it is inconclusive and names the number of repeats
that would be enough.

What the lessons share is here: shares of trials, and the text of a duration, a percentage and a
median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen, Scalar
from ackbench.experiments.messages.markdown import escaped
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.lessons.plots import Plot
from ackbench.experiments.results.models import CellResult, SweepResults, TrialResult
from ackbench.experiments.results.rows import Row
from ackbench.experiments.sweep.client_kinds import LIBRARIES
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.guarantees.violations import is_positive
from ackbench.experiments.verdicts.statistics import Share, share_of

MIN_TRIALS: Final = 3
"""Judged trials that each case needs; with fewer the finding is inconclusive.

What happens in 3 of 4 trials may be absent from 2. The sentences show the interval of every share,
however wide it is.
"""
RATE_AXIS: Final = "workload.rate_records_per_s"
CLIENT_NAMES: Final[Mapping[str, str]] = {kind: one.title for kind, one in LIBRARIES.items()}
"""How sentences name the values of the axis `client`."""


class Conclusion(StrEnum):
    """Whether a sweep supports a claim."""

    SUPPORTED = "supported"
    PARTLY_SUPPORTED = "partly supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


class Finding(Frozen):
    """The answer of a sweep to the claim of its experiment."""

    lesson: int
    conclusion: Conclusion
    lead: str | None = None
    """Context of all sentences, so that none has to repeat it."""
    sentences: tuple[str, ...] = Field(min_length=1)
    """What was measured, one sentence per case, with figures and intervals."""
    remark: str
    """What follows from the figures.

    For a claim that is not fully supported: what is true instead. For an inconclusive one: what is
    missing.
    """
    repeats_needed: int | None = None
    """For an inconclusive finding: how many repeats are enough.

    Null when more repeats would not help.
    """
    plot: Plot | None = Field(default=None, discriminator="kind")

    @property
    def sentence(self) -> str:
        """The lead and all sentences as one paragraph."""
        return " ".join([*([self.lead] if self.lead else []), *self.sentences])

    @property
    def summary(self) -> str:
        """The remark, and the number of repeats that would be enough."""
        if not self.repeats_needed:
            return self.remark
        repeats = self.repeats_needed
        return f"{self.remark} {repeats} repeats would be enough (--repeats {repeats})."

    @property
    def text(self) -> str:
        """Sentences and summary as one paragraph."""
        return f"{self.sentence} {self.summary}"

    def lines(self) -> list[str]:
        """Return the finding for a terminal: the conclusion, one bullet per case, the summary."""
        head = f"{self.conclusion}:"
        if len(self.sentences) == 1:
            return [f"{head} {self.sentence}", self.summary]
        bullets = [f"- {sentence}" for sentence in self.sentences]
        return [f"{head} {self.lead}" if self.lead else head, *bullets, self.summary]

    def markdown(self) -> str:
        """Return the finding as Markdown: paragraphs, and a list of several cases."""
        if len(self.sentences) == 1:
            cases = [escaped(self.sentence)]
        else:
            bullets = "\n".join(f"- {escaped(sentence)}" for sentence in self.sentences)
            cases = [*([escaped(self.lead)] if self.lead else []), bullets]
        if self.conclusion is Conclusion.INCONCLUSIVE:
            head = "The evidence is inconclusive."
        else:
            head = f"The claim is {self.conclusion}."
        return "\n\n".join([f"**{head}**", *cases, escaped(self.summary)])


@dataclass(frozen=True)
class FindingInput:
    """What a finding is computed from: one sweep and its tables."""

    lesson: int
    """Number of the lesson that makes the claim."""
    plan: Plan
    results: SweepResults
    rows: Callable[[str], Mapping[str, Sequence[Row]]]
    """Returns a table of `experiments.ledger.result_tables.RESULTS` by its name: rows by trial."""

    def cells(self, **values: Scalar) -> list[CellResult]:
        """Return the experiment's own cells that were run and have these values.

        Controls that the planner added and refused cells are not among them.

        Args:
            values: value by axis. A dot of the axis is written as two underscores:
                `min__insync__replicas=1`.
        """
        by_axis = {name.replace("__", "."): value for name, value in values.items()}
        own = [cell for cell in self.results.cells if not cell.added and cell.refused is None]
        return [
            cell
            for cell in own
            if all(
                axis in cell.cell and _same_value(cell.cell[axis], value)
                for axis, value in by_axis.items()
            )
        ]

    def trials(self, **values: Scalar) -> list[TrialResult]:
        """Return the judged trials of the cells that `cells` returns for these values."""
        return [trial for cell in self.cells(**values) for trial in self.cell_trials(cell)]

    def cell_trials(self, cell: CellResult) -> list[TrialResult]:
        """Return the judged trials of a cell."""
        return list(judged_trials(self.results, cell))


def _same_value(actual: Scalar, expected: Scalar) -> bool:
    """`1` and `True` are different values of an axis, and equal ones to Python."""
    return actual == expected and isinstance(actual, bool) == isinstance(expected, bool)


def repeats_needed(conclusion: Conclusion, shares: Iterable[Share] = ()) -> int | None:
    """Return how many repeats would be enough for an inconclusive finding; else None.

    Args:
        conclusion: the finding's.
        shares: shares that decide the finding. What was too rare in them needs twice the trials.
    """
    if conclusion is not Conclusion.INCONCLUSIVE:
        return None
    return max([2 * MIN_TRIALS, *(2 * one.trials for one in shares)])


# Shares and figures of several trials


def share_with(trials: Sequence[TrialResult], count: Callable[[TrialResult], int | None]) -> Share:
    """Return the share of trials with a count above 0.

    Args:
        trials: the trials.
        count: the count of one trial; a trial for which it is unknown (None) is left out.
    """
    known = [number for number in map(count, trials) if number is not None]
    return share_of(number > 0 for number in known)


def share_with_loss(trials: Sequence[TrialResult]) -> Share:
    """Return the share of trials that lost acknowledged records.

    A trial in which only records of unknown outcome are absent cannot tell: it counts as unknown,
    and is in neither `seen` nor `of`.
    """
    return share_of(is_positive(trial.lost) for trial in trials if trial.lost is not None)


def share_recovered_before_heal(trials: Sequence[TrialResult]) -> Share:
    """Return the share of trials whose partitions accepted records before the fault was healed."""
    return share_with(trials, lambda trial: trial.recovered_before_heal)


def unavailable_ms(trials: Sequence[TrialResult]) -> list[float]:
    """Return the longest time without an acknowledgement of each trial, milliseconds."""
    return [trial.unavailable_ms for trial in trials if trial.unavailable_ms is not None]


def acked_in_time_percent(trial: TrialResult) -> float | None:
    """Return the part of the offered load that a trial acknowledged in time, percent.

    `None`: it is not measured, or the trial's cell has no axis for the rate.
    """
    if trial.throughput_records_per_s is None or RATE_AXIS not in trial.cell:
        return None
    return 100 * trial.throughput_records_per_s / float(str(trial.cell[RATE_AXIS]))


def ack_p50_ms(trial: TrialResult) -> float | None:
    """Return the median time to an acknowledgement, milliseconds; `None`: there is none."""
    latency = trial.latency_ms.ack
    return latency.p50 if latency else None


# Format of figures in sentences


def describe_duration(duration_ms: float) -> str:
    """Return a duration as text: `9.4 s`, and below one second `350 ms`.

    Args:
        duration_ms: milliseconds.
    """
    if duration_ms < 999.5:  # noqa: PLR2004 - more would be rounded to 1000 ms
        return f"{duration_ms:.0f} ms"
    return f"{duration_ms / 1000:.1f} s"


def describe_durations(durations_ms: Sequence[float]) -> str:
    """Return the median and the range of one duration per trial.

    Example: `9.4 s (9.1 s to 9.9 s in 3 trials)`; for one trial `9.4 s (1 trial)`.

    Args:
        durations_ms: milliseconds, one value per trial.

    Raises:
        ValueError: there is no value.
    """
    return _median_and_range(durations_ms, describe_duration)


def describe_values(values: Sequence[float], decimals: int = 0, unit: str = "") -> str:
    """Return the median and the range of one figure per trial.

    Example: `1.02 (0.98 to 1.10 in 3 trials)`; if all are equal, `1.02 (3 trials)`.

    Args:
        values: one value per trial.
        decimals: digits behind the point.
        unit: appended to each figure, with its space: ` %`.

    Raises:
        ValueError: there is no value.
    """
    return _median_and_range(values, lambda value: f"{value:,.{decimals}f}{unit}")


def _median_and_range(values: Sequence[float], formatted: Callable[[float], str]) -> str:
    if not values:
        raise ValueError("no value: a median needs at least one trial")
    middle, low, high = map(formatted, (median(values), min(values), max(values)))
    limits = f"{low} to {high} in " if low != high else ""
    return f"{middle} ({limits}{format_count(len(values), 'trial')})"


def format_percent(part: float) -> str:
    """Return a part of 1 in percent: `0.4 %`, `36 %`, `99.6 %`.

    A decimal is added next to 0 % and 100 %, so that a few are not rounded to none.
    """
    percent = 100 * part
    decimals = 1 if 0 < percent < 1 or 99 < percent < 100 else 0  # noqa: PLR2004 - percent
    return f"{percent:.{decimals}f} %"
