"""The ledger of a trial with real loss, compared with Kafka's own `DumpLogSegments`.

The tool prints the crashed leader's log as it was before its restart, and every log at the end.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.builders.records import a_spec

from ackbench.experiments.ledger.terms import ACKED
from ackbench.experiments.ledger.trial_manifest import Keys, TrialManifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, TrialSpec, Workload
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.handle import read_handle
from ackbench.infra.cluster.local import LocalCluster, provision
from ackbench.infra.jvm.runtime import java_environment
from ackbench.infra.kafka.commands import tool_command
from ackbench.infra.kafka.spec import ClusterSpec, LeaderEpoch, NodeStatus
from ackbench.infra.machine.home import Home

pytestmark = [pytest.mark.cluster, pytest.mark.further]
SPEC = ClusterSpec(
    broker={"broker.session.timeout.ms": "3500", "broker.heartbeat.interval.ms": "300"}
)
LOAD = Workload(
    rate_records_per_s=1000,
    record_size_bytes=100,
    duration_s=7,
    keys=Keys(count=1_000_000),
    producers=1,
)
"""There are more keys than records, so a record's key, which the tool prints, is its seq."""
BEHIND = FaultRequest(
    kind="leader-crash-behind", parameters={"at_s": 1.0, "behind_s": 0.5, "restart_after_s": 4.0}
)


class CopyingCluster(LocalCluster):
    """A cluster that copies a crashed node's log before its restart, and every log at the end."""

    copies: Path
    topic: str

    def start(self, node_id: int) -> NodeStatus:
        """Copy the log that the restart will truncate, then start the node."""
        if any(node.node_id == node_id and node.state == "stopped" for node in self.status()):
            self._copy(node_id, "crashed")
        return super().start(node_id)

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """Copy the logs that the final read has read; the topic is deleted after this call."""
        for node_id in self.node_ids():
            self._copy(node_id, "end")
        return super().leader_epochs(topic)

    def _copy(self, node_id: int, when: str) -> None:
        shutil.copytree(
            self.folder / "nodes" / str(node_id) / "data" / f"{self.topic}-0",
            self.copies / f"{when}-{node_id}",
        )


@dataclass(frozen=True)
class Dump:
    """A replica's log as `DumpLogSegments` prints it."""

    seqs: dict[int, int] = field(default_factory=dict)
    """The records' seqs by offset."""
    epochs: dict[int, int] = field(default_factory=dict)
    """The leader epochs of the records' batches by offset."""


@dataclass(frozen=True)
class Case:
    """A sealed trial with loss, and its logs as the tool prints them."""

    manifest: TrialManifest
    folder: Path
    crashed: Dump
    """The crashed leader's log before its restart."""
    final: dict[int, Dump]
    """Each node's log at the end."""

    @property
    def leader(self) -> int:
        """The node that crashed."""
        return self.manifest.fault.targets[0]

    def rows(self, table: str, **values: object) -> list[dict[str, object]]:
        """Return the rows of a table that have these values."""
        rows: list[dict[str, object]] = pq.read_table(self.folder / f"{table}.parquet").to_pylist()
        return [row for row in rows if all(row[name] == value for name, value in values.items())]

    def truncated_to(self) -> int:
        """Return the offset to which the crashed leader truncated its log, as it logged."""
        (event,) = self.rows("events", kind="truncated", node=self.leader)
        assert isinstance(event["offset"], int)
        return event["offset"]

    def lost(self) -> dict[object, object]:
        """Return the acknowledged offset of each record that the final log lacks, by seq."""
        in_log = {row["seq"] for row in self.rows("log")}
        return {
            row["seq"]: row["offset"]
            for row in self.rows("attempts", outcome=ACKED)
            if row["seq"] not in in_log
        }


