"""The quantities that are measured of a trial: each is declared here, and nowhere else.

From a field of `CellQuantities` or `TrialQuantities` follow its column in the tables `trials` and
`cells`, its value in the results of trials and cells, its key in `ackbench show --json` and its row
in `docs/show-json.md`, its column in the Python API, and its metric in MLflow. It has one name,
from the table to the page; columns append the unit where the name does not end with it.

The fields are declarations and types at once, so that `trial.lost_reads` is checked like any other
attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from itertools import groupby
from typing import Annotated, Any, Final, Generic, Self, TypeVar, get_args

from pydantic import model_validator
from pydantic.fields import FieldInfo

from ackbench.experiments.ledger.trial_manifest import Frozen


class QuantityUnit(StrEnum):
    """The unit of a quantity: the end of a column's name."""

    RECORDS = "records"
    COPIES = "copies"
    """Rows of the log."""
    READS = "reads"
    TRANSACTIONS = "transactions"
    MS = "ms"
    """In tables nanoseconds, which are exact."""
    RECORDS_PER_S = "records_per_s"
    YES_NO = ""


class QuantitySource(Enum):
    """Where values come from."""

    TRIALS = "the table `trials`"
    COPIES = "the table `copies`"
    RESULTS = "other tables and `trial.json`, when results are read"


@dataclass(frozen=True)
class Quantity:
    """The meaning of a field; its name is the field's."""

    unit: QuantityUnit
    text: str
    """A noun phrase, such as "records that were acknowledged"; of yes or no, "whether ..."."""
    null: str = ""
    """When a measured trial has no such value; empty: it always has one."""
    source: QuantitySource = QuantitySource.TRIALS
    counts_itself: bool = False
    """`True` if the name says what is counted, so that no unit follows it: `duplicates`."""
    head: str = ""
    """Its name on pages, beside other counts; empty: they do not list it."""
    null_is_unknown: bool = False
    """`True` if there was something to count where it is null."""


@dataclass(frozen=True)
class Group:
    """The common part of the quantities of a nested model."""

    null: str
    source: QuantitySource = QuantitySource.TRIALS


class TransactionCounts(Frozen):
    """Outcomes of the producers' transactions, and what `read_committed` consumers can see."""

    committed: Annotated[
        int,
        Quantity(
            QuantityUnit.TRANSACTIONS, "transactions that committed", head="transactions committed"
        ),
    ]
    aborted: Annotated[
        int,
        Quantity(
            QuantityUnit.TRANSACTIONS,
            "transactions that certainly did not commit: aborted, fenced, or abandoned by their "
            "producer",
            head="transactions aborted",
        ),
    ]
    unknown: Annotated[
        int,
        Quantity(
            QuantityUnit.TRANSACTIONS,
            "transactions of unknown outcome",
            head="transactions unknown",
        ),
    ]
    torn: Annotated[
        int,
        Quantity(
            QuantityUnit.TRANSACTIONS,
            "transactions that are partly visible",
            head="transactions partly visible",
        ),
    ]
    aborted_visible: Annotated[
        int,
        Quantity(
            QuantityUnit.RECORDS,
            "visible records of transactions that did not commit",
            head="aborted but visible",
        ),
    ]

    @property
    def atomicity_violations(self) -> int:
        """Partly visible transactions, plus visible records of uncommitted transactions."""
        return self.torn + self.aborted_visible


class CopyCounts(Frozen):
    """Records on their way from the log to the copiers' output, where a copied one is visible."""

    copied: Annotated[
        int, Quantity(QuantityUnit.RECORDS, "records that the output topic has", head="copied")
    ]
    missed: Annotated[
        int,
        Quantity(
            QuantityUnit.RECORDS,
            "records committed past and not copied, without an acknowledged copy: the application "
            "missed them",
            head="missed by the copiers",
        ),
    ]
    output_lost: Annotated[
        int,
        Quantity(
            QuantityUnit.RECORDS,
            "records whose copy was acknowledged or committed, and is not in the output: Kafka "
            "lost it",
            head="lost from the output",
        ),
    ]
    repeated: Annotated[
        int,
        Quantity(
            QuantityUnit.COPIES,
            "copies in excess of the number of times that the log contains the record",
            head="copied more than once",
        ),
    ]
    hidden: Annotated[
        int,
        Quantity(
            QuantityUnit.COPIES,
            "copies that are not visible, because their transaction did not commit",
            head="copies not visible",
        ),
    ]

    def __add__(self, other: Self) -> Self:
        """Return the sum of both."""
        return type(self)(
            **{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields}
        )


