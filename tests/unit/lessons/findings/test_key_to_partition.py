"""Lesson 9: which client puts a key where which formula says."""

from __future__ import annotations

from typing import Any

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.key_to_partition import find
from experiments.lessons.plots import DotsPlot

DEFAULT: Cell = {
    "client": "librdkafka",
    "partitioner": "consistent_random",
    "partitions": 6,
    "fault": "leader-crash",
}
MURMUR2: Cell = {**DEFAULT, "partitioner": "murmur2_random"}
JAVA: Cell = {**MURMUR2, "client": "java"}
KEYS = 100_000
CHANCE = 16_700


def _keys(murmur2: int, crc32: int, settled: int) -> dict[str, Any]:
    return {
        "era": "before",
        "partitions": 6,
        "keys": KEYS,
        "single_partition_keys": settled,
        "murmur2_keys": murmur2,
        "crc32_keys": crc32,
    }


def _found(
    default: tuple[int, int] = (CHANCE, KEYS),
    java: tuple[int, int] = (KEYS, CHANCE),
    settled: int = KEYS,
    inverted: int = 0,
    repeats: int = 3,
) -> Finding:
    """Keys that murmur2 and CRC32 foretell, with librdkafka's default and with Java's client."""
    of = [(DEFAULT, default), (MURMUR2, (KEYS, CHANCE)), (JAVA, java)] * repeats
    order = {
        "within": "partition",
        "observer": "log",
        "compared": KEYS,
        "inverted": inverted,
        "apart": 0,
    }
    keys = {place: [_keys(*expected, settled)] for place, (_, expected) in enumerate(of)}
    return find(
        material_of(
            [a_trial(cell) for cell, _ in of],
            {"keys": keys, "orders": {place: [order] for place in keys}},
        )
    )


def test_a_default_that_hashes_otherwise_bears_it_out_in_part() -> None:
    """Each client's formula is named, with how many keys it foretold."""
    finding = _found()
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert (
        "librdkafka with partitioner=consistent_random: 300,000 keys over 3 trials, each in one partition"
        in finding.sentence
    )
    assert (
        "murmur2 foretold 16.7 % and crc32 foretold all of them; 0 of 300,000 records lie behind a later one"
        in finding.sentence
    )
    assert (
        "Java's client: 300,000 keys over 3 trials, each in one partition; murmur2 foretold all of them and crc32 foretold 16.7 %"
        in finding.sentence
    )
    assert isinstance(finding.plot, DotsPlot)
    assert [row.expected for row in finding.plot.rows] == [100 / 6, 100, 100, 100 / 6, 100, 100 / 6]


def test_all_but_one_key_is_not_all() -> None:
    """A formula that misses one key of 300,000 is not the client's."""
    assert _found(java=(KEYS - 1, CHANCE)).conclusion is Conclusion.REFUTED


def test_murmur2_with_every_client_bears_it_out() -> None:
    """As the lesson says."""
    assert _found(default=(KEYS, CHANCE)).conclusion is Conclusion.SUPPORTED


def test_a_key_in_two_partitions_lets_it_fall() -> None:
    """And so does a record out of its key's order."""
    assert _found(settled=KEYS - 1).conclusion is Conclusion.REFUTED
    assert "3 of them in several partitions" in _found(settled=KEYS - 1).sentence
    assert _found(inverted=1).conclusion is Conclusion.REFUTED


def test_two_trials_or_none_leave_it_open() -> None:
    """Nothing is said of a sweep that was not measured."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert find(material_of([a_trial(JAVA)])).conclusion is Conclusion.INCONCLUSIVE
