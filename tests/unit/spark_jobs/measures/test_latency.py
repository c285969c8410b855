"""Latencies and their quantiles, on a few rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.measured import planted_arrays

from ackbench.experiments.ledger.result_terms import QUANTILES, LatencyKind, Phase
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.measures.fates import count_rows
from ackbench.spark_jobs.measures.latency import (
    Latencies,
    LatencyMeasure,
    ack_latencies,
    end_to_end_latencies,
    histogram,
    histogram_table,
    quantile_rows,
)
from ackbench.spark_jobs.measures.value_counts import ValueCounts
from ackbench.spark_jobs.planted import QUIET, PlantedAttempt, PlantedRead

US = 1000
ACK, ALL = LatencyKind.ACK, Phase.ALL
FAULT = QUIET.model_copy(update={"fault_begin_ns": 100, "fault_end_ns": 200})
ENDLESS = QUIET.model_copy(update={"fault_begin_ns": 100})
PHASES = st.sampled_from([QUIET, FAULT, ENDLESS])
Found = dict[tuple[str, str], dict[int, int]]
"""By measure and phase: the records of each latency in microseconds."""


def acks(spans: Iterable[tuple[int, int | None]], phases: Phases = QUIET) -> Latencies:
    """Return the latencies of acknowledged records with these intended and settled times."""
    attempts = [
        PlantedAttempt(0, seq, intended_ns=intended, settled_ns=settled)
        for seq, (intended, settled) in enumerate(spans)
    ]
    return ack_latencies(planted_arrays(attempts).attempts, phases)


def receipts(reads: Sequence[PlantedRead], phases: Phases = QUIET) -> Latencies:
    """Return the latencies of received records."""
    unit = planted_arrays(reads=reads)
    return end_to_end_latencies(unit.reads, count_rows(unit.reads.record, len(unit.ids)), phases)


def counts(latencies: Latencies) -> Found:
    """Return the records of each latency."""
    return {
        (measure.value, phase.value): dict(
            zip(found.values.tolist(), found.records.tolist(), strict=True)
        )
        for (measure, phase), found in latencies.items()
    }


def distribution(*us: int) -> ValueCounts:
    """Return the distribution of latencies in microseconds."""
    return ValueCounts.of(np.array(us, np.int64))


def quantiles(latencies: Latencies) -> dict[tuple[str, str], tuple[int, ...]]:
    """Return records, negative ones and quantiles, by measure and phase."""
    names = ("records", "negative_records", *(f"{name}_us" for name in QUANTILES))
    return {
        (row["measure"], row["phase"]): tuple(row[name] for name in names)
        for row in quantile_rows(latencies)
    }


def buckets(*us: int) -> list[tuple[int, int, int]]:
    """Return the lower bound, the upper bound and the records of each bucket."""
    low, high, records = (column.tolist() for column in histogram(distribution(*us)))
    return list(zip(low, high, records, strict=True))


def test_only_acked_records_have_an_ack_latency() -> None:
    """It is measured from the intended time."""
    attempts = [
        PlantedAttempt(0, 0, intended_ns=10 * US, settled_ns=30 * US),
        PlantedAttempt(0, 1, "rejected", intended_ns=20 * US, settled_ns=90 * US),
        PlantedAttempt(0, 2, "unknown", intended_ns=30 * US, settled_ns=None),
    ]
    found = ack_latencies(planted_arrays(attempts).attempts, QUIET)
    assert counts(found) == {("ack", "all"): {20: 1}}


def test_a_record_read_twice_counts_by_its_first_read() -> None:
    """Records read once count by that read; external records do not count."""
    reads = [
        PlantedRead(1, 0, 0, intended_ns=5 * US, received_ns=90 * US),
        PlantedRead(1, 0, 0, intended_ns=5 * US, received_ns=70 * US),
        PlantedRead(1, 64, 9, intended_ns=6 * US, received_ns=80 * US),
        PlantedRead(None, None, 10, intended_ns=None, received_ns=60 * US),
    ]
    assert counts(receipts(reads)) == {("end_to_end", "all"): {65: 1, 74: 1}}


def test_reads_of_external_records_have_no_latency() -> None:
    """Their intended time is null."""
    reads = [
        PlantedRead(0, 0, 0, intended_ns=5 * US, received_ns=70 * US),
        PlantedRead(None, None, 1, intended_ns=None, received_ns=80 * US),
    ]
    assert counts(receipts(reads)) == {("end_to_end", "all"): {65: 1}}
    assert receipts(reads[1:]) == {}


def test_latencies_are_rounded_down_also_below_zero() -> None:
    """-1 ns is in the microsecond that begins at -1 us."""
    assert counts(acks([(10_000, 11_999), (10_000, 9_999)])) == {("ack", "all"): {-1: 1, 1: 1}}


def test_the_phase_is_that_of_the_intended_time() -> None:
    """The begin of the fault is part of it; its end is part of the next phase."""
    found = acks([(at, at + us * US) for us, at in enumerate((99, 100, 199, 200))], FAULT)
    assert counts(found) == {
        ("ack", "before"): {0: 1},
        ("ack", "during"): {1: 1, 2: 1},
        ("ack", "after"): {3: 1},
        ("ack", "all"): {0: 1, 1: 1, 2: 1, 3: 1},
    }


def test_a_fault_without_an_end_lasts_until_the_trial_ends() -> None:
    """There is no phase after it."""
    assert counts(acks([(10**9, 10**9)], ENDLESS)) == {
        ("ack", "during"): {0: 1},
        ("ack", "all"): {0: 1},
    }


def test_equal_latencies_are_counted_together() -> None:
    """They are counted by measure."""
    read = PlantedRead(0, 0, 0, received_ns=7 * US)
    assert counts({**acks([(0, 7 * US), (1 * US, 8 * US)]), **receipts([read])}) == {
        ("ack", "all"): {7: 2},
        ("end_to_end", "all"): {7: 1},
    }


def test_the_phase_all_counts_the_records_of_every_phase() -> None:
    """Each phase also has its own counts."""
    spans = [(0, 7 * US), (100, 100 + 7 * US), (100, 100 + 9 * US)]
    assert counts(acks(spans, FAULT)) == {
        ("ack", "before"): {7: 1},
        ("ack", "during"): {7: 1, 9: 1},
        ("ack", "all"): {7: 2, 9: 1},
    }


def test_a_quantile_is_the_nearest_rank() -> None:
    """Of 1 to 1000, the p50 is the 500th value and the p99.9 the 999th, without interpolation."""
    assert quantiles({(ACK, ALL): distribution(*range(1, 1001))}) == {
        ("ack", "all"): (1000, 0, 500, 900, 990, 999, 1000)
    }


def test_each_phase_has_quantiles_of_its_own() -> None:
    """Records with a negative latency are counted."""
    found = quantiles(
        {(ACK, Phase.BEFORE): distribution(-1, -1, -1), (ACK, Phase.DURING): distribution(5, 5)}
    )
    assert found == {
        ("ack", "before"): (3, 3, -1, -1, -1, -1, -1),
        ("ack", "during"): (2, 0, 5, 5, 5, 5, 5),
    }


def test_a_latency_is_rounded_to_the_lower_bound_of_its_bucket() -> None:
    """1030 us is in a bucket of 8 us, and -1030 us in its mirror image."""
    assert [low for low, _, _ in buckets(1030, -1030)] == [-1032, 1024]


def test_a_histogram_has_both_bounds_of_each_bucket() -> None:
    """The upper bound is the next bucket's lower bound."""
    assert buckets(255, 1024, 1024, -1032, -1032, -1032) == [
        (-1032, -1024, 3),
        (255, 256, 1),
        (1024, 1032, 2),
    ]