Number = TypeVar("Number")
"""Of a trial one number, of a cell the median and the maximum of its trials."""


class CellQuantities(Frozen, Generic[Number]):
    """The quantities of a trial, which a cell has too: counts are added up, null if one is null."""

    @property
    def atomicity_violations(self) -> int | None:
        """Of all transactions; `None`: there were none."""
        return self.transactions.atomicity_violations if self.transactions else None

    @model_validator(mode="before")
    @classmethod
    def _with_present_names(cls, values: Any) -> Any:
        """Return stored values by today's names."""
        if not isinstance(values, dict):
            return values
        return {_FORMER_NAMES.get(name, name): value for name, value in values.items()}

    attempted: Annotated[
        int | None,
        Quantity(QuantityUnit.RECORDS, "records that the producers attempted", head="attempted"),
    ] = None
    acked: Annotated[
        int | None, Quantity(QuantityUnit.RECORDS, "records that were acknowledged", head="acked")
    ] = None
    rejected: Annotated[
        int | None,
        Quantity(QuantityUnit.RECORDS, "records that failed for certain", head="rejected"),
    ] = None
    unknown: Annotated[
        int | None, Quantity(QuantityUnit.RECORDS, "records of unknown outcome", head="unknown")
    ] = None
    aborted: Annotated[
        int | None, Quantity(QuantityUnit.RECORDS, "records of transactions that did not commit")
    ] = None
    lost: Annotated[
        tuple[int, int] | None,
        Quantity(
            QuantityUnit.RECORDS,
            "acknowledged records that the log does not have; the upper bound adds absent ones of "
            "unknown outcome, any of which may have been acknowledged",
            head="lost",
        ),
    ] = None
    duplicates: Annotated[
        int | None,
        Quantity(
            QuantityUnit.COPIES,
            "copies in the log after each record's first",
            counts_itself=True,
            head="duplicates",
        ),
    ] = None
    duplicated: Annotated[
        int | None, Quantity(QuantityUnit.RECORDS, "records with more than one copy")
    ] = None
    reordered: Annotated[
        int | None,
        Quantity(
            QuantityUnit.RECORDS,
            "records whose first copy is behind one that the same producer sent later to the same "
            "partition",
            head="reordered",
        ),
    ] = None
    log_records: Annotated[
        int | None,
        Quantity(QuantityUnit.RECORDS, "rows of the log that are visible to `read_committed`"),
    ] = None
    phantom_copies: Annotated[
        int | None,
        Quantity(
            QuantityUnit.COPIES, "rows of the log that this trial did not send", head="phantom"
        ),
    ] = None
    corrupt_copies: Annotated[
        int | None,
        Quantity(QuantityUnit.COPIES, "rows of the log with a wrong checksum", head="corrupt"),
    ] = None
    hidden_copies: Annotated[
        int | None,
        Quantity(
            QuantityUnit.COPIES,
            "rows of the log that are not visible to `read_committed`, and in no other count",
        ),
    ] = None
    missed: Annotated[
        int | None,
        Quantity(
            QuantityUnit.RECORDS,
            "records of the log that the concurrent consumer did not receive",
            "it did not reach the end, or it is unknown whether it did",
            head="missed by the consumer",
            null_is_unknown=True,
        ),
    ] = None
    redelivered: Annotated[
        int | None,
        Quantity(
            QuantityUnit.READS,
            "reads of an offset that the concurrent consumer had read before",
            "there was no consumer",
            head="redelivered",
        ),
    ] = None
    lost_reads: Annotated[
        int | None,
        Quantity(
            QuantityUnit.READS,
            "records that a consumer received and that the log does not have at that partition and "
            "offset",
            "no consumer received a record that can be judged",
            head="received, then lost",
        ),
    ] = None
    conflicting_reads: Annotated[
        int | None,
        Quantity(
            QuantityUnit.READS,
            "records that were received at an offset where another one was received too, except "
            "the log's",
            "no offset was received twice",
            head="received in conflict",
        ),
    ] = None
    compacted: Annotated[
        int | None,
        Quantity(
            QuantityUnit.RECORDS,
            "acknowledged records that a later one of their key replaced",
            "the topic is not compacted",
            head="compacted",
        ),
    ] = None
    lost_values: Annotated[
        int | None,
        Quantity(
            QuantityUnit.RECORDS,
            "acknowledged records that are absent without a later one of their key",
            "the topic is not compacted",
            counts_itself=True,
            head="last values lost",
        ),
    ] = None
    group_missed: Annotated[
        int | None,
        Quantity(
            QuantityUnit.RECORDS,
            "records that the consumer group committed past and no member processed",
            "there was no group",
            head="missed by the group",
        ),
    ] = None
    group_redelivered: Annotated[
        int | None,
        Quantity(
            QuantityUnit.READS,
            "how often members of the group processed a record again",
            "there was no group",
            head="reprocessed by the group",
        ),
    ] = None
    group_processing_gap_ms: Annotated[
        Number | None,
        Quantity(
            QuantityUnit.MS,
            "the longest time within the load in which no member of a group received a record of a "
            "partition",
            "there was no group",
        ),
    ] = None
    group_unassigned_ms: Annotated[
        Number | None,
        Quantity(
            QuantityUnit.MS,
            "the longest time within the load in which a partition had no owner in a group",
            "there was no group",
        ),
    ] = None
    transactions: Annotated[TransactionCounts | None, Group("there were no transactions")] = None
    copies: Annotated[CopyCounts | None, Group("there were no copiers", QuantitySource.COPIES)] = (
        None
    )
    unavailable_ms: Annotated[
        Number | None,
        Quantity(
            QuantityUnit.MS,
            "the longest time in which a partition acknowledged nothing although records were due, "
            "without the time in which no producer ran",
            "no producer sent anything",
        ),
    ] = None
    consumer_unavailable_ms: Annotated[
        Number | None,
        Quantity(
            QuantityUnit.MS,
            "the longest time in which the concurrent consumer received nothing of a partition "
            "although records were due, without the time in which it, or no producer, ran",
            "there was no consumer",
        ),
    ] = None
    throughput_records_per_s: Annotated[
        Number | None,
        Quantity(
            QuantityUnit.RECORDS_PER_S,
            "acknowledged records per second of the load",
            "there was no load",
        ),
    ] = None
    producer_cpu_ms: Annotated[
        Number | None,
        Quantity(
            QuantityUnit.MS,
            "CPU time that the producers' processes took from the begin of the load until every "
            "replica was in sync again",
            "not sampled",
        ),
    ] = None
    cluster_cpu_ms: Annotated[
        Number | None,
        Quantity(
            QuantityUnit.MS,
            "CPU time that the brokers and controllers took from the begin of the load until every "
            "replica was in sync again, with the start of those that the fault had ended",
            "not sampled, or their processes are not this machine's",
        ),
    ] = None


