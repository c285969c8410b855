"""Lines of brokers' logs become events on the trial's clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from support.builders.records import a_spec

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.sweep.plan import ClusterNeed, ExternalAccess, TrialSpec
from ackbench.experiments.trial.log_capture import batch_table, to_event
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.kafka.logs import BrokerLogEvent
from ackbench.infra.kafka.replica_files import RecordBatch
from ackbench.infra.kafka.spec import ClusterState, PartitionState

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


class _OneNode:
    """A cluster whose one node leads a topic with one partition."""

    def __init__(self, *batches: RecordBatch) -> None:
        self.disks = SimpleNamespace(record_batches=lambda *_replica: iter(batches))

    def describe(self, topics: list[str]) -> ClusterState:
        """Return the topic's one partition."""
        partition = PartitionState(topics[0], 0, leader=1, replicas=(1,), isr=(1,))
        return ClusterState((1,), controller=1, controller_epoch=0, partitions=(partition,))


def stored(spec: TrialSpec, *batches: RecordBatch) -> list[dict[str, int]] | None:
    """Return the rows of the table `batches`."""
    table = batch_table(spec, cast("Cluster", _OneNode(*batches)), "t")
    return None if table is None else table.to_pylist()


def test_the_batches_of_idempotent_producers_are_kept_with_their_epochs() -> None:
    """Other producers have no id; a batch that a transaction's coordinator wrote has one."""
    spec = a_spec(producer={"enable.idempotence": "true"})
    of_none, of_one = RecordBatch(0, 99, 0, 9, 0, 0), RecordBatch(99, 99, 10, 19, 0, 0, 1000, 7, 70)
    assert stored(spec, of_none, of_one) == [
        {
            "partition": 0,
            "first_offset": 10,
            "last_offset": 19,
            "producer_id": 1000,
            "producer_epoch": 7,
            "base_sequence": 70,
        }
    ]
    assert stored(spec) == []


def test_there_is_no_table_of_batches_without_idempotence_or_without_the_files() -> None:
    """The brokers of an external cluster keep theirs."""
    external = ClusterNeed(kafka_version="unknown", external=ExternalAccess(addresses="kafka:9092"))
    assert stored(a_spec(producer={"enable.idempotence": "false"})) is None
    assert stored(a_spec(producer={"enable.idempotence": "true"}, cluster=external)) is None