def test_quantiles_are_exact_although_histograms_are_not() -> None:
    """2050 us is in the bucket from 2048 us on, and is a quantile of its own."""
    latencies = {(ACK, ALL): distribution(1030, 2050)}
    assert [row["from_us"] for row in histogram_table(latencies).to_pylist()] == [1024, 2048]
    assert quantiles(latencies)["ack", "all"] == (2, 0, 1030, 2050, 2050, 2050, 2050)


def test_a_bucket_with_several_quantiles_has_one_row() -> None:
    """The p50 and the maximum share it; each phase has rows of its own."""
    found = histogram_table(
        {(ACK, ALL): distribution(0, 1024, 1025, 1031), (ACK, Phase.DURING): distribution(0, 1024)}
    )
    names = ("measure", "phase", "from_us", "to_us", "records")
    assert [tuple(row[name] for name in names) for row in found.to_pylist()] == [
        ("ack", "all", 0, 1, 1),
        ("ack", "all", 1024, 1032, 3),
        ("ack", "during", 0, 1, 1),
        ("ack", "during", 1024, 1032, 1),
    ]


def test_rows_have_the_names_of_measure_and_phase() -> None:
    """Not those of Python's enumerations."""
    latencies = {(LatencyKind.END_TO_END, Phase.AFTER): distribution(5)}
    (row,) = quantile_rows(latencies)
    assert (type(row["measure"]), row["measure"], row["phase"]) == (str, "end_to_end", "after")
    (bucket,) = histogram_table(latencies).to_pylist()
    assert (bucket["measure"], bucket["phase"]) == ("end_to_end", "after")


SPANS = st.lists(st.tuples(st.integers(0, 300), st.integers(-5_000, 400_000)), max_size=12)


@given(SPANS, SPANS, SPANS, PHASES)
def test_latencies_of_parts_merge_to_those_of_all_records(
    one: list[tuple[int, int]],
    other: list[tuple[int, int]],
    third: list[tuple[int, int]],
    phases: Phases,
) -> None:
    """In any order and association."""
    a, b, c = (LatencyMeasure(acks(spans, phases)) for spans in (one, other, third))
    expected = counts(acks([*one, *other, *third], phases))
    assert counts(((a + b) + c).latencies) == expected
    assert counts((c + (b + a)).latencies) == expected


READS = st.lists(
    st.tuples(st.sampled_from([None, 0, 1, 2, 5]), st.integers(0, 50_000)), max_size=12
)


@given(READS, PHASES, st.randoms(use_true_random=False))
def test_the_first_receipt_of_each_record_counts(
    reads: list[tuple[int | None, int]], phases: Phases, shuffled: Random
) -> None:
    """Whatever the order of the rows: the earliest one, or of the same time any of them."""
    rows = [
        PlantedRead(
            None if seq is None else 0,
            seq,
            place,
            intended_ns=None if seq is None else 10 * seq,
            received_ns=at_ns,
        )
        for place, (seq, at_ns) in enumerate(reads)
    ]
    first = {
        seq: min(at_ns for other, at_ns in reads if other == seq)
        for seq, _ in reads
        if seq is not None
    }
    shuffled.shuffle(rows)
    expected: dict[int, int] = {}
    for seq, at_ns in first.items():
        us = (at_ns - 10 * seq) // US
        expected[us] = expected.get(us, 0) + 1
    found = counts(receipts(rows, phases))
    assert found.get(("end_to_end", "all"), {}) == expected