class TrialQuantities(CellQuantities[float]):
    """The quantities of a trial. Null: not measured, or for the reason that is declared."""

    @property
    def is_measured(self) -> bool:
        """Whether the results have a row of it, in which this count is never null."""
        return self.attempted is not None

    offered_records_per_s: Annotated[
        float | None,
        Quantity(
            QuantityUnit.RECORDS_PER_S,
            "attempted records per second of the load",
            "there was no load",
        ),
    ] = None
    producer_stalled_ms: Annotated[
        float | None,
        Quantity(
            QuantityUnit.MS,
            "for how long something other than Kafka and the fault kept a producer from running "
            "within the load",
            "not sampled",
        ),
    ] = None
    consumer_stalled_ms: Annotated[
        float | None,
        Quantity(
            QuantityUnit.MS,
            "for how long something else kept the concurrent consumer from running within the load",
            "not sampled",
        ),
    ] = None
    lateness_p99_ms: Annotated[
        float | None,
        Quantity(
            QuantityUnit.MS,
            "how far the producer was behind its own schedule, 99th percentile; of a transactional "
            "producer, of the records that were due while no commit was waited for",
            "unknown of a producer",
            QuantitySource.RESULTS,
        ),
    ] = None
    generator_late: Annotated[
        bool | None,
        Quantity(
            QuantityUnit.YES_NO,
            "whether `lateness_p99_ms` is above 50; such a trial is judged all the same",
            "the lateness is unknown",
            QuantitySource.RESULTS,
        ),
    ] = None
    overloaded: Annotated[
        bool | None,
        Quantity(
            QuantityUnit.YES_NO,
            "whether the machine could not do what the trial asked of it: the generator was late, "
            "the cluster did not keep up before the fault, or a producer was stalled for a second "
            "in all; latencies and outages then say nothing of Kafka or the settings",
            "nothing is known of it",
            QuantitySource.RESULTS,
        ),
    ] = None
    kept_up_before_fault: Annotated[
        bool | None,
        Quantity(
            QuantityUnit.YES_NO,
            "whether as many records were acknowledged until the fault began as had been sent up "
            "to half a second before it; if not, the load was too much for the cluster, and "
            "`recovered_before_heal` and `readable_before_heal` are null",
            "there was no fault",
            QuantitySource.RESULTS,
        ),
    ] = None
    recovered_before_heal: Annotated[
        bool | None,
        Quantity(
            QuantityUnit.YES_NO,
            "whether every partition that was unavailable (a second or more without an "
            "acknowledgement) accepted records again before the fault was healed",
            "no fault, acks=0, or no producer ran for a while at the heal",
            QuantitySource.RESULTS,
        ),
    ] = None
    readable_before_heal: Annotated[
        bool | None,
        Quantity(
            QuantityUnit.YES_NO,
            "whether the concurrent consumer received before the heal what each partition had "
            "acknowledged: no acknowledged record waited for a second or more and still waited at "
            "the heal",
            "no fault, acks=0, transactions or copiers, or a partition acknowledged nothing that "
            "could have been received",
            QuantitySource.RESULTS,
        ),
    ] = None


