"""The columns of the DataFrames of `import ackbench`: name, type, meaning, and where it is from.

A value that was not measured is `pandas.NA`, never 0. Columns are added in minor versions of
ackbench; they are renamed or removed, or change their meaning, only in major ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from ackbench.experiments.ledger.quantities import CELL_PLACES, TRIAL_PLACES, Place, QuantityUnit
from ackbench.experiments.ledger.result_terms import LatencyKind
from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.results.comparing.comparison import ComparedCell
from ackbench.experiments.results.comparing.differences import Difference
from ackbench.experiments.results.models import CellResult, ExpectationResult, TrialResult
from ackbench.experiments.sweep.expectations import LATENCIES
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


def axis_text(value: Scalar | None) -> str | None:
    """Return a value of an axis as Kafka writes it; `None`: not set in this cell."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class JudgedClause:
    """A guarantee of a cell: what Kafka documents, and what the trials showed."""

    cell: CellResult
    clause: ContractClause
    judgement: Judgement | None
    """`None`: the cell was refused, or nothing was judged."""


def judged_clauses(cells: Iterable[CellResult]) -> list[JudgedClause]:
    """Return the guarantees of cells, in their order."""
    return [
        JudgedClause(cell, clause, cell.judgement_on(clause.guarantee))
        for cell in cells
        for clause in cell.clauses
    ]


@dataclass(frozen=True)
class CellDifference:
    """One measure of a pair of cells."""

    cell: ComparedCell
    difference: Difference


def _column(name: str, dtype: Dtype, text: str, path: str = "") -> Column[Any]:
    """Return a column of an attribute, such as `loss.interval.low`; by default that of its name."""
    attributes = (path or name).split(".")

    def value(row: Any) -> Any:
        for attribute in attributes:
            if row is None:
                return None
            row = getattr(row, attribute)
        return row

    return Column(name, dtype, text, value)


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
    _column("trial_id", "string", "the trial's place in the order, and a digest"),
    _column("label", "string", "the cell as text"),
    _column("role", "string", "`cell`, `control` or `positive-control`"),
    _column("repeat", "Int64", "from 0; missing if the cell was refused"),
    _column("status", "string", "`sealed`, `void`, `incomplete`, `refused` or `failed`"),
    _column("reason", "string", "why the status is not `sealed`"),
    _column("took_effect", "boolean", "whether the fault had an effect", "fault.took_effect"),
    *(Column(place.name, _dtype(place), _text(place), place.of) for place in TRIAL_PLACES),
    *(
        _column(
            name,
            "Float64",
            f"{_LATENCY[kind]}: {_QUANTILES[quantile]}",
            f"latency_ms.{kind.value}.{quantile}",
        )
        for name, (kind, quantile) in LATENCIES.items()
    ),
    _column("host", "string", "the name of the host that ran the trial"),
)
"""After one column per axis of the experiment, with the axis' name."""

_INTERVAL: Final = "95 % interval"


def _of_cell(place: Place) -> Column[CellResult]:
    if not place.is_spread:
        return Column(place.name, _dtype(place), f"sum: {_text(place)}", place.of)
    text = f"median over trials: {_text(place)}"
    return _column(place.name, "Float64", text, f"{place.name}.median")


CELL_COLUMNS: Final[tuple[Column[CellResult], ...]] = (
    _column("label", "string", "the cell as text"),
    _column("role", "string", "`cell`, `control` or `positive-control`"),
    _column("added", "boolean", "planned as a control only, not by the experiment's axes"),
    _column("refused", "string", "the client's message if it refuses the cell"),
    _column("planned_trials", "Int64", "trials that were planned"),
    _column("sealed_trials", "Int64", "trials that are complete; all values are over these"),
    _column("void_trials", "Int64", "trials without observable effect, or disturbed"),
    _column("incomplete_trials", "Int64", "trials whose fault did not take full effect"),
    _column("failed_trials", "Int64", "trials that the harness could not complete"),
    _column("trials_with_loss", "Int64", "trials in which an acknowledged record was lost"),
    _column("loss_low", "Float64", f"{_INTERVAL} of the share of such trials", "loss.interval.low"),
    _column("loss_high", "Float64", "its upper bound", "loss.interval.high"),
    _column("trials_with_duplicates", "Int64", "trials in which a record was duplicated"),
    _column(
        "duplication_low",
        "Float64",
        f"{_INTERVAL} of the share of such trials",
        "duplication.interval.low",
    ),
    _column("duplication_high", "Float64", "its upper bound", "duplication.interval.high"),
    _column(
        "overloaded_trials", "Int64", "trials that were not measured under their own conditions"
    ),
    *map(_of_cell, CELL_PLACES),
    _column(
        "unavailable_low_ms",
        "Float64",
        f"{_INTERVAL} of the median of unavailable_ms",
        "outage_ms.interval.low",
    ),
    _column("unavailable_high_ms", "Float64", "its upper bound", "outage_ms.interval.high"),
    _column("ack_p99_ms", "Float64", "median over trials of the p99, ms", "ack_p99_ms.median"),
    _column("ack_p99_low_ms", "Float64", f"{_INTERVAL} of that median", "ack_p99_ms.interval.low"),
    _column("ack_p99_high_ms", "Float64", "its upper bound", "ack_p99_ms.interval.high"),
)
"""After one column per axis of the experiment, with the axis' name."""

