"""Faults of clients on a real broker: the ledger has the fate of every pending record."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.builders.records import a_fault, a_spec

from ackbench.experiments.ledger.stalls import STALLED, Stall, StallCause
from ackbench.experiments.ledger.terms import UNKNOWN
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Workload
from ackbench.experiments.sweep.workload import GroupMembers
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.local import provision
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.cluster
SHORT_SESSION = {
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "300",
    "max.poll.interval.ms": "2000",
}
Run = Callable[..., tuple[TrialManifest, Path]]


@pytest.fixture(scope="module")
def run(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return a function that runs a trial on one shared broker."""
    folder = tmp_path_factory.mktemp("clients")
    cluster = provision(
        folder / "clusters",
        cache,
        "clients",
        ClusterSpec(nodes=1, broker={"group.min.session.timeout.ms": "500"}),
    )

    def one(
        trial_id: str,
        fault: str,
        commit: str,
        consumer: dict[str, str] = SHORT_SESSION,
        members: Mapping[str, object] = MappingProxyType({}),
        **load: float,
    ) -> tuple[TrialManifest, Path]:
        workload = Workload(
            **{
                "rate_records_per_s": 1000,
                "record_size_bytes": 100,
                "duration_s": 12,
                "keys": {"count": 0},
                "producers": 1,
                **load,
            }
        )
        group = {"consumers": 2, "commit": commit, **members}
        spec = a_spec(
            trial_id=trial_id,
            partitions=1,
            replication_factor=1,
            producer=producer_settings({"enable.idempotence": "true", "linger.ms": "100"}),
            consumer=consumer_settings(consumer),
            topic={"min.insync.replicas": "1"},
            workload=workload.model_copy(update={"group": GroupMembers.model_validate(group)}),
            fault=a_fault(fault),
        )
        manifest = run_trial(SweepFolder(folder / "sweep"), spec, cluster, Home(folder / "home"))
        return manifest, folder / "sweep" / "trials" / trial_id

    yield one
    cluster.destroy()


def test_the_evidence_of_a_killed_producer_and_member_bounds_what_is_repeated_and_missed(
    run: Run,
) -> None:
    """Both crash in one trial.

    What the member had committed and not processed is missed; what the producer had sent and got no
    acknowledgement for is sent again.
    """
    fault = (
        "producer-crash(at_s=1.5, restart_after_s=0.5, resend=true)"
        " & consumer-crash-after-commit(at_s=2, restart_after_s=0.5)"
    )
    record, ledger = run("000-killed", fault, "before")
    assert record.fault.took_effect
    evidence = " ".join(record.fault.evidence)
    attempts, log, members = (
        pq.read_table(ledger / f"{name}.parquet") for name in ("attempts", "log", "reads")
    )
    assert UNKNOWN not in attempts["outcome"].to_pylist()
    copies = Counter(log["seq"].to_pylist())
    assert set(copies) == set(attempts["seq"].to_pylist()) == set(range(12_000))
    assert sum(copies.values()) - 12_000 <= _figure(
        r"(\d+) of the \d+ records that it had sent were neither acknowledged nor rejected",
        evidence,
    )
    processed = {
        seq
        for consumer, seq in zip(
            members["consumer"].to_pylist(), members["seq"].to_pylist(), strict=True
        )
        if consumer > 0
    }
    assert 12_000 - len(processed) <= _figure(
        r"with a batch of (\d+) records, committed and not processed", evidence
    )
    assert len(processed) < 12_000


@pytest.mark.further
def test_the_batch_of_a_paused_and_removed_member_is_processed_again(run: Run) -> None:
    """By the member itself when it is resumed, and by the new owner of its partition.

    What the fault stops on purpose is no stall of the harness.
    """
    record, ledger = run("001-paused", "consumer-pause(at_s=1, pause_s=3.5)", "after")
    assert record.fault.took_effect
    events = pq.read_table(ledger / "events.parquet").filter(pc.field("kind") == STALLED)
    stalls = [Stall.model_validate_json(detail) for detail in events["detail"].to_pylist()]
    assert not [stall for stall in stalls if stall.cause is StallCause.STOPPED]
    assert "the group had removed the member" in " ".join(record.fault.evidence)
    members = pq.read_table(ledger / "reads.parquet")
    times = Counter(
        seq
        for consumer, seq in zip(
            members["consumer"].to_pylist(), members["seq"].to_pylist(), strict=True
        )
        if consumer > 0
    )
    assert set(times) == set(range(12_000))
    assert sum(times.values()) - 12_000 >= _figure(
        r"with a batch of (\d+) records, processed and not committed",
        " ".join(record.fault.evidence),
    )