@dataclass(frozen=True)
class Place:
    """One number of a quantity: its value, or a bound of an interval."""

    quantity: Quantity
    field: str
    """Of the results; of a nested model, the name there."""
    name: str
    """In one word: `lost_low`, `transactions_torn`; in MLflow the metric."""
    column: str
    """In the table of its source."""
    path: tuple[str | int, ...]
    """In a result: fields, and 0 or 1 of an interval."""

    @property
    def bound(self) -> str:
        """Of an interval: `low` or `high`; else empty."""
        return _BOUNDS[self.path[-1]] if isinstance(self.path[-1], int) else ""

    @property
    def measure(self) -> str:
        """The name of its number or interval: `lost`, `transactions_torn`."""
        return self.name.removesuffix(f"_{self.bound}") if self.bound else self.name

    @property
    def is_spread(self) -> bool:
        """Return `True` if a cell has the median and the maximum of it, not the sum."""
        return self.quantity.unit in {QuantityUnit.MS, QuantityUnit.RECORDS_PER_S}

    def of(self, result: Any) -> Any:
        """Return the number in the result of a trial or a cell; `None`: it has none."""
        for step in self.path:
            if result is None:
                return None
            result = result[step] if isinstance(step, int) else getattr(result, step)
        return result

    def in_row(self, row: Mapping[str, Any]) -> Any:
        """Return the number in a row of its table."""
        value = row[self.column]
        return (
            value / self.per_unit
            if self.quantity.unit is QuantityUnit.MS and value is not None
            else value
        )

    @property
    def per_unit(self) -> float:
        """The number of the column's units in one of the quantity's."""
        return _NS_PER_MS if self.quantity.unit is QuantityUnit.MS else 1.0


_BOUNDS: Final = ("low", "high")
_NS_PER_MS: Final = 1e6


