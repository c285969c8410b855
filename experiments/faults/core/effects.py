"""What a fault does, as far as promises hang on it, and the cluster and topic that it finds. Pure.

A field that another kind of fault needs gets its rule in `experiments.faults.composition.composite` too, or joined faults that have it are not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from experiments.clients.settings.group_members import member_expiry_ms
from experiments.ledger.record import Frozen
from experiments.sweep.plan import ClientKind, ClusterNeed, Workload


class Topology(Frozen):
    """What a fault finds."""

    nodes: int
    partitions: int
    replication_factor: int
    other_nodes: int = 0
    """Members beside the brokers, numbered after them: controllers or ZooKeeper servers."""
    zookeepers: int = 0
    """How many of these are ZooKeeper servers."""
    transactional: bool = False
    """The producers send in transactions."""
    client: str = "librdkafka"
    """Whose clients they are."""
    consumers: int = 0
    """Members of a consumer group that reads along; 0: none."""
    copy_workload: bool = False
    """They copy what they read."""
    member_removed_after_ms: float = 0
    """After how long of standing still a member has left its group, whoever finds it first: the coordinator or the member itself."""

    @classmethod
    def of_trial(
        cls,
        cluster: ClusterNeed,
        workload: Workload,
        *,
        partitions: int,
        replication_factor: int,
        client: ClientKind,
        consumer: Mapping[str, str],
    ) -> Topology:
        """Return the topology that a trial's fault finds.

        Args:
            cluster: the cluster that the trial runs on.
            workload: the load, which decides on transactions and consumer groups.
            partitions: of the topic under test.
            replication_factor: of the topic under test.
            client: the kind of client under test.
            consumer: the consumer properties of the trial; defaults count where they are absent.
        """
        return cls(
            nodes=cluster.nodes,
            partitions=partitions,
            replication_factor=replication_factor,
            other_nodes=cluster.controllers + cluster.zookeepers,
            zookeepers=cluster.zookeepers,
            transactional=workload.transaction_records > 0,
            client=client,
            consumers=workload.members,
            copy_workload=workload.kind == "copy",
            member_removed_after_ms=member_expiry_ms(consumer, cluster.broker),
        )

    @property
    def majority(self) -> int:
        """The smallest number of nodes that is more than half."""
        return self.nodes // 2 + 1


class FaultEffects(Frozen):
    """What a fault does; times are of the fault itself, not of the load."""

    kind: str
    known: bool = True
    """False: nothing is known of this fault, and it may do anything."""
    nodes_down: int = 0
    """How many nodes die at once."""
    power_loss: bool = False
    """With them goes what their operating systems had not written to disk."""
    loses_synced_data: bool = False
    """With them goes also what they had synced."""
    corrupts_records: bool = False
    """The bytes of stored records change under the leader that serves them."""
    nodes_paused: int = 0
    """How many nodes stand still for a while, their connections open."""
    pause_ms: float = 0
    nodes_isolated: int = 0
    """How many nodes live, and are cut off from the majority of the others, or reached so badly that they may be taken for dead."""
    clients_cut_off: bool = False
    """Clients do not reach, or badly, a node that may lead."""
    responses_lost: bool = False
    """Such a node is asked, and its answers are lost."""
    requests_held_ms: float = 0
    """So long may requests wait on their way, in the kernel or a relay, and arrive though their client gave them up."""
    followers_out_of_sync: int = 0
    """How many more followers of one partition are kept out of the ISR, though their nodes run."""
    moves_leader: bool = False
    """Leadership is moved between nodes that live, perhaps with the replica."""
    forces_unclean_election: bool = False
    """A leader is asked for whatever it lacks."""
    deletes_topic: bool = False
    """The topic is deleted, and made again under its name."""
    may_affect_leader: bool = False
    """A node that leads one of the topic's partitions may be hit; false: certainly none."""
    heals_after_ms: float = 0
    """From the strike to the heal at the earliest."""
    heals_within_ms: float = 0
    """And at the latest."""
    restarts_producer: bool = False
    """A producer's process ends, and another one goes on with what it had to send: another session to the brokers."""
    resends_unacknowledged: bool = False
    """It sends again what the one before had sent and was not told of."""
    ends_transactional_producer: bool = False
    """A transactional producer ends for good, and its last transaction is decided on without it."""
    interrupts_member: bool = False
    """A member of the consumer group ends or stands still between processing and committing."""
    zookeeper_server_down: bool = False
    """A ZooKeeper server dies, and no broker with it."""
    zookeeper_unavailable: bool = False
    """Most of ZooKeeper's servers are not left: none of them serves until the heal."""
    parts: int = 1
    """How many faults it is joined of."""
