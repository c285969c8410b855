"""The distribution of the load is measured exactly; the Gini coefficient equals its definition."""

import json
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbench.experiments.ledger.trial_manifest import KeyOptions, Phases
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedEvent, PlantedLogRow, PlantedTrial
from ackbench.spark_jobs.workloads.loads import skew_of

Measure = Callable[..., dict[str, pa.Table]]
NS = 1_000_000_000
BEGIN_NS = 1_700_000_000 * NS + 250_000_000
PHASES = Phases(
    load_begin_ns=BEGIN_NS,
    load_end_ns=BEGIN_NS + 2 * NS,
    settled_ns=BEGIN_NS + 3 * NS,
    healthy_ns=BEGIN_NS + 3 * NS,
)


def spread(
    trial_id: str,
    counts: dict[tuple[int, int], int],
    batches: dict[int, dict[int, int]] | None,
    partitions: int = 3,
) -> PlantedTrial:
    """Return a trial with a planted load.

    Args:
        trial_id: its id.
        counts: records by partition and second.
        batches: by partition and second, of 100 bytes each; `None`: the files were not read.
        partitions: of the topic.
    """
    made_ms = BEGIN_NS // 1_000_000
    log, offset = [], 0
    for (partition, second), count in counts.items():
        for _ in range(count):
            log.append(
                PlantedLogRow(
                    0,
                    offset,
                    offset,
                    partition,
                    timestamp_ms=made_ms + 1000 * second + offset % 1000,
                )
            )
            offset += 1
    log += [PlantedLogRow(None, None, 10_000, partition) for partition in range(partitions)]
    stored = {
        partition: {"batches": of, "bytes": {second: 100 * count for second, count in of.items()}}
        for partition, of in (batches or {}).items()
    }
    events = [
        PlantedEvent(1, "stored", partition=partition, detail=json.dumps(of))
        for partition, of in stored.items()
    ]
    return PlantedTrial(
        trial_id,
        [PlantedAttempt(0, seq) for seq in range(offset)],
        log,
        phases=PHASES,
        events=events,
        keying=KeyOptions(placement=True),
        partitions=partitions,
    )


def test_records_batches_and_bytes_are_counted_by_partition_and_second(measured: Measure) -> None:
    """A partition without records counts in the skew."""
    counts = {(0, 0): 30, (1, 0): 10, (0, 1): 20}
    tables = measured(
        spread("000-x", counts, {0: {0: 3, 1: 1}, 1: {0: 4}, 2: {}}),
        spread("001-x", {(0, 0): 5, (1, 0): 5, (2, 0): 5}, None),
    )
    rows = {
        (row["trial_id"], row["partition"], row["slot"]): (
            row["records"],
            row["batches"],
            row["bytes"],
        )
        for row in tables["loads"].to_pylist()
    }
    assert rows == {
        ("000-x", 0, 0): (30, 3, 300),
        ("000-x", 0, 1): (20, 1, 100),
        ("000-x", 1, 0): (10, 4, 400),
        **{("001-x", partition, 0): (5, None, None) for partition in range(3)},
    }
    skews = {(row["trial_id"], row["of"]): row for row in tables["skews"].to_pylist()}
    assert skews.keys() == {
        ("000-x", "records"),
        ("000-x", "batches"),
        ("000-x", "bytes"),
        ("001-x", "records"),
    }
    records = skews["000-x", "records"]
    assert (records["partitions"], records["total"], records["max_over_mean"]) == (
        3,
        60,
        pytest.approx(2.5),
    )
    assert records["second_max_over_mean"] == pytest.approx((30 * 3 / 40 + 3) / 2)
    assert records["gini"] == pytest.approx(gini([50, 10, 0]))
    assert (skews["000-x", "batches"]["total"], skews["000-x", "bytes"]["total"]) == (8, 800)
    assert (skews["001-x", "records"]["max_over_mean"], skews["001-x", "records"]["gini"]) == (1, 0)


def gini(counts: list[int]) -> float:
    """Return the coefficient by definition: the mean difference of any two over twice the mean."""
    mean = sum(counts) / len(counts)
    return (
        sum(abs(one - other) for one in counts for other in counts) / len(counts) ** 2 / (2 * mean)
    )


@given(counts=st.lists(st.integers(0, 10_000), min_size=1, max_size=40))
def test_the_gini_coefficient_is_that_of_its_definition(counts: list[int]) -> None:
    """Counts that are all 0 have none."""
    found = skew_of(counts)
    if not sum(counts):
        assert found is None
        return
    assert found is not None
    assert found.gini == pytest.approx(gini(counts), abs=1e-9)
    assert 1 <= found.max_over_mean <= len(counts) + 1e-9
