"""The columns of the DataFrames of `import ackbench`: name, type, meaning, and where it is from.

A value that was not measured is `pandas.NA`, never 0. Columns are added in minor versions of
ackbench; they are renamed or removed, or change their meaning, only in major ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Generic, Literal, TypeVar

from ackbench.experiments.ledger.quantities import CELL_PLACES, TRIAL_PLACES, Place, QuantityUnit
from ackbench.experiments.ledger.result_tables import LatencyKind
from ackbench.experiments.results.comparing.comparison import ComparedCell
from ackbench.experiments.results.comparing.differences import Difference
from ackbench.experiments.results.models import CellResult, TrialResult
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.judge import Judgement

Row = TypeVar("Row")
Dtype = Literal["string", "Int64", "Float64", "boolean"]
"""pandas' nullable types."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One documented column."""

    name: str
    dtype: Dtype
    text: str
    """What it is, with its unit."""
    value: Callable[[Row], Any]
    """Returns the value of a row's source; `None`: not measured."""


@dataclass(frozen=True)
class JudgedClause:
    """A guarantee of a cell: what Kafka documents, and what the trials showed."""

    cell: CellResult
    clause: ContractClause
    judgement: Judgement | None
    """`None`: the cell was refused, or nothing was judged."""


@dataclass(frozen=True)
class CellDifference:
    """One measure of a pair of cells."""

    cell: ComparedCell
    difference: Difference


def _path(path: str) -> Callable[[Any], Any]:
    """Return a function that follows attributes and indices, and returns `None` at the first null.

    Args:
        path: names with dots, such as `loss.interval.low`; a number is an index.
    """
    steps = [int(step) if step.isdecimal() else step for step in path.split(".")]

    def value(row: Any) -> Any:
        for step in steps:
            if row is None:
                return None
            row = row[step] if isinstance(step, int) else getattr(row, step)
        return row

    return value


def _trial(name: str, dtype: Dtype, text: str, path: str = "") -> Column[TrialResult]:
    return Column(name, dtype, text, _path(path or name))


def _cell(name: str, dtype: Dtype, text: str, path: str = "") -> Column[CellResult]:
    return Column(name, dtype, text, _path(path or name))


_LATENCY: Final = {
    LatencyKind.ACK: "latency from the intended send time to the acknowledgement, ms",
    LatencyKind.END_TO_END: "latency from the intended send time to the concurrent consumer, ms",
}
_QUANTILES: Final = {
    "p50": "median",
    "p90": "90th percentile",
    "p99": "99th percentile",
    "p99_9": "99.9th percentile",
    "max": "maximum",
}
_BOUNDS: Final = {"low": "lower", "high": "upper"}


def _dtype(place: Place) -> Dtype:
    unit = place.quantity.unit
    if unit is QuantityUnit.YES_NO:
        return "boolean"
    return "Float64" if place.is_spread else "Int64"


def _text(place: Place) -> str:
    unit = f", {place.quantity.unit.value}" if place.quantity.unit is QuantityUnit.MS else ""
    null = f"; missing: {place.quantity.null}" if place.quantity.null else ""
    bound = f" ({_BOUNDS[place.bound]} bound)" if place.bound else ""
    return f"{place.quantity.text}{bound}{unit}{null}"


TRIAL_COLUMNS: Final[tuple[Column[TrialResult], ...]] = (
    _trial("trial_id", "string", "the trial's place in the order, and a digest"),
    _trial("label", "string", "the cell as text"),
    _trial("role", "string", "`cell`, `control` or `positive-control`"),
    _trial("repeat", "Int64", "from 0; missing if the cell was refused"),
    _trial("status", "string", "`sealed`, `void`, `incomplete`, `refused` or `failed`"),
    _trial("reason", "string", "why the status is not `sealed`"),
    _trial("took_effect", "boolean", "whether the fault had an effect", "fault.took_effect"),
    *(Column(place.name, _dtype(place), _text(place), place.of) for place in TRIAL_PLACES),
    *(
        _trial(
            f"{measure.value}_{name}_ms",
            "Float64",
            f"{text}: {quantile}",
            f"latency_ms.{measure.value}.{name}",
        )
        for measure, text in _LATENCY.items()
        for name, quantile in _QUANTILES.items()
    ),
    _trial("host", "string", "the name of the host that ran the trial"),
)
"""After one column per axis of the experiment, with the axis' name."""

_INTERVAL: Final = "95 % interval"


def _of_cell(place: Place) -> Column[CellResult]:
    if not place.is_spread:
        return Column(place.name, _dtype(place), f"sum: {_text(place)}", place.of)
    text = f"median over trials: {_text(place)}"
    return _cell(place.name, "Float64", text, f"{place.name}.median")


