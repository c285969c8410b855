"""Brokers' lines on the trial's clock."""

from experiments.ledger.schema import Source
from experiments.trial.log_capture import event_of
from infra.kafka.logs import BrokerLine

LINE = BrokerLine(
    1_000_000_000,
    2,
    "became_leader",
    "the line",
    node=2,
    partition=0,
    leader_epoch=6,
    offset=88120,
    isr=(1, 2),
)


def test_a_brokers_moment_is_moved_to_the_trials_clock() -> None:
    """The wall clock was stepped by 5 ms since the trial's anchor; how far it was slewed during the trial is not known better."""
    event = event_of(LINE, ahead_ns=-5_000_000, uncertain_ns=300)
    assert (event.at_ns, event.resolution_ns) == (995_000_000, 1_000_300)


def test_what_it_tells_and_its_words_are_kept() -> None:
    """Who, where, and the line itself."""
    event = event_of(LINE, ahead_ns=0)
    assert (
        event.source,
        event.kind,
        event.node,
        event.partition,
        event.leader_epoch,
        event.offset,
    ) == (Source.BROKER, "became_leader", 2, 0, 6, 88120)
    assert event.detail == "node 2: the line"


def test_a_changed_isr_stands_before_the_line() -> None:
    """By number, as the watcher has it."""
    changed = BrokerLine(1, 2, "isr_changed", "the line", node=2, partition=0, isr=(1, 3))
    assert event_of(changed, ahead_ns=0).detail == "node 2: isr 1,3: the line"