@pytest.fixture(scope="module")
def case(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Run a trial: acks=1, three replicas, the leader crashes while its followers are behind."""
    folder = tmp_path_factory.mktemp("truth")
    provisioned = provision(folder / "clusters", cache, "truth", SPEC)
    try:
        cluster = CopyingCluster(provisioned.folder, read_handle(provisioned.folder))
        manifest = run_trial(
            SweepFolder(folder / "sweep"), _trial(cluster, folder), cluster, Home(folder / "home")
        )
        dumps = _dumps(cache, folder / "copies")
        yield Case(
            manifest,
            folder / "sweep" / "trials" / manifest.trial_id,
            next(dump for name, dump in dumps.items() if name.startswith("crashed-")),
            {
                int(name.removeprefix("end-")): dump
                for name, dump in dumps.items()
                if name.startswith("end-")
            },
        )
    finally:
        provisioned.destroy()


def _trial(cluster: CopyingCluster, folder: Path) -> TrialSpec:
    spec = a_spec(
        producer=producer_settings({"acks": "1", "socket.timeout.ms": "1000"}),
        consumer=consumer_settings({}),
        topic={"min.insync.replicas": "1"},
        workload=LOAD,
        fault=BEHIND,
    )
    cluster.copies, cluster.topic = folder / "copies", f"trial-{spec.trial_id}"
    return spec


def _dumps(cache: Path, copies: Path) -> dict[str, Dump]:
    """Run Kafka's own tool over the segments of all replicas; return the logs by folder."""
    command = tool_command(cache, SPEC.kafka_version, "org.apache.kafka.tools.DumpLogSegments")
    segments = ",".join(map(str, sorted(copies.glob("*/*.log"))))
    arguments = [
        "--print-data-log",
        "--key-decoder-class",
        "org.apache.kafka.tools.api.LongDecoder",
        "--files",
        segments,
    ]
    output = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        errors="replace",
        env=java_environment(),
        timeout=120,
        check=True,
    ).stdout
    dumps: dict[str, Dump] = {}
    dump, epoch = Dump(), -1
    for line in output.splitlines():
        if segment := re.match(r"Dumping .*/(\S+)/\d+\.log$", line):
            dump = dumps.setdefault(segment[1], Dump())
        elif batch := re.match(r"baseOffset: .* partitionLeaderEpoch: (\d+) ", line):
            epoch = int(batch[1])
        elif record := re.match(r"\| offset: (\d+) .* key: (\d+) payload: ", line):
            dump.seqs[int(record[1])], dump.epochs[int(record[1])] = int(record[2]), epoch
    return dumps


def test_exactly_the_records_that_only_the_crashed_leader_had_are_lost(case: Case) -> None:
    """They are in its log from the truncation offset on, at the offsets that it acknowledged.

    On a starved machine a request may time out: what was then sent again may be in the final logs.
    """
    truncated_to = case.truncated_to()
    sent_again = {seq for dump in case.final.values() for seq in dump.seqs.values()}
    acked = {(row["seq"], row["offset"]) for row in case.rows("attempts", outcome=ACKED)}
    truncated = {
        seq: offset
        for offset, seq in case.crashed.seqs.items()
        if offset >= truncated_to and (seq, offset) in acked and seq not in sent_again
    }
    assert case.lost() == truncated
    assert truncated


def test_records_below_the_truncation_offset_survived(case: Case) -> None:
    """The crashed leader's log and the final logs are equal up to there and differ at it."""
    truncated_to = case.truncated_to()
    kept = {offset: seq for offset, seq in case.crashed.seqs.items() if offset < truncated_to}
    assert kept
    assert len(case.final) == SPEC.nodes
    for dump in case.final.values():
        assert {offset: seq for offset, seq in dump.seqs.items() if offset < truncated_to} == kept
        assert dump.seqs[truncated_to] != case.crashed.seqs[truncated_to]


def test_the_final_read_is_the_log_that_the_tool_prints(case: Case) -> None:
    """Every replica has the same offsets, records and leader epochs."""
    read = {row["offset"]: (row["seq"], row["leader_epoch"]) for row in case.rows("log")}
    assert read
    assert len(case.final) == SPEC.nodes
    for dump in case.final.values():
        assert {offset: (seq, dump.epochs[offset]) for offset, seq in dump.seqs.items()} == read


def test_leader_epochs_begin_at_their_first_batches(case: Case) -> None:
    """Each replica's checkpoint has them after the heal, the crashed leader's too."""
    assert len(case.final) == SPEC.nodes
    for node, dump in case.final.items():
        first = {
            epoch: min(offset for offset, of in dump.epochs.items() if of == epoch)
            for epoch in set(dump.epochs.values())
        }
        assert {
            row["leader_epoch"]: row["start_offset"] for row in case.rows("epochs", node=node)
        } == first
        assert len(first) == 2


def test_the_new_leaders_epoch_begins_at_the_truncation_offset(case: Case) -> None:
    """The election in the broker's log, the truncation and the checkpoints have one offset."""
    (election,) = case.rows("events", kind="became_leader", leader_epoch=1)
    assert election["offset"] == case.truncated_to()
    checkpoints = case.rows("epochs", leader_epoch=1)
    assert len(checkpoints) == SPEC.nodes
    assert {row["start_offset"] for row in checkpoints} == {case.truncated_to()}
