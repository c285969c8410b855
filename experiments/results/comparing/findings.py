"""What a comparison and its gate find, as codes and figures.

`experiments.results.comparing.sentences` has the words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen, Role
from ackbench.experiments.results.models import CellResult, ExpectationResult
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict

VIOLATED: Final = "violated"
"""The condition of a gate on violations."""
UNKNOWN: Final = "unknown"
"""The condition of a gate on unknown verdicts."""


class ComparedMeasure(StrEnum):
    """A measure that two cells are compared by."""

    LOSS = "loss"
    """The share of trials that certainly lost an acknowledged record."""
    DUPLICATES = "duplicates"
    """The share of trials with a duplicate in the log."""
    LATENCY_P99 = "latency_p99"
    """A trial's 99th percentile from intended time to acknowledgement, milliseconds."""
    OUTAGE = "outage"
    """A trial's longest time without an acknowledgement on a partition, milliseconds."""
    THROUGHPUT = "throughput"
    """Records acknowledged within the load window, per second."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of trials; if not, it is a number per trial."""
        return self in {ComparedMeasure.LOSS, ComparedMeasure.DUPLICATES}

    @property
    def more_is_worse(self) -> bool:
        """Whether a larger value is worse: true except for throughput."""
        return self is not ComparedMeasure.THROUGHPUT


class ChangeKind(StrEnum):
    """What the trials show of a difference; also its CSS class."""

    WORSE = "worse"
    """The whole interval is on the worse side of no difference."""
    BETTER = "better"
    SAME = "same"
    """The interval includes no difference."""
    UNKNOWN = "unknown"
    """There is no interval, or so few trials that no outcome could show a difference."""


class DifferenceTest(StrEnum):
    """The test of a difference, by its name."""

    MCNEMAR = "McNemar's, exact"
    WILCOXON = "Wilcoxon's signed ranks"
    FISHER = "Fisher's, exact"
    MANN_WHITNEY = "Mann and Whitney's"


class MissingCode(StrEnum):
    """Why a figure of a difference is missing."""

    NO_PAIRS = "no-pairs"
    """No two trials have the same seed."""
    NO_TRIAL = "no-trial"
    """One side has no sealed trial."""
    FEW_DIFFERING_PAIRS = "few-differing-pairs"
    """There is no p-value, because none could be below 0.05."""
    FEW_PAIRS_FOR_EFFECT = "few-pairs-for-effect"
    FEW_PAIRS_FOR_INTERVAL = "few-pairs-for-interval"
    FEW_TRIALS_FOR_INTERVAL = "few-trials-for-interval"
    """Of trials that are not paired."""
    NO_RATIO = "no-ratio"
    """A divisor is not above 0."""


class Missing(Frozen):
    """A figure of a difference that the trials do not show."""

    code: MissingCode
    trials: int
    """Pairs; unpaired: trials of the cell that has fewer."""
    differing: int | None = None
    """Of the pairs; null: not the reason."""


class SideVerdict(Frozen):
    """The verdict on a guarantee on one side."""

    verdict: Verdict
    seen: bool | None = None
    """Of what is not guaranteed: whether it was observed; null: not measurable."""
    unproven: bool = False
    """Whether it held, and no trial shows that a violation would be detected."""


class SettingChange(Frozen):
    """A setting that differs between the sides."""

    scope: str
    name: str
    a: str
    b: str


class SchedulesDiffer(Frozen):
    """The sides have different loads: trials of a repeat share their seed, not their schedule."""

    code: Literal["schedules-differ"] = "schedules-differ"


class SeedsDiffer(Frozen):
    """Trials are not compared in pairs."""

    code: Literal["seeds-differ"] = "seeds-differ"


class ControlsFailed(Frozen):
    """A control of the sweep failed."""

    code: Literal["controls-failed"] = "controls-failed"
    sweep: str
    controls: tuple[str, ...]
    """What the controls showed, as sentences."""


class MachineOverloaded(Frozen):
    """The machine was overloaded in trials of a sweep."""

    code: Literal["machine-overloaded"] = "machine-overloaded"
    sweep: str
    trials: int


class SweepIncomplete(Frozen):
    """Trials of a sweep have no results."""

    code: Literal["sweep-incomplete"] = "sweep-incomplete"
    sweep: str
    not_run: int
    not_measured: int


