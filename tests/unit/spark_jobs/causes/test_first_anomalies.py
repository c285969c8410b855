"""A trial can have as many anomalies as records: all are counted, and the first ones are named."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.measured import measure_in_units, measure_planted

from ackbench.experiments.ledger.result_tables import ANOMALIES
from ackbench.experiments.ledger.result_terms import ANOMALY_ROWS, Anomaly, Cause
from ackbench.spark_jobs.causes import explanations
from ackbench.spark_jobs.causes.explanations import ExplainedAnomalies
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedLogRow, PlantedTrial

ROWS = 3
TRIAL = PlantedTrial(
    "000-many",
    [PlantedAttempt(producer, seq) for producer in (1, 0) for seq in range(40)],
    [
        *(PlantedLogRow(1, seq, offset) for offset, seq in enumerate(range(20, 40))),
        *(PlantedLogRow(1, seq, offset) for offset, seq in enumerate(range(39, 19, -1), 20)),
    ],
)
"""60 records are lost, of both producers, and 20 of producer 1 are duplicated in reverse order."""


@contextmanager
def few_rows() -> Iterator[None]:
    """Keep a few rows of each kind and cause."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explanations, "ANOMALY_ROWS", ROWS)
        yield


def rows_by_kind(tables: dict[str, pa.Table]) -> dict[str, list[tuple[int, int]]]:
    """Return producer and seq of the named anomalies, by kind."""
    rows: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in tables["anomalies"].to_pylist():
        rows[row["kind"]].append((row["producer"], row["seq"]))
    return {kind: sorted(found) for kind, found in rows.items()}


def counts_by_kind(tables: dict[str, pa.Table]) -> Counter[str]:
    """Return the counted anomalies, by kind."""
    counts: Counter[str] = Counter()
    for row in tables["attribution"].to_pylist():
        counts[row["kind"]] += row["records"]
    return counts


def test_the_first_anomalies_by_producer_and_seq_are_named_and_all_are_counted() -> None:
    """Of each kind and cause; the counts of the trial are those of all."""
    with few_rows():
        tables = measure_planted(TRIAL)
    assert rows_by_kind(tables) == {
        "LOST": [(0, 0), (0, 1), (0, 2)],
        "DUPLICATED": [(1, 20), (1, 21), (1, 22)],
    }
    assert counts_by_kind(tables) == {"LOST": 60, "DUPLICATED": 20}
    (trial,) = tables["trials"].to_pylist()
    assert (trial["lost_low_records"], trial["duplicates"]) == (60, 20)


def test_units_name_the_same_anomalies_as_the_entire_trial() -> None:
    """Each unit has anomalies of its own; only the first of all of them are named."""
    with TemporaryDirectory() as folder, few_rows():
        merged = measure_in_units(Path(folder) / "sweep", [TRIAL], Random(1))  # noqa: S311
        entire = measure_planted(TRIAL)
    assert rows_by_kind(merged) == rows_by_kind(entire)
    assert merged["attribution"].equals(entire["attribution"])


def test_all_anomalies_of_an_ordinary_trial_are_named() -> None:
    """The largest trials of the catalog have 375,000 records, and few of them are anomalous."""
    assert ANOMALY_ROWS == 100_000
    assert rows_by_kind(measure_planted(TRIAL)).keys() == {"LOST", "DUPLICATED"}
    assert len(measure_planted(TRIAL)["anomalies"]) == 80


SCHEMA = pa.schema([field for field in ANOMALIES if field.name != "trial_id"])
PLACE = st.one_of(st.none(), st.integers(0, 3))
ROW = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([Anomaly.LOST.value, Anomaly.CORRUPT.value]),
        "cause": st.sampled_from([Cause.DELETED.value, Cause.RESENT.value]),
        **dict.fromkeys(("producer", "seq", "partition", "offset", "at_ns"), PLACE),
    }
)


def position(row: dict[str, Any]) -> list[tuple[bool, int]]:
    """Return the place of a row among those of its kind and cause: null is last."""
    names = ("producer", "seq", "partition", "offset", "at_ns")
    return [(row[name] is None, row[name] or 0) for name in names]


@given(st.lists(st.lists(ROW, max_size=12), min_size=1, max_size=4))
def test_any_parts_of_a_trial_have_its_first_anomalies_together(
    parts: Sequence[list[dict[str, Any]]],
) -> None:
    """Whatever the parts are; the reference is plain Python."""
    with few_rows():
        found = ExplainedAnomalies()
        for part in parts:
            found += ExplainedAnomalies.of(pa.Table.from_pylist(part, SCHEMA))
    groups: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in (row for part in parts for row in part):
        groups[row["kind"], row["cause"]].append(position(row))
    named: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
    for row in found.first.to_pylist():
        named[row["kind"], row["cause"]].append(position(row))
    assert {group: sorted(rows) for group, rows in named.items()} == {
        group: sorted(rows)[:ROWS] for group, rows in groups.items()
    }
    assert sum(found.counts["records"].to_pylist()) == sum(map(len, parts))
