"""Key placement and inversions are counted exactly, and as by the plain reference."""

import json
import random
from collections.abc import Callable
from math import gcd

import pyarrow as pa
import pytest
from support.reference.hashing import crc32_partition, key_bytes, murmur2_partition
from support.reference.keys import inversions, key_counts

from ackbench.experiments.ledger.terms import REJECTED
from ackbench.experiments.ledger.trial_manifest import KeyOptions, Phases
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)

Measure = Callable[..., dict[str, pa.Table]]
CHANGED_NS = 500
PHASES = Phases(
    load_begin_ns=0,
    load_end_ns=10**10,
    fault_begin_ns=CHANGED_NS,
    fault_end_ns=CHANGED_NS + 1,
    settled_ns=10**10,
    healthy_ns=10**10,
)
COUNTS = (
    "partitions",
    "keys",
    "single_partition_keys",
    "murmur2_keys",
    "crc32_keys",
    "known_keys",
    "unmoved_keys",
)


def expanded(
    trial_id: str, before: int, after: int, *, text: bool, keys: int = 600
) -> PlantedTrial:
    """Return a trial with each key once before and once after partitions are added.

    Each record is in the partition of the client's formula.
    """
    formula = murmur2_partition if text else crc32_partition
    sent = [(seq, seq % keys, before if seq < keys else after) for seq in range(2 * keys)]
    where = [(seq, key, formula(key_bytes(key, text=text), count)) for seq, key, count in sent]
    attempts = [
        PlantedAttempt(0, seq, partition=at, key=key, sent_ns=0 if seq < keys else CHANGED_NS + 1)
        for seq, key, at in where
    ]
    log = [PlantedLogRow(0, seq, seq, at) for seq, _, at in where]
    return PlantedTrial(
        trial_id,
        attempts,
        log,
        phases=PHASES,
        keying=KeyOptions(count=keys, text=text, placement=True),
        partitions=before,
    )


@pytest.mark.parametrize("text", [True, False])
def test_the_formula_predicts_each_key_and_the_share_that_does_not_move(
    measured: Measure, text: bool
) -> None:
    """All keys match their client's formula before and after; about gcd / max of them do not move.

    Records sent after the change, but before the first one to an added partition, belong to neither
    era.
    """
    grown = ((3, 4), (6, 12), (4, 5))
    tables = measured(
        *(expanded(f"{place:03d}-x", *counts, text=text) for place, counts in enumerate(grown))
    )
    mine, other = ("murmur2_keys", "crc32_keys") if text else ("crc32_keys", "murmur2_keys")
    for row in tables["keys"].to_pylist():
        before, after = grown[int(row["trial_id"][:3])]
        assert row["keys"] == row["single_partition_keys"] == row[mine] > 590
        assert row[other] < 300
        if row["era"] == "after":
            assert (row["partitions"], row["known_keys"]) == (after, row["keys"])
            assert abs(row["unmoved_keys"] / 600 - gcd(before, after) / max(before, after)) < 0.08
        else:
            assert (row["partitions"], row["known_keys"], row["unmoved_keys"]) == (
                before,
                None,
                None,
            )


@pytest.mark.parametrize(
    ("before", "after"), [(3, 4), (6, 12), (4, 5), (4, 6), (12, 6), (5, 5), (1, 7)]
)
def test_the_predicted_share_is_what_counting_gives(before: int, after: int) -> None:
    """Of lcm consecutive hashes, min(before, after) do not move: a share of gcd / max."""
    lcm = before * after // gcd(before, after)
    stays = sum(number % before == number % after for number in range(lcm))
    assert stays == min(before, after)
    assert stays / lcm == pytest.approx(gcd(before, after) / max(before, after))


def test_keys_in_two_partitions_and_rejected_records_do_not_count(measured: Measure) -> None:
    """Key 0 is in two partitions, key 1 in one, and the record of key 2 was rejected."""
    attempts = [
        PlantedAttempt(0, 0, partition=0, key=0),
        PlantedAttempt(0, 1, partition=1, key=0),
        PlantedAttempt(0, 2, partition=1, key=1),
        PlantedAttempt(0, 3, REJECTED, partition=1, key=2),
    ]
    log = [PlantedLogRow(0, seq, seq, seq % 2) for seq in range(3)]
    (row,) = measured(
        PlantedTrial(
            "000-x", attempts, log, keying=KeyOptions(count=3, placement=True), partitions=2
        )
    )["keys"].to_pylist()
    assert (row["era"], row["keys"], row["single_partition_keys"]) == ("before", 2, 1)


