"""The effects of a fault that Kafka's guarantees depend on, and the topology it is injected into.

Pure data: `experiments.verdicts.guarantees` derives from it what Kafka guarantees in a trial. A new
field of `FaultEffects` also needs a rule in `experiments.trial.faults.composition.composite`;
without one, joined faults that set the field count as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, ClientKind, traits_of
from ackbench.experiments.sweep.plan import ClusterNeed, Workload
from ackbench.experiments.sweep.workload import Commit
from ackbench.experiments.trial.clients.settings.group_members import member_expiry_ms
from ackbench.infra.kafka.broker_settings import broker_session_timeout_ms


class Topology(Frozen):
    """The cluster, the topic and the clients that a fault is injected into."""

    nodes: int
    """Brokers."""
    partitions: int
    """Partitions of the topic under test."""
    replication_factor: int
    """Replication factor of the topic under test."""
    other_nodes: int = 0
    """Separate controllers and ZooKeeper servers; their node ids follow those of the brokers."""
    zookeepers: int = 0
    """How many of the other nodes are ZooKeeper servers."""
    transactional: bool = False
    """Whether the producers send in transactions."""
    transaction_version: int | None = None
    """Level of the feature `transaction.version` (KIP-890); `None`: unknown."""
    client: ClientKind = DEFAULT_CLIENT
    """The kind of client under test: `librdkafka` or `java`."""
    session_timeout_ms: float = 0
    """After how long without a heartbeat a broker is fenced, or its session expires."""
    consumers: int = 0
    """Members of the consumer group; 0: there is no group."""
    copy_workload: bool = False
    """Whether the members of the group copy records to another topic (consume-process-produce)."""
    commits: Commit = "after"
    """When the members commit."""
    application: bool = False
    """`True`: the members are a user's program, and it is unknown where in its work it is."""
    holds_members: bool = True
    """Whether a fault can hold a member at a step of its work; one that is a program it cannot."""
    member_removed_after_ms: float = 0
    """How long a member can be paused before it is out of its group, by whichever detects it first:
    the coordinator (session.timeout.ms) or the member itself (max.poll.interval.ms)."""

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
            transactional=workload.transactions is not None,
            transaction_version=(
                cluster.features.get("transaction.version", 0) if cluster.traits.planned else None
            ),
            client=client,
            session_timeout_ms=broker_session_timeout_ms(cluster.settings()),
            consumers=workload.members,
            copy_workload=workload.copies is not None,
            commits=workload.commits,
            application=bool(workload.copies and workload.copies.command),
            holds_members=not traits_of(client).reports_in_text,
            member_removed_after_ms=member_expiry_ms(consumer, cluster.broker),
        )

    @property
    def dedicated_controllers(self) -> int:
        """The number of controllers that are not brokers."""
        return self.other_nodes - self.zookeepers

    @property
    def majority(self) -> int:
        """The smallest number of brokers that is more than half of them."""
        return self.nodes // 2 + 1


def no_transactions_reason(topology: Topology) -> str | None:
    """Return why faults of transactions are impossible with this topology; `None`: they are not."""
    if topology.transactional:
        return None
    return "transactions.records is 0; allowed: producers that send in transactions"


def no_group_reason(topology: Topology) -> str | None:
    """Return why faults of a group are impossible with this topology; `None`: they are not."""
    if topology.consumers:
        return None
    return "group.consumers is 0; allowed: a consumer group of 1 member or more"


def no_follower_reason(topology: Topology) -> str | None:
    """Return why faults of followers are impossible with this topology; `None`: they are not."""
    if topology.replication_factor > 1:
        return None
    return "with replication factor 1 there is no follower; allowed: 2 or more"


class FaultEffects(Frozen):
    """The worst that a fault does. Times are relative to its begin, not to the load."""

    kind: str = ""
    """Name of the fault, as the experiment writes it."""
    known: bool = True
    """`False`: the effects of this fault are unknown, so no guarantee can be derived."""
    nodes_down: int = 0
    """How many brokers are down at the same time."""
    power_loss: bool = False
    """Nodes that go down also lose what their operating systems had not written to disk."""
    loses_synced_data: bool = False
    """Nodes that go down also lose data that was synced to disk."""
    corrupts_records: bool = False
    """Stored records change on the disk of the leader that serves them."""
    nodes_paused: int = 0
    """How many brokers stop responding for a while with their connections open (SIGSTOP, a slow
    disk)."""
    pause_ms: float = 0
    """For how long these nodes do not respond."""
    nodes_isolated: int = 0
    """How many brokers run, but are cut off from the majority of the others, or reached so badly
    that the controller may fence them."""
    controllers_failed: int = 0
    """How many dedicated controllers are down, paused or isolated at the same time. Controllers
    that are brokers too count as nodes."""
    clients_cut_off: bool = False
    """Clients do not reach a node that may lead, or reach it badly."""
    responses_lost: bool = False
    """Such a node receives requests, and its responses are lost."""
    requests_held_ms: float = 0
    """How long requests can be held in the kernel or a relay. They are delivered afterwards, even
    if the client has given up on them."""
    followers_out_of_sync: int = 0
    """How many additional followers of one partition are kept out of the ISR while their nodes
    run."""
    moves_leader: bool = False
    """Leadership moves between live nodes, perhaps together with the replica."""
    forces_unclean_election: bool = False
    """An unclean leader election is requested."""
    adds_partitions: bool = False
    """The topic gets more partitions."""
    deletes_topic: bool = False
    """The topic is deleted and created again under the same name."""
    may_affect_leader: bool = False
    """A node that leads a partition of the topic may be affected; `False`: certainly none is."""
    heals_after_ms: float = 0
    """From the begin to the heal, at the earliest."""
    heals_within_ms: float = 0
    """From the begin to the heal, at the latest."""
    restarts_producer: bool = False
    """A producer process ends, and another one sends the rest of its records: to the brokers, a new
    producer session."""
    resends_unacknowledged: bool = False
    """The new producer process sends again what the old one had sent without an acknowledgement."""
    ends_transactional_producer: bool = False
    """A transactional producer ends for good; its last transaction is decided without it."""
    delays_transactional_request: bool = False
    """A request of a transactional producer is delivered after its client has given it up, when
    the producer's next transaction has begun."""
    interrupts_member: bool = False
    """A member of the consumer group ends or is paused between processing and committing, or joins
    or leaves the group."""
    zookeeper_server_down: bool = False
    """A ZooKeeper server crashes, and no broker does."""
    zookeeper_unavailable: bool = False
    """ZooKeeper has no majority of its servers left and is unavailable until the heal."""
    parts: int = 1
    """How many faults are joined, or how often one fault takes nodes down."""
