"""Lesson 12: how the load is spread without a key."""

from __future__ import annotations

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.no_key import find
from experiments.lessons.plots import DotsPlot

STICKY: Cell = {
    "client": "librdkafka",
    "workload.keys": 0,
    "sticky.partitioning.linger.ms": 10,
    "partitions": 6,
    "fault": "none",
}
DRAWN: Cell = {**STICKY, "sticky.partitioning.linger.ms": 0}
IN_TURN: Cell = {**STICKY, "workload.round_robin": True}
HOT: Cell = {**STICKY, "workload.keys": 1000, "workload.hot_key_share": 0.5}
JAVA: Cell = {"client": "java", "workload.keys": 0, "partitions": 6, "fault": "none"}
JAVA_IN_TURN: Cell = {
    **JAVA,
    "partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner",
}
CELLS = (STICKY, DRAWN, IN_TURN, HOT, JAVA, JAVA_IN_TURN)


def _found(
    whole: float = 1.02, second: float = 1.9, repeats: int = 3, looked: bool = True
) -> Finding:
    """Times the mean, of Java's sticky partitioner; all others spread evenly but for the hot key."""
    uneven = {3: (3.4, 3.5), 4: (whole, second)}
    trials = [a_trial(cell) for cell in CELLS for _ in range(repeats)]
    rows = {}
    for place in range(len(trials)):
        over, over_second = uneven.get(place // repeats, (1.0, 1.1))
        told = {
            "partitions": 6,
            "max_over_mean": over,
            "gini": 0.25,
            "second_max_over_mean": over_second,
        }
        totals = {"records": 25_000, **({"batches": 500, "bytes": 2_500_000} if looked else {})}
        rows[place] = [{"of": of, "total": total, **told} for of, total in totals.items()]
    return find(material_of(trials, {"skews": rows}))


def test_a_partition_that_is_full_for_a_second_alone_bears_it_out_in_part() -> None:
    """Every way is named, with what its fullest partition got, and how large its batches were."""
    finding = _found()
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert (
        "librdkafka, no key, sticky: 1.00 (3 trials) over the whole load, 1.10 (3 trials) in a second; Gini 0.25, 50 records a batch."
        in finding.sentences
    )
    assert "librdkafka, no key, in turn (named by the producer): 1.00" in finding.sentence
    assert (
        "librdkafka, 1,000 keys, one of them with 50 % of the records: 3.40 (3 trials) over the whole load, 3.50 (3 trials) in a second"
        in finding.sentence
    )
    assert (
        "Java's client, no key, sticky: 1.02 (3 trials) over the whole load, 1.90 (3 trials) in a second"
        in finding.sentence
    )
    assert "Java's client, no key, in turn (RoundRobinPartitioner): 1.00" in finding.sentence
    assert isinstance(finding.plot, DotsPlot)
    assert [row.expected for row in finding.plot.rows] == [None, None, 1.0, 3.5, None, None]


def test_a_partition_that_is_full_all_the_time_bears_it_out() -> None:
    """Half as much again as the mean is too much; it is said whose way of choosing did it."""
    finding = _found(whole=1.5)
    assert finding.conclusion is Conclusion.SUPPORTED
    assert (
        "over the whole load: Java's client, no key, sticky. It is the client's way to choose that did it"
        in finding.remark
    )


def test_partitions_that_are_alike_let_it_fall() -> None:
    """A hot key is not what the claim is about."""
    assert _found(second=1.49).conclusion is Conclusion.REFUTED


def test_two_trials_or_none_leave_it_open() -> None:
    """Where nobody looked at the log's files nothing is said of batches."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
    assert find(material_of([a_trial(JAVA)])).conclusion is Conclusion.INCONCLUSIVE
    assert "batch" not in _found(looked=False).sentence