@dataclass(frozen=True)
class QuantityField:
    """A field of results with quantities."""

    name: str
    places: tuple[Place, ...]
    make: Callable[[list[Any]], Any]
    """Returns the field's value, of the numbers of its places; none of them is null."""

    @property
    def source(self) -> QuantitySource:
        """The table of all its places."""
        return self.places[0].quantity.source

    @property
    def is_spread(self) -> bool:
        """As of its place."""
        return self.places[0].is_spread

    def in_row(self, row: Mapping[str, Any]) -> Any:
        """Return its value in a row; `None`: one of its numbers is null."""
        numbers = [place.in_row(row) for place in self.places]
        return None if None in numbers else self.make(numbers)


def fields_of(model: type[Frozen]) -> tuple[QuantityField, ...]:
    """Return the fields of a model that have quantities, in its order."""
    return tuple(
        _field(name, info, one)
        for name, info in model.model_fields.items()
        for one in info.metadata
        if isinstance(one, Quantity | Group)
    )


def _field(name: str, info: FieldInfo, declared: Quantity | Group) -> QuantityField:
    if isinstance(declared, Group):
        model = next(kind for kind in get_args(info.annotation) if kind is not type(None))
        inner = [place for field in fields_of(model) for place in field.places]
        places = tuple(_within(place, name, declared) for place in inner)
        names = [place.field for place in inner]
        return QuantityField(
            name, places, lambda numbers: model(**dict(zip(names, numbers, strict=True)))
        )
    if tuple[int, int] in get_args(info.annotation):
        bounds = (_place(declared, name, f"{name}_{b}", (name, i)) for i, b in enumerate(_BOUNDS))
        return QuantityField(name, tuple(bounds), tuple)
    return QuantityField(name, (_place(declared, name, name, (name,)),), lambda numbers: numbers[0])


def _within(place: Place, name: str, group: Group) -> Place:
    quantity = replace(place.quantity, null=group.null, source=group.source)
    return replace(place, quantity=quantity, name=f"{name}_{place.name}", path=(name, *place.path))


def _place(quantity: Quantity, field: str, name: str, path: tuple[str | int, ...]) -> Place:
    unit = quantity.unit.value
    has_unit = quantity.counts_itself or not unit or name.endswith(unit)
    in_full = name if has_unit else f"{name}_{unit}"
    column = f"{name.removesuffix('ms')}ns" if quantity.unit is QuantityUnit.MS else in_full
    return Place(quantity, field, name, column, path)


def values_of(
    fields: Iterable[QuantityField], source: QuantitySource, row: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the values of the fields that a row of a table has; none without a row.

    Args:
        fields: of a model.
        source: the table.
        row: of it.
    """
    here = [] if row is None else [field for field in fields if field.source is source]
    return {field.name: field.in_row(row or {}) for field in here}


CELL_FIELDS: Final = fields_of(CellQuantities[float])
TRIAL_FIELDS: Final = fields_of(TrialQuantities)
CELL_PLACES: Final = tuple(place for field in CELL_FIELDS for place in field.places)
TRIAL_PLACES: Final = tuple(place for field in TRIAL_FIELDS for place in field.places)
PLACES_BY_NAME: Final[Mapping[str, tuple[Place, ...]]] = {
    name: tuple(places) for name, places in groupby(TRIAL_PLACES, key=lambda place: place.measure)
}
"""The place of each number of a trial, or the two of an interval, by its name."""
_FORMER_NAMES: Final = {"group_repeated": "group_redelivered"}
"""Of keys in stored JSON."""
FORMER_COLUMNS: Final = {
    "duplicate_copies": "duplicates",
    "lost_value_records": "lost_values",
    "acked_per_s": "throughput_records_per_s",
    "attempted_per_s": "offered_records_per_s",
}
"""Of columns in stored tables, with today's."""


def present_column(column: str) -> str:
    """Return the name of a column of `trials` or `cells` that a stored table may have otherwise."""
    for former, present in FORMER_COLUMNS.items():
        if column == former or column in {f"{former}_median", f"{former}_max"}:
            return column.replace(former, present)
    return column