Caveat = Annotated[
    SchedulesDiffer | SeedsDiffer | ControlsFailed | MachineOverloaded | SweepIncomplete,
    Field(discriminator="code"),
]
"""What a reader must know about the figures."""


class Extent(Frozen):
    """The changes of the cells that are worse, or better: points of a share, or ratios."""

    cells: int
    median: float
    low: float
    high: float


class MeasureStatement(Frozen):
    """In how many cells one measure differs, and by how much."""

    measure: ComparedMeasure
    cells: int
    worse: Extent | None
    better: Extent | None
    same: int
    unknown: int


class VerdictsStatement(Frozen):
    """In how many cells verdicts differ."""

    cells: int
    changed_cells: int
    changed_verdicts: int


@dataclass(frozen=True)
class ControlNotJudged:
    """No trial of a control counts: such a sweep proves nothing."""

    sweep: str
    role: Role
    cell: str


class NoResult(StrEnum):
    """Why trials have no result."""

    NOT_RUN = "not run"
    NOT_MEASURED = "not measured"
    FAILED = "failed"


@dataclass(frozen=True)
class TrialsMissing:
    """Trials that a sweep was to have, without results."""

    sweep: str
    why: NoResult
    trials: tuple[str, ...]


@dataclass(frozen=True)
class NoTrialCounts:
    """A cell whose verdicts are about no trial."""

    sweep: str
    cell: str


@dataclass(frozen=True)
class NothingJudged:
    """A sweep without verdicts."""

    sweep: str


@dataclass(frozen=True)
class ConditionMet:
    """A cell that shows what the gate does not accept."""

    condition: str
    """As in `--fail-on`."""
    sweep: str
    cell: CellResult
    judgement: Judgement


@dataclass(frozen=True)
class ConditionUnknown:
    """A verdict that is unknown, or a cell that cannot tell whether it meets a condition."""

    condition: str
    sweep: str
    cell: CellResult
    judgement: Judgement


@dataclass(frozen=True)
class ClientsHung:
    """A trial in which calls of clients did not return after their time-outs."""

    sweep: str
    trial_id: str
    clients: tuple[str, ...]
    """One sentence each."""


@dataclass(frozen=True)
class TooFewCells:
    """Fewer cells were compared than required."""

    compared: int
    required: int


@dataclass(frozen=True)
class LimitUndecided:
    """The trials of a cell cannot decide a limit."""

    measure: ComparedMeasure
    cell: str
    missing: tuple[Missing, ...]


@dataclass(frozen=True)
class LimitExceeded:
    """One side is worse than the other by more than allowed."""

    measure: ComparedMeasure
    cell: str
    a: str
    b: str
    difference: float
    """As measured; of numbers, relative to A."""
    worse_by: float
    """At least, with the confidence of the interval."""
    allowed: float


@dataclass(frozen=True)
class NotAsExpected:
    """A cell that did not certainly meet what its experiment expects."""

    sweep: str
    result: ExpectationResult


Untrusted = ControlsFailed | ControlNotJudged | TrialsMissing | NoTrialCounts | NothingJudged
"""Why the results of a sweep prove nothing."""
NotAccepted = (
    ConditionMet | ConditionUnknown | NotAsExpected | TooFewCells | LimitUndecided | LimitExceeded
)
"""What the results show, and the gate does not accept."""
GateFailure = Untrusted | ClientsHung | NotAccepted
"""Why results do not pass a gate."""


@dataclass(frozen=True)
class VerdictsCounted:
    """The verdicts that a gate looked at."""

    cells: int
    verdicts: Mapping[Verdict, int]


@dataclass(frozen=True)
class WithoutGuarantee:
    """What was observed in cells that have no guarantee of it."""

    guarantee: Guarantee
    records: int
    cells: int
    duplicates: int = 0
    """Copies of these records after each one's first."""


@dataclass(frozen=True)
class ExpectationsCounted:
    """The expectations of the experiment, once for each cell that they are about."""

    met: int
    expected: int


@dataclass(frozen=True)
class CellsCompared:
    """The cells that a gate compared, and those that only one side has."""

    cells: int
    only_a: int
    only_b: int


@dataclass(frozen=True)
class LimitTested:
    """In how many of the compared cells the trials can exceed a limit."""

    limit: str
    """As in `--fail-on`."""
    enough: int
    cells: int


Inspected = VerdictsCounted | WithoutGuarantee | ExpectationsCounted | CellsCompared | LimitTested
"""What a gate looked at."""
