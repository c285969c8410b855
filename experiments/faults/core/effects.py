"""What a fault does, as far as promises hang on it, and the cluster and topic that it finds. Pure.

A field that another kind of fault needs gets its rule in `experiments.faults.composition.composite` too, or joined faults that have it are not known.
"""

from __future__ import annotations

from experiments.ledger.record import Frozen


class Topology(Frozen):
    """What a fault finds."""

    nodes: int
    partitions: int
    replication_factor: int
    others: int = 0
    """Members beside the brokers, numbered after them: controllers or ZooKeeper servers."""
    zookeepers: int = 0
    """How many of these are ZooKeeper servers."""
    transactional: bool = False
    """The producers send in transactions."""
    client: str = "librdkafka"
    """Whose clients they are."""
    consumers: int = 0
    """Members of a consumer group that reads along; 0: none."""
    copies: bool = False
    """They copy what they read."""
    member_patience_ms: float = 0
    """After how long of standing still a member has left its group, whoever finds it first: the coordinator or the member itself."""

    @property
    def majority(self) -> int:
        """The smallest number of nodes that is more than half."""
        return self.nodes // 2 + 1


class FaultEffects(Frozen):
    """What a fault does; times are of the fault itself, not of the load."""

    kind: str
    known: bool = True
    """False: nothing is known of this fault, and it may do anything."""
    kills: int = 0
    """How many nodes die at once."""
    power_loss: bool = False
    """With them goes what their operating systems had not written to disk."""
    forgets_synced: bool = False
    """With them goes also what they had synced."""
    corrupts: bool = False
    """The bytes of stored records change under the leader that serves them."""
    stalled: int = 0
    """How many nodes stand still for a while, their connections open."""
    stalls_ms: float = 0
    isolated: int = 0
    """How many nodes live, and are cut off from the majority of the others, or reached so badly that they may be taken for dead."""
    clients_cut: bool = False
    """Clients do not reach, or badly, a node that may lead."""
    answers_cut: bool = False
    """Such a node is asked, and its answers are lost."""
    holds_ms: float = 0
    """So long may requests wait on their way, in the kernel or a relay, and arrive though their client gave them up."""
    out_of_step: int = 0
    """How many more followers of one partition are kept out of the ISR, though their nodes run."""
    moves_leader: bool = False
    """Leadership is moved between nodes that live, perhaps with the replica."""
    elects_uncleanly: bool = False
    """A leader is asked for whatever it lacks."""
    deletes_topic: bool = False
    """The topic is deleted, and made again under its name."""
    strikes_leader: bool = False
    """A node that leads one of the topic's partitions may be hit; false: certainly none."""
    heals_after_ms: float = 0
    """From the strike to the heal at the earliest."""
    heals_within_ms: float = 0
    """And at the latest."""
    ends_producer: bool = False
    """A producer's process ends, and another one goes on with what it had to send: another session to the brokers."""
    resends: bool = False
    """It sends again what the one before had sent and was not told of."""
    undecided: bool = False
    """A transactional producer ends for good, and its last transaction is decided on without it."""
    ends_member: bool = False
    """A member of the consumer group ends or stands still between processing and committing."""
    strikes_ensemble: bool = False
    """A ZooKeeper server dies, and no broker with it."""
    ends_ensemble: bool = False
    """Most of ZooKeeper's servers are not left: none of them serves until the heal."""
    parts: int = 1
    """How many faults it is joined of."""