def pairs(
    trial_id: str,
    log: list[tuple[int, int, int]],
    reads: list[tuple[int, int, int, int]],
    apart: int = 1,
) -> PlantedTrial:
    """Return a trial with pairs.

    Args:
        trial_id: its id.
        log: seq, partition, offset.
        reads: seq, partition, received_ns, consumer.
        apart: how many records after the first record of a pair the second one is.
    """
    attempts = [PlantedAttempt(0, seq, key=seq // 2) for seq in range(8)]
    events = [PlantedEvent(1, "group", detail=json.dumps({"committed": {}, "at_end": True}))]
    received = [
        PlantedRead(0, seq, 0, partition=partition, received_ns=at, consumer=by)
        for seq, partition, at, by in reads
    ]
    logged = [PlantedLogRow(0, seq, offset, partition) for seq, partition, offset in log]
    return PlantedTrial(
        trial_id,
        attempts,
        logged,
        received,
        events=events,
        keying=KeyOptions(count=4, pairs="common", pair_apart_records=apart),
        partitions=2,
    )


def test_inverted_pairs_are_counted(measured: Measure) -> None:
    """Only pairs in one partition have an order in the log; only members' reads count."""
    log = [(0, 0, 0), (1, 0, 1), (3, 0, 2), (2, 0, 3), (4, 0, 4), (5, 1, 0)]
    reads = [
        (0, 0, 10, 1),
        (1, 0, 11, 1),
        (3, 0, 12, 1),
        (2, 0, 13, 1),
        (5, 1, 5, 2),
        (4, 0, 14, 1),
        (5, 1, 99, 1),
        (6, 0, 20, 1),
        (7, 0, 1, 0),
    ]
    found = order_counts(measured(pairs("000-x", log, reads)))["000-x"]
    assert found["pair", "log"] == (2, 1, 1)
    assert found["pair", "consumers"] == (3, 2, 1)
    assert found["key", "log"] == (6, 1, 0)
    assert found["key", "consumers"] == (7, 2, 0)


def order_counts(
    tables: dict[str, pa.Table],
) -> dict[str, dict[tuple[str, str], tuple[int, int, int]]]:
    """Return compared, inverted and apart, by trial, and by scope and observer."""
    found: dict[str, dict[tuple[str, str], tuple[int, int, int]]] = {}
    for row in tables["orders"].to_pylist():
        found.setdefault(row["trial_id"], {})[row["within"], row["observer"]] = (
            row["compared"],
            row["inverted"],
            row["apart"],
        )
    return found


def random_trial(seed: int) -> PlantedTrial:
    """Return a random trial of two producers.

    Records have keys, pairs or neither; partitions are added or not; there are copies, losses, and
    several consumers that receive in any order.
    """
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    before, after = chance.choice([(2, 2), (2, 3), (3, 4)])
    keying = KeyOptions(
        count=5,
        pairs=chance.choice(["none", "own", "common"]),
        pair_apart_records=chance.randrange(1, 4),
        text=chance.random() < 0.5,
        placement=True,
    )
    attempts = []
    for producer in (0, 1):
        switch = chance.randrange(10, 50)
        for seq in range(60):
            partition = chance.choice([None, 0, 1, seq % (after if seq >= switch else before)])
            key = chance.choice([None, seq % 5, seq % 5])
            attempts.append(
                PlantedAttempt(
                    producer,
                    seq,
                    chance.choice(["acked", "acked", REJECTED]),
                    partition=partition,
                    key=key,
                    sent_ns=chance.randrange(1000),
                )
            )
    rows = chance.choices([(row.producer, row.seq, row.partition or 0) for row in attempts], k=100)
    log = [
        PlantedLogRow(producer, seq, offset, partition, intact=chance.random() > 0.05)
        for offset, (producer, seq, partition) in enumerate(rows)
    ]
    log += [PlantedLogRow(None, None, 1_000 + number, number) for number in range(after)]
    reads = [
        PlantedRead(
            row.producer,
            row.seq,
            row.offset,
            0,
            chance.randrange(40),
            row.partition,
            chance.randrange(3),
        )
        for row in chance.choices(log, k=120)
    ]
    events = (
        [PlantedEvent(1, "group", detail=json.dumps({"committed": {}, "at_end": True}))]
        if chance.random() < 0.5
        else []
    )
    return PlantedTrial(
        f"{seed:03d}-x",
        attempts,
        log,
        reads,
        phases=PHASES,
        events=events,
        keying=keying,
        partitions=before,
    )


def test_random_keys_and_orders_are_counted_as_by_the_reference(measured: Measure) -> None:
    """A trial that requests no key measures has no rows."""
    trials = [random_trial(seed) for seed in range(30)]
    tables = measured(
        *trials, PlantedTrial("999-x", [PlantedAttempt(0, 0, key=1)], [PlantedLogRow(0, 0, 0)])
    )
    found: dict[str, dict[str, dict[str, int | None]]] = {}
    for row in tables["keys"].to_pylist():
        found.setdefault(row["trial_id"], {})[row["era"]] = {name: row[name] for name in COUNTS}
    assert found == {trial.trial_id: key_counts(trial) for trial in trials}
    assert order_counts(tables) == {trial.trial_id: inversions(trial) for trial in trials}


def test_the_lag_of_each_consumer_is_measured(measured: Measure) -> None:
    """It counts from the intended time; the median of three is the middle one."""
    reads = [
        PlantedRead(0, seq, seq, intended_ns=100, received_ns=100 + lag, consumer=by)
        for seq, (lag, by) in enumerate([(5, 1), (9, 1), (6, 1), (70, 2)])
    ]
    events = [PlantedEvent(1, "group", detail=json.dumps({"committed": {}, "at_end": True}))]
    attempts = [PlantedAttempt(0, seq, intended_ns=100) for seq in range(4)]
    trial = PlantedTrial(
        "000-x",
        attempts,
        [PlantedLogRow(0, seq, seq) for seq in range(4)],
        reads,
        events=events,
        keying=KeyOptions(pairs="own"),
    )
    found = {
        row["consumer"]: (row["records"], row["median_ns"], row["max_ns"])
        for row in measured(trial)["lags"].to_pylist()
    }
    assert found == {1: (3, 6, 9), 2: (1, 70, 70)}
