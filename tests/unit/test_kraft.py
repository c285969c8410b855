"""A node's settings: explicit, merged with what was asked for, and written so that Java reads them back."""

import pytest

from infra.errors import InputError
from infra.kraft import NodeAddress, own_properties, properties_text, server_properties, shared_properties

NODES = tuple(NodeAddress(number, 100 * number + 1, 100 * number + 2, 100 * number + 3) for number in (1, 2, 3))


def test_a_node_has_three_listeners_of_its_own_and_knows_the_whole_quorum() -> None:
    """Clients, replication and controllers can be cut off from each other."""
    own = own_properties(NODES[1], NODES)
    assert own["listeners"] == "CLIENT://127.0.0.1:201,REPLICATION://127.0.0.1:202,CONTROLLER://127.0.0.1:203"
    assert own["controller.quorum.voters"] == "1@127.0.0.1:103,2@127.0.0.1:203,3@127.0.0.1:303"
    assert (own["node.id"], own["inter.broker.listener.name"], own["controller.listener.names"]) == ("2", "REPLICATION", "CONTROLLER")


def test_what_was_asked_for_wins_over_ours() -> None:
    """An experiment may sweep any setting that does not follow from the cluster itself."""
    asked = {"broker.session.timeout.ms": "1500", "log.flush.interval.messages": "1"}
    assert asked.items() <= server_properties(NODES[0], NODES, asked).items()


@pytest.mark.parametrize("key", ["node.id", "listeners", "log.dirs", "controller.quorum.voters"])
def test_what_follows_from_the_cluster_cannot_be_asked_for(key: str) -> None:
    """It would make a cluster that cannot start, or another one than is recorded."""
    with pytest.raises(InputError, match=key):
        server_properties(NODES[0], NODES, {key: "x"})


@pytest.mark.parametrize(("nodes", "replicas", "majority"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")])
def test_internal_topics_fit_the_number_of_nodes(nodes: int, replicas: str, majority: str) -> None:
    """Offsets and transactions have as many replicas as there are nodes, three at most, and a majority of them in sync."""
    shared = shared_properties(nodes, {})
    assert shared["offsets.topic.replication.factor"] == shared["transaction.state.log.replication.factor"] == replicas
    assert shared["transaction.state.log.min.isr"] == majority


def test_a_session_outlasts_several_heartbeats() -> None:
    """Otherwise a busy machine alone would fence its nodes."""
    shared = shared_properties(3, {})
    assert int(shared["broker.session.timeout.ms"]) >= 4 * int(shared["broker.heartbeat.interval.ms"])


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("broker.rack", "plain", "broker.rack=plain\n"),
        ("a key:with=signs", " leading", r"a\ key\:with\=signs=\ leading" + "\n"),
        ("path", "C:\\näme", r"path=C:\\n\u00e4me" + "\n"),
        ("beyond", "😀", r"beyond=\ud83d\ude00" + "\n"),
        ("lines", "one\ntwo\t#three!", r"lines=one\ntwo\t#three!" + "\n"),
    ],
)
def test_properties_are_escaped_as_java_reads_them(key: str, value: str, line: str) -> None:
    """The rules of `java.util.Properties.load`: Latin-1 with UTF-16 escapes, and a backslash before what would end a key."""
    assert properties_text({key: value}) == line