CELL_COLUMNS: Final[tuple[Column[CellResult], ...]] = (
    _cell("label", "string", "the cell as text"),
    _cell("role", "string", "`cell`, `control` or `positive-control`"),
    _cell("added", "boolean", "planned as a control only, not by the experiment's axes"),
    _cell("refused", "string", "the client's message if it refuses the cell"),
    _cell("planned_trials", "Int64", "trials that were planned"),
    _cell("sealed_trials", "Int64", "trials that are complete; all values are over these"),
    _cell("void_trials", "Int64", "trials without observable effect, or disturbed"),
    _cell("incomplete_trials", "Int64", "trials whose fault did not take full effect"),
    _cell("failed_trials", "Int64", "trials that the harness could not complete"),
    _cell("trials_with_loss", "Int64", "trials in which an acknowledged record was lost"),
    _cell("loss_low", "Float64", f"{_INTERVAL} of the share of such trials", "loss.interval.low"),
    _cell("loss_high", "Float64", "its upper bound", "loss.interval.high"),
    _cell("trials_with_duplicates", "Int64", "trials in which a record was duplicated"),
    _cell(
        "duplication_low",
        "Float64",
        f"{_INTERVAL} of the share of such trials",
        "duplication.interval.low",
    ),
    _cell("duplication_high", "Float64", "its upper bound", "duplication.interval.high"),
    _cell("overloaded_trials", "Int64", "trials that were not measured under their own conditions"),
    *map(_of_cell, CELL_PLACES),
    _cell(
        "unavailable_low_ms",
        "Float64",
        f"{_INTERVAL} of the median of unavailable_ms",
        "outage_ms.interval.low",
    ),
    _cell("unavailable_high_ms", "Float64", "its upper bound", "outage_ms.interval.high"),
    _cell("ack_p99_ms", "Float64", "median over trials of the p99, ms", "ack_p99_ms.median"),
    _cell("ack_p99_low_ms", "Float64", f"{_INTERVAL} of that median", "ack_p99_ms.interval.low"),
    _cell("ack_p99_high_ms", "Float64", "its upper bound", "ack_p99_ms.interval.high"),
)
"""After one column per axis of the experiment, with the axis' name."""

VERDICT_COLUMNS: Final[tuple[Column[JudgedClause], ...]] = (
    Column("label", "string", "the cell as text", attrgetter("cell.label")),
    Column("guarantee", "string", "such as `no-acked-loss`", attrgetter("clause.guarantee.name")),
    Column(
        "guaranteed",
        "boolean",
        "whether Kafka guarantees it to the cell",
        attrgetter("clause.guaranteed"),
    ),
    Column(
        "verdict",
        "string",
        "`HELD`, `VIOLATED`, `NOT GUARANTEED` or `UNKNOWN`",
        _path("judgement.verdict.value"),
    ),
    Column(
        "seen", "boolean", "whether a trial showed a violation", _path("judgement.violation_seen")
    ),
    Column("seen_trials", "Int64", "in how many trials", _path("judgement.share.seen")),
    Column("judged_trials", "Int64", "of how many that can tell", _path("judgement.share.of")),
    Column("reason", "string", "the rule of the contract", attrgetter("clause.reason")),
    Column("source", "string", "the URL of Kafka's documentation", attrgetter("clause.source")),
)
"""After one column per axis of the experiment, with the axis' name."""

DIFFERENCE_COLUMNS: Final[tuple[Column[CellDifference], ...]] = (
    Column("a_label", "string", "the cell of sweep A", attrgetter("cell.a_label")),
    Column("b_label", "string", "the cell of sweep B", attrgetter("cell.b_label")),
    Column(
        "measure",
        "string",
        "`loss`, `duplicates`, `latency_p99`, `outage` or `throughput`",
        attrgetter("difference.measure.value"),
    ),
    Column("paired", "boolean", "whether trials were paired by seed", _path("difference.paired")),
    Column("trials", "Int64", "pairs, or trials of the smaller cell", _path("difference.trials")),
    Column(
        "difference",
        "Float64",
        "B - A: of shares, or of medians in the measure's unit",
        _path("difference.difference"),
    ),
    Column(
        "difference_low",
        "Float64",
        f"its {_INTERVAL}",
        _path("difference.difference_interval.low"),
    ),
    Column(
        "difference_high",
        "Float64",
        "its upper bound",
        _path("difference.difference_interval.high"),
    ),
    Column("ratio", "Float64", "B / A; missing for shares", _path("difference.ratio")),
    Column("ratio_low", "Float64", f"its {_INTERVAL}", _path("difference.ratio_interval.low")),
    Column("ratio_high", "Float64", "its upper bound", _path("difference.ratio_interval.high")),
    Column("p_value", "Float64", "of the test of no difference", _path("difference.p_value")),
)
