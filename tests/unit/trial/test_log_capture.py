"""Lines of brokers' logs become events on the trial's clock."""

from experiments.ledger.schema import Source
from experiments.trial.log_capture import to_event
from infra.kafka.logs import BrokerLogEvent

LINE = BrokerLogEvent(
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


def test_the_time_of_a_line_is_converted_to_the_trials_clock() -> None:
    """The wall clock was stepped by 5 ms; a slew during the trial adds to the resolution."""
    event = to_event(LINE, ahead_ns=-5_000_000, uncertain_ns=300)
    assert (event.at_ns, event.resolution_ns) == (995_000_000, 1_000_300)


def test_an_event_has_the_lines_fields_and_its_text() -> None:
    """The detail names the node that wrote the line."""
    event = to_event(LINE, ahead_ns=0)
    assert (
        event.source,
        event.kind,
        event.node,
        event.partition,
        event.leader_epoch,
        event.offset,
    ) == (Source.BROKER, "became_leader", 2, 0, 6, 88120)
    assert event.detail == "node 2: the line"


def test_a_changed_isr_precedes_the_line_in_the_detail() -> None:
    """Its brokers are sorted by number, as in the events of the metadata poller."""
    changed = BrokerLogEvent(1, 2, "isr_changed", "the line", node=2, partition=0, isr=(1, 3))
    assert to_event(changed, ahead_ns=0).detail == "node 2: isr 1,3: the line"
