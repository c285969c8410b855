"""The settings of a KRaft node, and how properties files are escaped."""

from dataclasses import replace

import pytest

from ackbench.infra.kafka.kraft import NodeAddress, node_properties, properties_text

NODES = tuple(
    NodeAddress(number, 100 * number + 1, 100 * number + 2, 100 * number + 3)
    for number in (1, 2, 3)
)


def test_a_node_has_three_listeners_and_the_voters_of_the_quorum() -> None:
    """Client, replication and controller traffic can be partitioned separately."""
    own = node_properties(NODES[1], NODES)
    assert (
        own["listeners"]
        == "CLIENT://127.0.0.1:201,REPLICATION://127.0.0.1:202,CONTROLLER://127.0.0.1:203"
    )
    assert own["controller.quorum.voters"] == "1@127.0.0.1:103,2@127.0.0.1:203,3@127.0.0.1:303"
    assert (
        own["node.id"],
        own["inter.broker.listener.name"],
        own["controller.listener.names"],
    ) == ("2", "REPLICATION", "CONTROLLER")


def test_a_broker_with_dedicated_controllers_is_no_controller() -> None:
    """The dedicated controllers are the quorum; the broker only connects to them."""
    members = (
        *(replace(node, role="broker") for node in NODES),
        NodeAddress(4, 401, 402, 403, role="controller"),
    )
    own = node_properties(members[0], members)
    assert own["process.roles"] == "broker"
    assert own["listeners"] == "CLIENT://127.0.0.1:101,REPLICATION://127.0.0.1:102"
    assert own["controller.quorum.voters"] == "4@127.0.0.1:403"
    assert "CONTROLLER:PLAINTEXT" in own["listener.security.protocol.map"]


def test_a_dedicated_controller_has_only_the_controller_listener() -> None:
    """No client and no replica connects to it."""
    controller = NodeAddress(4, 401, 402, 403, role="controller")
    own = node_properties(controller, (*NODES, controller))
    assert (own["process.roles"], own["listeners"]) == ("controller", "CONTROLLER://127.0.0.1:403")
    assert not {"advertised.listeners", "inter.broker.listener.name"} & own.keys()


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
    """As `java.util.Properties.load` expects: Latin-1, UTF-16 escapes, escaped separators."""
    assert properties_text({key: value}) == line
