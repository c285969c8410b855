"""A process that dies of something else during a trial: the trial is void, or it fails.

The processes are those of a real cluster and of real clients, and get SIGKILL by pid.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.builders.records import a_fault, a_spec
from support.dying import during, kill_child, kill_fork, kill_node

from ackbench.experiments.ledger.trial_manifest import Keys, Status, TrialManifest
from ackbench.experiments.messages.errors import TrialFailed
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import TrialSpec, Workload
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.cluster
CONTROLLER = 4
NUMBERS = itertools.count()
"""Of the trials on the shared cluster: each has a topic of its own."""
WHEN = r"\d+\.\d s into the load"


@pytest.fixture(scope="module")
def killable(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers and a controller; short sessions, so that a crash is soon noticed."""
    cluster = provision(
        tmp_path_factory.mktemp("clusters"),
        cache,
        "killable",
        ClusterSpec(
            controllers=1,
            broker={
                "broker.session.timeout.ms": "2000",
                "broker.heartbeat.interval.ms": "300",
                "group.initial.rebalance.delay.ms": "0",
            },
        ),
    )
    yield cluster
    cluster.destroy()


@pytest.fixture
def trial(killable: LocalCluster, tmp_path: Path, cache: Path) -> Callable[..., TrialManifest]:
    """Return a function that runs a trial; when its journal has an event, something is killed."""
    for node in killable.status():
        killable.start(node.node_id)
    home = Home(tmp_path)
    home.cache.symlink_to(cache)

    def run(
        kill: Callable[[], None],
        fault: str = "none",
        event: str = "flowing",
        client: ClientKind = "librdkafka",
        **changes: Any,
    ) -> TrialManifest:
        sweep = SweepFolder(tmp_path / "sweep")
        workload = Workload(
            rate_records_per_s=1000,
            record_size_bytes=100,
            duration_s=6,
            keys=Keys(count=0),
            producers=1,
            **changes.pop("workload", {}),
        )
        choice = ClientChoice(kind=client)
        spec: TrialSpec = a_spec(
            trial_id=f"{next(NUMBERS):03d}-abcdef",
            client=client,
            producer=choice.producer_settings({"enable.idempotence": "true"}),
            consumer=choice.consumer_settings({}),
            topic={"min.insync.replicas": "1"},
            workload=workload,
            fault=a_fault(fault),
            **changes,
        )
        with during(sweep.root, event, kill):
            return run_trial(sweep, spec, killable, home)

    return run


def another_broker(cluster: LocalCluster) -> Callable[[], None]:
    """Return what kills a follower of partition 0, while its leader is down."""

    def kill() -> None:
        down = [node.node_id for node in cluster.status() if node.state == "stopped"]
        kill_node(cluster, min({1, 2, 3} - set(down)))

    return kill


@pytest.mark.further
def test_a_trial_in_which_another_broker_died_is_void_whatever_its_fault_did(
    killable: LocalCluster, trial: Callable[..., TrialManifest], tmp_path: Path
) -> None:
    """The broker is started again, so the ledger is complete; it is evidence of nothing.

    On a starved machine the crash may come after the load: then it has no effect on it, either.
    """
    record = trial(
        another_broker(killable), "leader-crash(at_s=1, restart_after_s=3)", "fault_effective"
    )
    assert record.status is Status.VOID
    (disturbance,) = record.disturbances
    assert re.fullmatch(
        rf"node \d exited by SIGKILL {WHEN}, which the fault did not ask for", disturbance
    )
    assert (record.reason or "").startswith(disturbance)
    assert "crashed (SIGKILL)" in record.fault.evidence[0]
    assert read_trial_manifest(SweepFolder(tmp_path / "sweep").trial(record.trial_id)) == record
    assert killable.wait_until_healthy().brokers == (1, 2, 3)


@pytest.mark.further
def test_a_paused_broker_that_died_is_started_again_and_makes_the_trial_void(
    killable: LocalCluster, trial: Callable[..., TrialManifest]
) -> None:
    """The fault held it, and its heal finds it dead."""

    def kill_paused() -> None:
        kill_node(killable, next(n.node_id for n in killable.status() if n.state == "paused"))

    record = trial(
        kill_paused,
        "leader-crash-behind(at_s=1, behind_s=1.5, restart_after_s=3)",
        "fault_effective",
    )
    assert (record.status, len(record.disturbances)) == (Status.VOID, 1)


@pytest.mark.further
def test_a_controller_that_died_makes_a_trial_without_a_fault_void(
    killable: LocalCluster, trial: Callable[..., TrialManifest]
) -> None:
    """It is no broker, and the fault `none` asks for nothing."""
    record = trial(lambda: kill_node(killable, CONTROLLER))
    assert record.status is Status.VOID
    assert re.fullmatch(
        rf"controller 4 exited by SIGKILL (?:{WHEN}|before the load), which the trial did not ask"
        " for",
        record.reason or "",
    )


@pytest.mark.further(
    "producer", "member", "consumer", "copier", "fork-server", "java-producer", "java-consumer"
)
@pytest.mark.parametrize(
    ("kill", "name", "changes"),
    [
        (partial(kill_fork, "producer-0.attempts"), "producer 0", {}),
        (partial(kill_fork, "consumer-0.reads"), "consumer 0", {}),
        (
            partial(kill_fork, "member-1.0.reads"),
            "member 1",
            {"workload": {"group": {"consumers": 2}}},
        ),
        (
            partial(kill_fork, "member-1.0.reads"),
            "copier 1",
            {"workload": {"copy": {"copiers": 1}}},
        ),
        (
            partial(kill_child, "fork_server_main"),
            "producer 0 exited with the clients' fork server, which",
            {},
        ),
        (partial(kill_child, "VerifiableProducer"), "producer 0", {"client": "java"}),
        (partial(kill_child, "VerifiableConsumer"), "consumer 0", {"client": "java"}),
    ],
    ids=[
        "producer",
        "consumer",
        "member",
        "copier",
        "fork-server",
        "java-producer",
        "java-consumer",
    ],
)
def test_a_trial_whose_client_died_fails_with_its_exit_status(
    trial: Callable[..., TrialManifest],
    kill: Callable[[], None],
    name: str,
    changes: dict[str, Any],
) -> None:
    """What the client would have recorded from then on is missing."""
    with pytest.raises(TrialFailed, match=rf"{name} exited by SIGKILL"):
        trial(kill, **changes)
