"""A cluster to break by hand: by the fixture of pytest, and by the commands of a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import ackbench

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until
from ackbench.infra.start import CLUSTER_PACKAGES, RUN_PACKAGES

pytestmark = pytest.mark.cluster
OF_A_USER = '''
"""Tests of an application, in a folder of their own."""

from confluent_kafka import Consumer, Producer


def stored(cluster, topic):
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers, "group.id": "any",
        "auto.offset.reset": "earliest", "enable.partition.eof": True,
    })
    consumer.subscribe([topic])
    values = []
    while True:
        message = consumer.poll(30)
        if message is None or message.error():
            consumer.close()
            return values
        values.append(message.value())


def test_an_acknowledged_order_survives_its_leader(kafka_cluster):
    kafka_cluster.create_topic("orders", config={"min.insync.replicas": "2"})
    before = kafka_cluster.leader("orders")
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "acks": "all"})
    producer.produce("orders", b"first")
    assert producer.flush(30) == 0
    assert kafka_cluster.kill_leader("orders") == before
    producer.produce("orders", b"second")
    assert producer.flush(30) == 0
    assert kafka_cluster.leader("orders") != before
    assert stored(kafka_cluster, "orders") == [b"first", b"second"]


def test_the_next_test_gets_a_healthy_cluster(kafka_cluster):
    assert {node.state for node in kafka_cluster.status()} == {"running"}
    with kafka_cluster.paused(2):
        assert [node.state for node in kafka_cluster.status()] == ["running", "paused", "running"]
    assert {node.state for node in kafka_cluster.status()} == {"running"}
    assert all(len(one.isr) == 3 for one in kafka_cluster.partitions())
'''


@pytest.fixture
def home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The home of the commands."""
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    return home


def processes_in(home: Home) -> list[str]:
    """Return the commands of all processes that name a cluster of this home."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_text(errors="replace").replace("\0", " ")
            at = (folder / "cwd").readlink()
        except OSError:
            continue  # it has ended
        if str(home.clusters) in f"{command} {at}":
            commands.append(command)
    return commands


WITHOUT_SWEEPS = f"""
import sys
from importlib.abc import MetaPathFinder

HIDDEN = {sorted({*RUN_PACKAGES, "py4j", "llvmlite"} - {*CLUSTER_PACKAGES})!r}


class Hidden(MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{fullname!r}}", name=fullname)


sys.meta_path.insert(0, Hidden())
"""
"""A `sitecustomize` that hides what only sweeps need, also from the processes of a cluster."""


def test_users_tests_have_a_cluster_that_they_break(home: Home, tmp_path: Path) -> None:
    """Pytest runs them in a process of its own, as with `ackbench[cluster]`; no process is left."""
    tests, hiding = tmp_path / "theirs", tmp_path / "hiding"
    tests.mkdir()
    hiding.mkdir()
    (tests / "test_orders.py").write_text(OF_A_USER)
    (hiding / "sitecustomize.py").write_text(WITHOUT_SWEEPS)
    plain = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    plugin = ["-p", "ackbench.testing", "-o", "addopts=", "--rootdir", str(tests)]

    ran = subprocess.run(
        [*plain, *plugin, str(tests)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tests,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(hiding)},
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
    assert processes_in(home) == []


@pytest.mark.further
def test_a_terminal_breaks_the_cluster_of_another_one(home: Home) -> None:
    """Its answers are sentences; a signal ends the brokers."""
    serving, page = started_cluster(), home.root / "live" / "cluster" / "data.js"
    try:
        assert "3 partitions, 2 replicas" in said("topic", "orders", "3", "2")
        assert said("kill-leader", "orders", "0").endswith("the leader of orders-0, is killed\n")
        wait_until(
            lambda: "stopped" in said("status"), awaiting="a node to be stopped", timeout_s=30
        )
        wait_until(
            lambda: "is stopped, was running" in page.read_text(),
            awaiting="the page to say that a node is stopped",
            timeout_s=30,
        )
        assert said("heal") == "healthy: all nodes run, and every ISR is full\n"
        for words, error in (
            (("kil", "2"), "no action kil; did you mean kill?"),
            (("kill", "9"), "there is no node 9; there are 1, 2, 3"),
            (("kill", "x"), "x is no number"),
            (("kill-leader", "nothing"), "there is no partition 0 of a topic nothing"),
            (("isolate", "2"), "need root: start the cluster with --isolation"),
        ):
            refused = ackbench("cluster", *words)
            assert (refused.exit_code, error in refused.output) == (2, True), refused.output
    finally:
        serving.send_signal(signal.SIGTERM)
        assert serving.wait(60) == 0
    assert "The cluster has ended." in page.read_text()
    assert processes_in(home) == []
    assert "no cluster runs" in ackbench("cluster", "status").output


def started_cluster() -> subprocess.Popen[str]:
    """Return the process of `ackbench cluster`, once its brokers are healthy."""
    serving = subprocess.Popen(
        [sys.executable, "-m", "ackbench", "cluster"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert serving.stdout is not None
    assert serving.stdout.readline().startswith("bootstrap.servers=127.0.0.1:")
    return serving


def said(*words: str) -> str:
    """Return what an action says."""
    result = ackbench("cluster", *words)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.further
def test_a_cluster_ends_with_the_process_that_started_it(home: Home) -> None:
    """Also if that is killed."""
    serving = started_cluster()
    serving.kill()
    serving.wait()

    try:
        wait_until(
            lambda: not processes_in(home), awaiting="the brokers to end", timeout_s=30, every_s=0.2
        )
    except WaitTimeout:
        raise AssertionError(processes_in(home)) from None
