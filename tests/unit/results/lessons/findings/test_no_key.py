"""Lesson 12: how clients spread the load without a key."""

from __future__ import annotations

import pytest
from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.lessons.plots import DotsPlot

find = load_finding("no_key")

STICKY: Cell = {
    "client": "librdkafka",
    "keys.count": 0,
    "sticky.partitioning.linger.ms": 10,
    "partitions": 6,
    "fault": "none",
}
PER_RECORD: Cell = {**STICKY, "sticky.partitioning.linger.ms": 0}
ROUND_ROBIN: Cell = {**STICKY, "keys.round_robin": True}
HOT: Cell = {**STICKY, "keys.count": 1000, "keys.hot_key_share": 0.5}
JAVA: Cell = {"client": "java", "keys.count": 0, "partitions": 6, "fault": "none"}
JAVA_ROUND_ROBIN: Cell = {
    **JAVA,
    "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
}
CELLS = (STICKY, PER_RECORD, ROUND_ROBIN, HOT, JAVA, JAVA_ROUND_ROBIN)


def _found(
    total: float = 1.02, second: float = 1.9, repeats: int = 3, has_batches: bool = True
) -> Finding:
    """Return the finding where all spread evenly, except the hot key and Java's sticky partitioner.

    Args:
        total: load of the fullest partition with the sticky partitioner, relative to the mean.
        second: the same within a second.
        repeats: trials per cell.
        has_batches: whether the batches in the log were counted.
    """
    uneven = {3: (3.4, 3.5), 4: (total, second)}
    trials = [a_trial(cell) for cell in CELLS for _ in range(repeats)]
    rows = {}
    for place in range(len(trials)):
        over, over_second = uneven.get(place // repeats, (1.0, 1.1))
        columns = {
            "partitions": 6,
            "max_over_mean": over,
            "gini": 0.25,
            "second_max_over_mean": over_second,
        }
        totals = {
            "records": 25_000,
            **({"batches": 500, "bytes": 2_500_000} if has_batches else {}),
        }
        rows[place] = [{"of": of, "total": number, **columns} for of, number in totals.items()]
    return find(finding_input_of_trials(trials, {"skews": rows}))


def test_an_overload_within_seconds_only_supports_the_claim_in_part(says: Says) -> None:
    """Each strategy is listed with its fullest partition and its batch size."""
    finding = _found()
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    says(finding.sentences)
    says(finding.sentence)
    assert isinstance(finding.plot, DotsPlot)
    assert [row.expected for row in finding.plot.rows] == [None, None, None, 3.5, 1.0, None]


def test_an_overload_over_the_entire_load_supports_the_claim(says: Says) -> None:
    """The limit is 1.5 times the mean; the remark names no cause that was not compared."""
    finding = _found(total=1.5)
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.remark)
    assert "cause" not in finding.remark


@pytest.mark.parametrize(
    ("off", "cause"),
    [
        (1.02, "adaptive partitioning is the cause"),
        (1.6, "the sticky partitioner is the cause, with adaptive partitioning and without"),
    ],
)
def test_the_cause_is_told_by_the_cell_without_adaptive_partitioning(
    off: float, cause: str, says: Says
) -> None:
    """Both cells have the sticky partitioner."""
    loads = {"true": 1.6, "false": off}
    cells = [{**JAVA, "partitioner.adaptive.partitioning.enable": value} for value in loads]
    trials = [a_trial(cell) for cell in cells for _ in range(3)]
    rows = {
        place: [
            {
                "of": "records",
                "total": 25_000,
                "partitions": 6,
                "max_over_mean": list(loads.values())[place // 3],
                "gini": 0.2,
                "second_max_over_mean": 2.0,
            }
        ]
        for place in range(6)
    }
    finding = find(finding_input_of_trials(trials, {"skews": rows}))
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)
    assert cause in finding.remark


def test_an_even_load_refutes_the_claim() -> None:
    """The claim is not about hot keys."""
    assert _found(second=1.49).conclusion is Conclusion.REFUTED


def test_two_trials_or_none_are_inconclusive() -> None:
    """Without counted batches the sentences have no batch size."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert find(finding_input_of_trials([a_trial(JAVA)])).conclusion is Conclusion.INCONCLUSIVE
    assert "batch" not in _found(has_batches=False).sentence
