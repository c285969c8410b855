"""What a ledger says of a real loss, held against Kafka's own `DumpLogSegments`: of the dead leader's log, and of the one that survived."""

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

from experiments.clients.settings.librdkafka import consumer_settings, producer_settings
from experiments.ledger.record import TrialRecord
from experiments.ledger.schema import ACKED
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import FaultRequest, TrialSpec, Workload
from experiments.trial.run import run_trial
from infra.cluster.handle import read_handle
from infra.cluster.local import LocalCluster, provision
from infra.jvm.runtime import java_environment
from infra.kafka.commands import tool_command
from infra.kafka.spec import ClusterSpec, LeaderEpoch, NodeStatus
from infra.machine.home import Home

pytestmark = pytest.mark.cluster
SPEC = ClusterSpec(
    broker={"broker.session.timeout.ms": "3500", "broker.heartbeat.interval.ms": "300"}
)
LOAD = Workload(
    rate_records_per_s=5000, record_size_bytes=100, duration_s=7, keys=1_000_000, producers=1
)
"""More keys than records, so that a record's key, which the tool can print, is its seq."""
BEHIND = FaultRequest(
    kind="leader-crash-behind", parameters={"at_s": 1.0, "behind_s": 0.5, "restart_after_s": 4.0}
)


class Witness(LocalCluster):
    """A cluster that keeps copies: of a dead node's log before it is started again, and of every log when the trial is over."""

    copies: Path
    topic: str

    def start(self, node_id: int) -> NodeStatus:
        """Copy first what the restart is going to cut."""
        if any(node.node_id == node_id and node.state == "stopped" for node in self.status()):
            self._copy(node_id, "dead")
        return super().start(node_id)

    def leader_epochs(self, topic: str) -> tuple[LeaderEpoch, ...]:
        """Copy what the final read has read, too: the topic is deleted after this."""
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
    """By offset."""
    epochs: dict[int, int] = field(default_factory=dict)
    """By offset: the leader epoch of the record's batch."""


@dataclass(frozen=True)
class Case:
    """A sealed trial with loss, and what the tool says of its logs."""

    record: TrialRecord
    folder: Path
    dead: Dump
    """Of the leader that was killed, before it rejoined."""
    survived: dict[int, Dump]
    """By node, at the end."""

    @property
    def leader(self) -> int:
        """The node that was killed."""
        return self.record.fault.targets[0]

    def rows(self, table: str, **wanted: object) -> list[dict[str, object]]:
        """Return a table's rows that have these values."""
        rows: list[dict[str, object]] = pq.read_table(self.folder / f"{table}.parquet").to_pylist()
        return [row for row in rows if all(row[name] == value for name, value in wanted.items())]

    def cut_at(self) -> int:
        """Return the offset to which the dead leader's log was cut, as its own log told."""
        (event,) = self.rows("events", kind="truncated", node=self.leader)
        assert isinstance(event["offset"], int)
        return event["offset"]

    def lost(self) -> dict[object, object]:
        """Return the acknowledged records that the final log lacks: the offset each was told, by seq."""
        there = {row["seq"] for row in self.rows("log")}
        return {
            row["seq"]: row["offset"]
            for row in self.rows("attempts", outcome=ACKED)
            if row["seq"] not in there
        }