VERDICT_COLUMNS: Final[tuple[Column[JudgedClause], ...]] = (
    _column("label", "string", "the cell as text", "cell.label"),
    _column("guarantee", "string", "such as `no-acked-loss`", "clause.guarantee.name"),
    _column(
        "guaranteed", "boolean", "whether Kafka guarantees it to the cell", "clause.guaranteed"
    ),
    _column(
        "verdict",
        "string",
        "`HELD`, `VIOLATED`, `NOT GUARANTEED` or `UNKNOWN`",
        "judgement.verdict.value",
    ),
    _column("seen", "boolean", "whether a trial showed a violation", "judgement.violation_seen"),
    _column("seen_trials", "Int64", "in how many trials", "judgement.share.seen"),
    _column("judged_trials", "Int64", "of how many that can tell", "judgement.share.of"),
    _column("reason", "string", "the rule of the contract", "clause.reason"),
    _column("source", "string", "the URL of Kafka's documentation", "clause.source"),
)
"""After one column per axis of the experiment, with the axis' name."""

EXPECTATION_COLUMNS: Final[tuple[Column[ExpectationResult], ...]] = (
    _column("label", "string", "the cell as text"),
    Column("expected", "string", "the bound, such as `lost = 0`", lambda one: str(one.expectation)),
    _column("outcome", "string", "`met`, `not met` or `unknown`", "outcome.value"),
    Column(
        "not_met_trials",
        "Int64",
        "trials that did not meet it, also those that are set aside",
        lambda one: len(one.not_met_in),
    ),
    _column("judged_trials", "Int64", "sealed trials that can tell"),
    _column("unknown_trials", "Int64", "sealed trials that cannot tell"),
    Column(
        "worst_low",
        "Float64",
        "the value furthest from the bound; missing: each trial met it",
        lambda one: one.worst[0] if one.worst else None,
    ),
    Column(
        "worst_high",
        "Float64",
        "its upper bound, if it is an interval",
        lambda one: one.worst[1] if one.worst else None,
    ),
)
"""After one column per axis of the experiment, with the axis' name."""

DIFFERENCE_COLUMNS: Final[tuple[Column[CellDifference], ...]] = (
    _column("a_label", "string", "the cell of sweep A", "cell.a_label"),
    _column("b_label", "string", "the cell of sweep B", "cell.b_label"),
    _column(
        "measure",
        "string",
        "`loss`, `duplicates`, `latency_p99`, `outage` or `throughput`",
        "difference.measure.value",
    ),
    _column("paired", "boolean", "whether trials were paired by seed", "difference.paired"),
    _column("trials", "Int64", "pairs, or trials of the smaller cell", "difference.trials"),
    _column(
        "difference",
        "Float64",
        "B - A: of shares, or of medians in the measure's unit",
        "difference.difference",
    ),
    _column("difference_low", "Float64", f"its {_INTERVAL}", "difference.difference_interval.low"),
    _column("difference_high", "Float64", "its upper bound", "difference.difference_interval.high"),
    _column("ratio", "Float64", "B / A; missing for shares", "difference.ratio"),
    _column("ratio_low", "Float64", f"its {_INTERVAL}", "difference.ratio_interval.low"),
    _column("ratio_high", "Float64", "its upper bound", "difference.ratio_interval.high"),
    _column("p_value", "Float64", "of the test of no difference", "difference.p_value"),
)
