"""Lesson 9: which formula predicts the partition that a client chooses for a key."""

from __future__ import annotations

from typing import Any

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.lessons.plots import DotsPlot

find = load_finding("key_to_partition")

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
    """Return the finding for these numbers of predicted keys.

    Args:
        default: keys that murmur2 and CRC32 predict, with librdkafka's default partitioner.
        java: the same with Java's client.
        settled: keys with a single partition.
        inverted: records out of order in their partition.
        repeats: trials per cell.
    """
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
        finding_input_of_trials(
            [a_trial(cell) for cell, _ in of],
            {"keys": keys, "orders": {place: [order] for place in keys}},
        )
    )


def test_a_default_with_another_hash_refutes_the_claim(says: Says) -> None:
    """The sentences give the keys that each formula predicts; the remark names the formula."""
    finding = _found()
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.remark)
    says(finding.sentence)
    assert isinstance(finding.plot, DotsPlot)
    assert [row.expected for row in finding.plot.rows] == [100 / 6, 100, 100, 100, 100 / 6, 100 / 6]


def test_a_formula_that_misses_one_key_is_not_followed(says: Says) -> None:
    """One of 300,000 keys is enough."""
    finding = _found(default=(KEYS, CHANCE), java=(KEYS - 1, CHANCE))
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.remark)


def test_murmur2_with_every_client_supports_the_claim() -> None:
    """This is what the lesson claims."""
    assert _found(default=(KEYS, CHANCE)).conclusion is Conclusion.SUPPORTED


def test_a_key_in_two_partitions_refutes_the_claim(says: Says) -> None:
    """So does a record out of order."""
    assert _found(settled=KEYS - 1).conclusion is Conclusion.REFUTED
    says(_found(settled=KEYS - 1).sentence)
    assert _found(inverted=1).conclusion is Conclusion.REFUTED


def test_two_trials_or_none_are_inconclusive() -> None:
    """A sweep that was not measured has a finding too."""
    too_few = _found(default=(KEYS, CHANCE), repeats=2)
    assert too_few.conclusion is Conclusion.INCONCLUSIVE
    assert find(finding_input_of_trials([a_trial(JAVA)])).conclusion is Conclusion.INCONCLUSIVE
