"""The actions of `ackbench cluster`, wherever they are listed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, get_args

import pytest
from support.command_line import ackbench

from ackbench.experiments.commands.api import hand_cluster
from ackbench.experiments.commands.machine.cluster import ACTIONS
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.spec import NodeState, NodeStatus
from ackbench.infra.machine.home import REPOSITORY, Home


@dataclass(frozen=True)
class FakeCluster:
    """A running cluster without processes, or topics: a node of each state."""

    folder: Path
    bootstrap_servers: str = "127.0.0.1:9"

    @property
    def name(self) -> str:
        """That of its folder."""
        return self.folder.name

    def status(self) -> tuple[NodeStatus, ...]:
        """Return a running node, a paused one and a stopped one."""
        states = enumerate(get_args(NodeState), 1)
        return tuple(NodeStatus(node, state, None, None, 0, 0, 0) for node, state in states)

    def partitions(self) -> tuple[()]:
        """Return no partition."""
        return ()


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of two clusters that run in the home."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(hand_cluster, "_cluster_in", FakeCluster)
    names = ["by-hand-497d92", "by-hand-51aaf1"]
    for name in names:
        (Home(tmp_path).clusters / name).mkdir(parents=True)
    return names


def test_of_several_clusters_each_is_listed_and_an_action_names_one(names: list[str]) -> None:
    """The message has the words to write."""
    listed = ackbench("status").output
    assert all(f"ackbench cluster status --name {name} " in listed for name in names)
    refused = ackbench("cluster", "status")
    assert (refused.exit_code, f"--name {' or '.join(names)}" in refused.output) == (2, True)
    assert ackbench("cluster", "status", "--name", names[1]).exit_code == 0
    unknown = ackbench("cluster", "status", "--name", "by-hand-51aaf2")
    assert (unknown.exit_code, f"did you mean {names[1]}" in unknown.output) == (2, True)


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize(
    ("action", "error"),
    [
        ("resume 1", "node 1 is running, not paused"),
        ("resume 3", "node 3 is stopped, not paused"),
        ("shutdown 3", "node 3 is stopped, not running or paused"),
        ("start 1", "node 1 is running, not stopped"),
        ("start 2", "node 2 is paused, not stopped"),
        ("topic", "a word is missing: topic NAME [PARTITIONS [REPLICAS]]"),
        ("isolate", "a word is missing: isolate NODE"),
        ("pause-leader", "a word is missing: pause-leader TOPIC [PARTITION]"),
    ],
)
def test_an_action_that_has_no_effect_says_why(action: str, error: str) -> None:
    """The state of the node, or the missing word of this action."""
    refused = ackbench("cluster", "--name", "by-hand-497d92", *action.split())
    assert (refused.exit_code, refused.output) == (2, f"ackbench: {error}\n")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--kafka-version", "4.9"), "invalid kafka.version: '4.9' (allowed: a released version f"),
        (("--broker", "min.insync.replica=2"), "unknown broker property min.insync.replica; did "),
        (("--broker", "min.insync.replicas=abc"), "broker property min.insync.replicas is 'abc'; "),
    ],
    ids=["version", "name", "value"],
)
def test_what_no_cluster_can_have_is_refused_before_anything_is_done(
    options: tuple[str, ...], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line: no jars are announced, or fetched."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    refused = ackbench("cluster", *options)
    assert (refused.exit_code, refused.output.count("\n")) == (2, 1), refused.output
    assert refused.output.startswith(f"ackbench: {error}")


def test_a_cluster_of_one_node_is_announced_as_one_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is started."""

    def provision(*_: object) -> NoReturn:
        raise HarnessError("not started")

    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(hand_cluster, "ensure_kafka_ready", lambda *_: None)
    monkeypatch.setattr(hand_cluster, "provision", provision)
    started = ackbench("cluster", "--nodes", "1")
    assert started.output == "starting 1 broker ...\nackbench: not started\n"


def test_help_and_document_list_the_actions_that_there_are() -> None:
    """The help has them by hand, because it imports no command."""
    text = " ".join(ackbench("cluster", "--help").output.split())
    listed = re.search(r"ACTION is one of: ([a-z, -]+)\.", text)
    assert listed is not None
    assert listed[1].replace("- ", "-").split(", ") == list(ACTIONS)

    document = (REPOSITORY / "docs" / "by-hand.md").read_text()
    table = re.findall(r"^\| (`.+?) \|", document, re.MULTILINE)
    assert {span.split()[0] for row in table for span in re.findall(r"`([^`]+)`", row)} == {
        *ACTIONS
    }