@pytest.fixture(scope="module")
def case(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """One trial: acks=1, three replicas, the leader killed while its followers stood still."""
    folder = tmp_path_factory.mktemp("truth")
    provisioned = provision(folder / "clusters", cache, "truth", SPEC)
    try:
        witness = Witness(provisioned.folder, read_handle(provisioned.folder))
        record = run_trial(
            SweepFolder(folder / "sweep"), _trial(witness, folder), witness, Home(folder / "home")
        )
        dead, *_ = (folder / "copies").glob("dead-*")
        ends = {
            int(copy.name.removeprefix("end-")): _dump(cache, copy)
            for copy in (folder / "copies").glob("end-*")
        }
        yield Case(record, folder / "sweep" / "trials" / record.trial_id, _dump(cache, dead), ends)
    finally:
        provisioned.destroy()


def _trial(witness: Witness, folder: Path) -> TrialSpec:
    spec = a_spec(
        producer=producer_settings({"acks": "1", "socket.timeout.ms": "1000"}),
        consumer=consumer_settings({}),
        topic={"min.insync.replicas": "1"},
        workload=LOAD,
        fault=BEHIND,
    )
    witness.copies, witness.topic = folder / "copies", f"trial-{spec.trial_id}"
    return spec


def _dump(cache: Path, replica: Path) -> Dump:
    """Run Kafka's own tool over a replica's segments."""
    command = tool_command(cache, SPEC.kafka_version, "org.apache.kafka.tools.DumpLogSegments")
    segments = ",".join(map(str, sorted(replica.glob("*.log"))))
    asked = [
        "--print-data-log",
        "--key-decoder-class",
        "org.apache.kafka.tools.api.LongDecoder",
        "--files",
        segments,
    ]
    said = subprocess.run(
        [*command, *asked],
        capture_output=True,
        text=True,
        errors="replace",
        env=java_environment(),
        timeout=120,
        check=True,
    ).stdout
    dump, epoch = Dump(), -1
    for line in said.splitlines():
        if batch := re.match(r"baseOffset: .* partitionLeaderEpoch: (\d+) ", line):
            epoch = int(batch[1])
        elif found := re.match(r"\| offset: (\d+) .* key: (\d+) payload: ", line):
            dump.seqs[int(found[1])], dump.epochs[int(found[1])] = int(found[2]), epoch
    return dump


def test_the_records_lost_are_those_that_the_dead_leader_alone_had(case: Case) -> None:
    """Each lies in its log from the cut on, at the very offset that the producer was told; and what it told so and held there is lost."""
    cut_at, acked = (
        case.cut_at(),
        {(row["seq"], row["offset"]) for row in case.rows("attempts", outcome=ACKED)},
    )
    told_of_the_tail = {
        seq: offset
        for offset, seq in case.dead.seqs.items()
        if offset >= cut_at and (seq, offset) in acked
    }
    assert case.lost() == told_of_the_tail
    assert told_of_the_tail


def test_what_lies_below_the_cut_survived(case: Case) -> None:
    """The dead leader's log and the new leader's are the same up to there, and no further."""
    cut_at = case.cut_at()
    kept = {offset: seq for offset, seq in case.dead.seqs.items() if offset < cut_at}
    for dump in case.survived.values():
        assert {offset: seq for offset, seq in dump.seqs.items() if offset < cut_at} == kept
        assert dump.seqs[cut_at] != case.dead.seqs[cut_at]


def test_the_final_read_is_the_log_that_the_tool_prints(case: Case) -> None:
    """Offset for offset, with each record's leader epoch; on every replica."""
    read = {row["offset"]: (row["seq"], row["leader_epoch"]) for row in case.rows("log")}
    for dump in case.survived.values():
        assert {offset: (seq, dump.epochs[offset]) for offset, seq in dump.seqs.items()} == read


def test_the_epochs_begin_where_the_tool_shows_their_first_batches(case: Case) -> None:
    """As each replica's checkpoint says after the heal: the dead leader's too, whose own epoch was cut."""
    for node, dump in case.survived.items():
        first = {
            epoch: min(offset for offset, of in dump.epochs.items() if of == epoch)
            for epoch in set(dump.epochs.values())
        }
        assert {
            row["leader_epoch"]: row["start_offset"] for row in case.rows("epochs", node=node)
        } == first
        assert len(first) == 2


def test_the_new_leaders_epoch_begins_at_the_cut(case: Case) -> None:
    """The broker's line about the election, the cut and the checkpoints tell one offset."""
    (led,) = case.rows("events", kind="became_leader", leader_epoch=1)
    assert led["offset"] == case.cut_at()
    assert {row["start_offset"] for row in case.rows("epochs", leader_epoch=1)} == {case.cut_at()}
