"""`ackbench cluster`: a cluster in the foreground, broken and healed from a prompt or elsewhere."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final, get_args

from ackbench.experiments.commands.api.hand_cluster import (
    HandCluster,
    running_clusters,
    start_cluster,
)
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_count, one_line
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.pages.live.by_hand import ClusterView, HandPage, hand_page
from ackbench.infra.errors import AckbenchError, HarnessError, InputError, WaitTimeout
from ackbench.infra.kafka.spec import ClusterSpec, NodeState
from ackbench.infra.machine.home import Home

_QUIT: Final = ("quit", "exit", "stop")
_PAGE_INTERVAL_S: Final = 1.0


@dataclass(frozen=True)
class ClusterAction:
    """What can be done to the cluster, as a line of words."""

    usage: str
    help: str
    run: Callable[[HandCluster, Sequence[str]], str]
    """Returns what was done, in a sentence."""


def _number(words: Sequence[str], place: int, default: int = 0) -> int:
    """Return a number among the words, or the default if there are fewer.

    Raises:
        InputError: it is none.
    """
    if len(words) <= place:
        return default
    if not words[place].isdecimal():
        raise InputError(f"{words[place]} is no number")
    return int(words[place])


def _of_node(
    word: str,
    act: Callable[[HandCluster, int], int],
    states: Sequence[NodeState] = get_args(NodeState),
) -> Callable[[HandCluster, Sequence[str]], str]:
    """Return an action on a node that is in one of these states; in another it has no effect."""

    def run(cluster: HandCluster, words: Sequence[str]) -> str:
        number = _number(words, 0)
        for node in cluster.status():
            if node.node_id == number and node.state not in states:
                raise InputError(f"node {number} is {node.state}, not {' or '.join(states)}")
        return f"node {act(cluster, number)} is {word}"

    return run


def _of_leader(
    word: str, act: Callable[[HandCluster, str, int], int]
) -> Callable[[HandCluster, Sequence[str]], str]:
    def run(cluster: HandCluster, words: Sequence[str]) -> str:
        topic, partition = words[0], _number(words, 1)
        node = act(cluster, topic, partition)
        return f"node {node}, the leader of {topic}-{partition}, is {word}"

    return run


def _create(cluster: HandCluster, words: Sequence[str]) -> str:
    topic, partitions = words[0], _number(words, 1, 1)
    replicas = _number(words, 2, min(3, len(cluster.nodes)))
    cluster.create_topic(topic, partitions, replicas)
    each = f"{format_count(replicas, 'replica')}{' each' if partitions > 1 else ''}"
    return f"topic {topic}: {format_count(partitions, 'partition')}, {each}"


def _heal(cluster: HandCluster, _: Sequence[str]) -> str:
    cluster.heal()
    return "healthy: all nodes run, and every ISR is full"


def _status(cluster: HandCluster, _: Sequence[str]) -> str:
    lines = [f"bootstrap.servers={cluster.bootstrap_servers}"]
    lines += [f"node {node.node_id}  {node.state}" for node in cluster.status()]
    try:
        lines += [
            f"{one.topic}-{one.partition}  leader {one.leader or 'none'}  ISR "
            f"{','.join(map(str, one.isr)) or 'none'} of {','.join(map(str, one.replicas))}"
            for one in cluster.partitions()
        ]
    except AckbenchError as error:
        lines.append(f"topics are not known: {error}")
    return "\n".join(lines)


ACTIONS: Final[Mapping[str, ClusterAction]] = {
    "status": ClusterAction("status", "nodes, leaders and ISRs", _status),
    "topic": ClusterAction("topic NAME [PARTITIONS [REPLICAS]]", "create a topic", _create),
    "kill": ClusterAction(
        "kill NODE", "crash a node (SIGKILL)", _of_node("killed", HandCluster.kill)
    ),
    "pause": ClusterAction(
        "pause NODE", "pause a node (SIGSTOP)", _of_node("paused", HandCluster.pause)
    ),
    "resume": ClusterAction(
        "resume NODE", "resume a paused node", _of_node("resumed", HandCluster.resume, ["paused"])
    ),
    "shutdown": ClusterAction(
        "shutdown NODE",
        "shut a node down cleanly",
        _of_node("shut down", HandCluster.stop, ["running", "paused"]),
    ),
    "start": ClusterAction(
        "start NODE", "start a node again", _of_node("started", HandCluster.start, ["stopped"])
    ),
    "kill-leader": ClusterAction(
        "kill-leader TOPIC [PARTITION]",
        "crash the leader of a partition",
        _of_leader("killed", HandCluster.kill_leader),
    ),
    "pause-leader": ClusterAction(
        "pause-leader TOPIC [PARTITION]",
        "pause the leader of a partition",
        _of_leader("paused", HandCluster.pause_leader),
    ),
    "isolate": ClusterAction(
        "isolate NODE",
        "cut a node off the others (--isolation)",
        _of_node("isolated", HandCluster.isolate),
    ),
    "heal": ClusterAction("heal", "undo all, and wait until it is healthy", _heal),
}


def act(home: Home, words: Sequence[str], named: str | None) -> int:
    """Do something to the cluster that another terminal has started.

    Args:
        home: of the cluster.
        words: the action and its arguments.
        named: the cluster's name; `None`: the only one that runs.

    Raises:
        UnknownName: there is no such action, or no such cluster runs.
        InputError: no cluster runs, several do and none is named, or a word is wrong.
    """
    echo(_done(_chosen(running_clusters(home), named), words))
    return 0


def _chosen(clusters: Sequence[HandCluster], named: str | None) -> HandCluster:
    found = [one for one in clusters if named in {None, one.name}]
    if len(found) == 1:
        return found[0]
    if not clusters:
        raise InputError("no cluster runs: start one with `ackbench cluster` in another terminal")
    names = [one.name for one in clusters]
    if named:
        raise UnknownName(f"no cluster {named} runs{did_you_mean(named, names)}")
    raise InputError(f"{len(names)} clusters run: name one with --name {' or '.join(names)}")


def _done(cluster: HandCluster, words: Sequence[str]) -> str:
    name, *rest = words
    if name not in ACTIONS:
        raise UnknownName(
            f"no action {name}{did_you_mean(name, ACTIONS)}; there are: {', '.join(ACTIONS)}"
        )
    action = ACTIONS[name]
    if len(words) < len(action.usage.partition("[")[0].split()):
        raise InputError(f"a word is missing: {action.usage}")
    return action.run(cluster, rest)


def serve(
    home: Home, *, nodes: int, kafka_version: str | None, broker: Mapping[str, str], isolation: bool
) -> int:
    """Start a cluster and keep it until the input ends, `quit`, or a signal.

    Args:
        home: has the jars, and gets the cluster's folder.
        nodes: brokers.
        kafka_version: a release; `None`: the newest that ackbench is tested with.
        broker: properties of the brokers.
        isolation: whether nodes can be isolated, which needs root.
    """
    home.ensure_writable()
    with start_cluster(
        nodes,
        kafka_version=kafka_version or ClusterSpec.kafka_version,
        broker=broker,
        isolation=isolation,
        announce=echo_error,
    ) as cluster:
        echo(f"bootstrap.servers={cluster.bootstrap_servers}")
        with _live_page(home, cluster):
            if sys.stdin.isatty():
                _prompt(cluster)
            else:
                echo("`ackbench cluster status` in another terminal shows it; Ctrl-C ends it")
                _wait_for_signal()
        echo_error("ending the brokers ...")
    return 0


@contextmanager
def _live_page(home: Home, cluster: HandCluster) -> Iterator[None]:
    """Keep the page of the cluster while the context lasts, and print its address."""
    with hand_page(home, cluster.bootstrap_servers) as page:
        if page is None:
            yield
            return
        ended = threading.Event()
        page.show(_view(cluster))
        writer = threading.Thread(target=_keep, args=(page, cluster.again(), ended), daemon=True)
        writer.start()
        echo(f"page: {page.path.as_uri()}")
        try:
            yield
        finally:
            ended.set()
            writer.join()


def _keep(page: HandPage, cluster: HandCluster, ended: threading.Event) -> None:
    try:
        while not ended.wait(_PAGE_INTERVAL_S):
            page.show(_view(cluster))
        page.show(ClusterView((), ()), over=True)
    except (HarnessError, OSError) as error:
        echo_error(f"the page is not written any more: {one_line(str(error))}")


def _view(cluster: HandCluster) -> ClusterView:
    """Return the cluster as it is now; a node that is asked may not answer."""
    try:
        partitions = cluster.partitions()
    except WaitTimeout:
        partitions = None
    return ClusterView.of(cluster.status(), partitions)


def _prompt(cluster: HandCluster) -> None:
    """Do what is typed, until `quit`, the end of the input, or Ctrl-C."""
    for action in ACTIONS.values():
        echo(f"  {action.usage:34} {action.help}")
    echo(f"  {'quit':34} end it, and remove its data")
    while True:
        try:
            words = input("cluster> ").split()
        except (EOFError, KeyboardInterrupt):
            echo("")
            return
        if words and words[0] in _QUIT:
            return
        if words:
            try:
                echo(_done(cluster, words))
            except AckbenchError as error:
                echo_error(str(error))


def _wait_for_signal() -> None:
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    ended.wait()