@pytest.mark.parametrize("pauses", [True, False])
def test_a_member_that_works_longer_than_its_poll_interval_repeats_its_batch_unless_it_polls(
    run: Run, pauses: bool
) -> None:
    """With its partitions paused; it gives them up with the batch done as another member joins."""
    record, ledger = run(
        f"003-{'pauses' if pauses else 'stalls'}",
        "consumer-stall(at_s=1, stall_s=5) & consumer-joins(at_s=2)",
        "after",
        members={"pause_while_processing": pauses},
    )
    evidence = " ".join(record.fault.evidence)
    assert ("polled with its partitions paused for 5." in evidence) == pauses
    processed = pq.read_table(ledger / "reads.parquet").filter(pc.field("consumer") > 0)
    times = Counter(processed["seq"].to_pylist())
    assert set(times) == set(range(12_000))
    assert (max(times.values()) == 1) == pauses


@pytest.mark.further("continue")
@pytest.mark.parametrize("after_failure", ["seek", "continue"])
def test_what_an_application_fails_to_process_is_missed_unless_it_seeks_back(
    run: Run, after_failure: str
) -> None:
    """Also while a member crashes; what is missed are the records of the batches that failed."""
    _, ledger = run(
        f"004-{after_failure}",
        "consumer-crash(at_s=1, restart_after_s=0.5)",
        "after",
        members={"fail_every": 3, "after_failure": after_failure},
        duration_s=6,
    )
    events = pq.read_table(ledger / "events.parquet").filter(pc.field("kind") == "batch_failed")
    processed = pq.read_table(ledger / "reads.parquet").filter(pc.field("consumer") > 0)
    offsets = set(processed["offset"].to_pylist())
    assert events.num_rows > 3
    missed = set(range(6_000)) - set(processed["seq"].to_pylist())
    assert bool(missed) == (after_failure == "continue")
    assert set(events["offset"].to_pylist()).isdisjoint(offsets) == bool(missed)


@pytest.mark.further
def test_two_groups_process_every_record_while_a_member_joins_and_another_leaves(run: Run) -> None:
    """With KIP-848's protocol and one partition; an idle member still belongs to the group.

    Each record is read from the one broker, with the fields that were sent.
    """
    fault = "consumer-joins(at_s=1) & consumer-leaves(at_s=2, restart_after_s=0.5)"
    record, ledger = run(
        "002-members",
        fault,
        "after",
        {"group.protocol": "consumer"},
        duration_s=6,
        members={"groups": 2},
        headers=1,
        record_serving_brokers=True,
    )
    assert record.fault.took_effect
    evidence = " ".join(record.fault.evidence)
    assert re.search(r"member 5\.0 \(process \d+\) started .* to join 2 others", evidence)
    assert "left its group" in evidence
    members, sent, replays, served = (
        pq.read_table(ledger / f"{name}.parquet") for name in ("reads", "sent", "replays", "served")
    )
    for group in ({1, 2, 5}, {3, 4}):
        assert {
            seq
            for consumer, seq in zip(
                members["consumer"].to_pylist(), members["seq"].to_pylist(), strict=True
            )
            if consumer in group
        } == set(range(6_000))
    assert set(served["node"].to_pylist()) == {1}
    assert sum(served["records"].to_pylist()) >= 12_000
    digests = ["timestamp_ms", "key_digest", "value_digest", "headers_digest"]
    first = replays.filter(pc.field("replay") == 1).sort_by("seq").select(digests)
    assert first.equals(sent.sort_by("seq").select(digests))
    assert record.replays[2].at_ms is not None


def _figure(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    assert match, text
    return int(match[1])
