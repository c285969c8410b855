"""Groups whose members are programs on a real broker: Kafka's own in Java, and the adapters.

What is processed again or missed is in the ledger.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_fault, a_spec
from support.needed_programs import skip_without

from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.sweep.client_kinds import ClientKind, traits_of
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Workload
from ackbench.experiments.sweep.workload import GroupMembers
from ackbench.experiments.trial.clients.adapters import adapters
from ackbench.experiments.trial.clients.settings.kinds import ClientChoice
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import provision
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.cluster
RATE = 1000
RECORDS = 8 * RATE
CLASSIC = {
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "300",
    "max.poll.interval.ms": "2000",
}
KIP_848 = {"group.protocol": "consumer", "max.poll.interval.ms": "2000"}
Run = Callable[..., tuple[TrialManifest, Path]]


@pytest.fixture(scope="module")
def run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a function that runs a trial on one shared broker."""
    folder = tmp_path_factory.mktemp("program-members")
    broker = {
        "group.min.session.timeout.ms": "500",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.session.timeout.ms": "2000",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    cluster = provision(folder / "clusters", cache, "programs", ClusterSpec(nodes=1, broker=broker))
    home = Home(folder / "home")
    home.root.mkdir()
    home.cache.symlink_to(cache)

    def one(
        trial_id: str,
        fault: str,
        consumer: dict[str, str],
        client: ClientKind = "java",
        duration_s: float = RECORDS / RATE,
        **group: object,
    ) -> tuple[TrialManifest, Path]:
        workload = Workload(rate_records_per_s=RATE, duration_s=duration_s, producers=1)
        members = GroupMembers.model_validate({"consumers": 2, **group})
        choice = ClientChoice(kind=client, defaults=traits_of(client).is_program)
        idempotent = {"acks": "all", "enable.idempotence": "true"}
        spec = a_spec(
            trial_id=trial_id,
            client=client,
            partitions=2,
            replication_factor=1,
            producer=choice.producer_settings(idempotent),
            consumer=choice.consumer_settings(consumer),
            passed=choice.passed_settings(idempotent, consumer),
            topic={"min.insync.replicas": "1"},
            workload=workload.model_copy(update={"group": members}),
            fault=a_fault(fault),
        )
        manifest = run_trial(SweepFolder(folder / "sweep"), spec, cluster, home)
        return manifest, folder / "sweep" / "trials" / trial_id

    yield one
    cluster.destroy()


def processed(ledger: Path) -> Counter[int]:
    """Return how often the group processed each record."""
    reads = pq.read_table(ledger / "reads.parquet").filter(pc.field("consumer") > 0)
    return Counter(reads["seq"].to_pylist())


def test_what_a_killed_java_member_had_not_committed_is_processed_again(run: Run) -> None:
    """And no more; the evidence has how much that was just before."""
    record, ledger = run("000-killed", "consumer-crash(at_s=2, restart_after_s=0.5)", CLASSIC)
    assert record.fault.took_effect
    evidence = " ".join(record.fault.evidence)
    assert re.search(r"wherever it was, with \d+ records processed since its last commit", evidence)
    assert re.search(r"partition 0 was assigned to member \d\.\d at", evidence)
    assert set(processed(ledger)) == set(range(RECORDS))
    assigned = pq.read_table(ledger / "events.parquet").filter(pc.field("kind") == "assigned")
    assert {"member 1.0", "member 2.0"} <= set(assigned["detail"].to_pylist())
    assert "client_restart" in pq.read_table(ledger / "events.parquet")["kind"].to_pylist()
    settings = record.consumer_settings
    assert (settings["enable.auto.commit"], settings["max.poll.records"]) == ("false", "500")


@pytest.mark.further
@pytest.mark.parametrize("consumer", [CLASSIC, KIP_848], ids=["classic", "kip-848"])
def test_a_java_member_that_is_paused_beyond_its_session_is_removed(
    run: Run, consumer: dict[str, str]
) -> None:
    """It says so itself, in its log and by a commit that is refused; nothing is missed."""
    record, ledger = run(
        f"001-{consumer.get('group.protocol', 'classic')}",
        "consumer-pause(at_s=1, pause_s=4)",
        consumer,
    )
    assert record.fault.took_effect, record.fault.evidence
    assert set(processed(ledger)) == set(range(RECORDS))


@pytest.mark.further
def test_java_members_join_leave_and_are_static(run: Run) -> None:
    """With KIP-848's protocol; each has an instance id of its own.

    The load outlasts the start of two JVMs on a busy machine.
    """
    fault = "consumer-joins(at_s=1) & consumer-leaves(at_s=3, restart_after_s=0.5)"
    record, ledger = run("002-members", fault, KIP_848, duration_s=45, static=True, commit="auto")
    assert record.fault.took_effect, record.fault.evidence
    assert "left its group" in " ".join(record.fault.evidence)
    assert set(processed(ledger)) == set(range(45 * RATE))
    assert record.consumer_settings["group.protocol"].lower() == "consumer"
    assert record.consumer_settings["group.instance.id"].endswith("-group-1-1")


@pytest.mark.further
@pytest.mark.parametrize("kind", adapters())
def test_a_group_of_an_adapter_misses_nothing_when_a_member_crashes(run: Run, kind: str) -> None:
    """It commits what it has reported; the other member takes its partition over."""
    skip_without(*adapters()[kind].toolchain)
    session = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"}
    if kind == "kafkajs":  # its heartbeats wait for its fetches, of 5 s by default
        session["fetch.max.wait.ms"] = "500"
    fault = "consumer-crash(at_s=2, restart_after_s=0.5)"
    record, ledger = run(f"003-{kind}", fault, session, client=kind)
    assert record.fault.took_effect, record.fault.evidence
    assert set(processed(ledger)) == set(range(RECORDS))
    events = pq.read_table(ledger / "events.parquet")
    assigned = events.filter(pc.field("kind") == "assigned")["detail"].to_pylist()
    assert {"member 1.0", "member 2.0"} <= set(assigned)
