"""Sealed ledgers of any size, as trials with librdkafka write them, with known damage.

Rows are in the order of real ledgers: attempts by producer and seq, the log by partition and
offset, reads by received_ns. Records of a partition that the producer accepted within `linger.ms`
are one batch: they are acknowledged, and read, within microseconds of each other. The latencies of
batches have a gamma distribution.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from perf.crash_evidence import BEGIN_NS, CRASHED_LEADERS, Crash, fault_tables
from support.builders.records import a_record, no_rows, planned_as

from ackbench.experiments.ledger.schema import LOG, READS, REPLAYS, SENT, TABLES
from ackbench.experiments.ledger.seal import seal_files, write_table
from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN
from ackbench.experiments.ledger.trial_manifest import (
    FaultEvidence,
    KeyOptions,
    Phases,
    ProducerSummary,
    Replay,
    TrialManifest,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan

Integers = npt.NDArray[np.int64]

MS: Final = 1_000_000
KEYS: Final = 64
LINGER_NS: Final = 5 * MS
APPENDED_NS: Final = 10 * MS
"""How long before the crash a record was sent that is certainly appended when it happens."""
OUTCOMES: Final = (ACKED, REJECTED, UNKNOWN)
_ACKED, _REJECTED, _UNKNOWN = range(3)
_TIMED_OUT: Final = -192  # RD_KAFKA_RESP_ERR__MSG_TIMED_OUT
_QUEUE_FULL: Final = -184  # RD_KAFKA_RESP_ERR__QUEUE_FULL
_LOSES, _REPEATS = CRASHED_LEADERS
_IS_REREAD, _IS_SKIPPED, _IS_DAMAGED = 2, 3, 4
"""The partitions with redelivered reads, with missed records, and with corrupt and foreign rows."""
_FOREIGN: Final = -1
"""In place of a record's index: a row without the trial's token."""


@dataclass(frozen=True)
class Damage:
    """What a leader crash does to a trial of 6 partitions, in records.

    The leader of two partitions crashes after 40 % of the load and restarts after 70 %.
    """

    lost: int = 4_000
    """Acknowledged records that only the crashed leader had."""
    duplicated: int = 3_000
    """Records that were replicated and not acknowledged before the crash, and sent again."""
    unknown: int = 1_000
    """Records without an answer; every second one is in the log."""
    never_settled: int = 10
    """Those of them that never settled."""
    rejected: int = 200
    reordered: int = 1_500
    """Records that were appended behind as many later ones."""
    missed: int = 300
    redelivered: int = 400
    corrupt: int = 0
    """Acknowledged records whose only copy is corrupt: they are lost as well."""
    foreign: int = 0
    """Rows of the log without the trial's token."""
    unavailable_ns: int = 2_000 * MS
    """How long the crashed leader's partitions acknowledge nothing."""


@dataclass(frozen=True)
class LedgerShape:
    """The size of a trial."""

    records: int
    """Of all producers."""
    rate_records_per_s: int = 200_000
    producers: int = 1
    partitions: int = 6
    damage: Damage | None = None
    per_record_latency: bool = False
    """Whether each record has its own latency, instead of each batch: no time is ascending."""
    keying: KeyOptions | None = None
    """`None`: keys are not measured. A number of keys is a multiple of `KEYS`."""
    compacted: bool = False
    """`True`: the log has only the last record of each key."""
    replays: int = 0
    """Times that the log was read again, with the records' fields."""

    @property
    def keys(self) -> int:
        """The number of distinct keys."""
        return self.keying.count if self.keying else KEYS

    @property
    def per_producer(self) -> int:
        """The records of each producer."""
        return self.records // self.producers

    @property
    def spacing_ns(self) -> int:
        """The time between two records of a producer."""
        return 10**9 * self.producers // self.rate_records_per_s

    @property
    def load_ns(self) -> int:
        """The duration of the load."""
        return self.per_producer * self.spacing_ns

    @property
    def crash_ns(self) -> int:
        """When the leader crashes."""
        return BEGIN_NS + self.load_ns * 2 // 5

    @property
    def phases(self) -> Phases:
        """The phases of the trial, with those of the fault where there is damage."""
        end_ns = BEGIN_NS + self.load_ns
        return Phases(
            load_begin_ns=BEGIN_NS,
            load_end_ns=end_ns,
            fault_begin_ns=self.crash_ns if self.damage else None,
            fault_effective_ns=self.crash_ns + MS if self.damage else None,
            fault_end_ns=BEGIN_NS + self.load_ns * 7 // 10 if self.damage else None,
            settled_ns=end_ns + 5_000 * MS,
            healthy_ns=end_ns + 6_000 * MS,
        )


def plant_sweep(root: Path, shapes: Sequence[LedgerShape]) -> SweepFolder:
    """Write a sweep with one sealed trial per shape; an existing folder is replaced."""
    shutil.rmtree(root, ignore_errors=True)
    sweep = SweepFolder(root)
    for number, shape in enumerate(shapes):
        plant_trial(sweep, f"{number:03d}-perf00", number, shape)
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment="perf",
            question="",
            seed=0,
            repeats=1,
            trials=tuple(map(planned_as, sweep.complete_trials())),
            refused=(),
        )
    )
    return sweep


def plant_trial(sweep: SweepFolder, trial_id: str, number: int, shape: LedgerShape) -> None:
    """Write one trial, table by table: a single table is in memory at a time.

    Args:
        sweep: its sweep.
        trial_id: its id, the folder's name.
        number: the seed of its latencies, and its place in the sweep.
        shape: its size and damage.
    """
    partial = sweep.partial(trial_id)
    partial.mkdir(parents=True)
    trial = GeneratedTrial(shape, number)
    small = no_rows()
    starts = {number: trial.logs[number].begin_of_epoch_1 for number in CRASHED_LEADERS}
    evidence = fault_tables(Crash(shape.phases, shape.partitions, starts), bool(shape.damage))
    tables: dict[str, Callable[[], pa.Table]] = {
        "attempts": trial.attempts,
        "log": trial.log,
        "reads": trial.reads,
        "transactions": lambda: small["transactions"],
        "events": lambda: evidence["events"],
        "epochs": lambda: evidence["epochs"],
    }
    if shape.replays:
        tables |= {"sent": trial.sent, "replays": trial.replays}
    for name, table in tables.items():
        write_table(partial, trial_id, name, table())
    record = trial.record(sweep.sweep_id, trial_id)
    seal_files(partial, sweep.trial(trial_id), record)


@dataclass(frozen=True)
class PartitionLog:
    """The log of one partition that survived, and what the concurrent consumer received of it."""

    records: Integers
    """Which record each row has, as an index of the attempts; `_FOREIGN`: none."""
    begin_of_epoch_1: int
    """The first offset of leader epoch 1."""
    corrupt: int
    """How many rows before the foreign ones are corrupt."""
    foreign: int
    """How many rows at the end are foreign."""
    read_offsets: Integers
    received_ns: Integers


class GeneratedTrial:
    """The columns of a trial. A record is an index: attempts are by producer and seq."""

    def __init__(self, shape: LedgerShape, number: int) -> None:
        """Generate the trial.

        Args:
            shape: its size and damage.
            number: the seed of its latencies, and its place in the sweep.
        """
        self.shape, self.number = shape, number
        self._random = np.random.default_rng(number)
        seq = np.arange(shape.per_producer, dtype=np.int64)
        self._seq = seq if shape.producers == 1 else np.tile(seq, shape.producers)
        self._intended = self._seq * shape.spacing_ns
        # The producer wakes once a millisecond and sends what is due.
        self._sent = (self._intended // MS + 1) * MS + self._intended % MS // 8
        self._sent += self._random.integers(0, 32, len(self._sent), np.uint8)
        self._batch = (self._sent // LINGER_NS).astype(np.int32)
        self._intended += BEGIN_NS
        self._sent += BEGIN_NS
        # A hash distributes the keys unevenly; keys are used in turn.
        partition_of_key = self._random.permutation(KEYS).astype(np.int8) % shape.partitions
        self._partition = partition_of_key[self._seq % KEYS]
        self._outcome = np.zeros(len(self._seq), np.int8)
        self._settled = np.zeros(len(self._seq), np.int64)
        self._never_settled = np.empty(0, np.int64)
        self._offset = np.full(len(self._seq), -1, np.int64)
        self.logs = [self._partition_log(partition) for partition in range(shape.partitions)]
        del self._batch

    def _partition_log(self, partition: int) -> PartitionLog:
        """Settle the partition's records, and return its log."""
        damage = self.shape.damage
        sent = np.flatnonzero(self._partition == partition)
        if self.shape.producers > 1:
            sent = sent[self._batch[sent].argsort(kind="stable")]
        settled = self._acknowledged_ns(sent)
        appended = settled.copy()
        log, begin_of_epoch_1 = sent, len(sent)
        if damage and partition in CRASHED_LEADERS:
            crash = _CrashedPartition(self.shape, damage, self._batch[sent])
            crash.delay(settled, self._sent[sent], repeats=partition == _REPEATS)
            order = crash.appended_again() if partition == _REPEATS else crash.appended_late()
            log, begin_of_epoch_1 = sent[order], crash.begin_of_epoch_1(partition)
            appended = np.maximum.accumulate(settled[order])
            if partition == _LOSES:
                self._fail(sent, crash)
        # librdkafka reports latencies in microseconds.
        self._settled[sent] = self._sent[sent] + (settled - self._sent[sent]) // 1_000 * 1_000
        self._offset[log] = np.arange(len(log))
        if damage and partition == _LOSES:
            self._offset[sent[crash.lost]] = begin_of_epoch_1 + np.arange(damage.lost)
        self._offset[sent[self._outcome[sent] != _ACKED]] = -1
        foreign = damage.foreign if damage and partition == _IS_DAMAGED else 0
        corrupt = damage.corrupt if damage and partition == _IS_DAMAGED else 0
        read_offsets, received_ns = self._received(partition, appended)
        return PartitionLog(
            np.append(log, np.full(foreign, _FOREIGN)),
            begin_of_epoch_1,
            corrupt,
            foreign,
            read_offsets,
            received_ns,
        )

    def _acknowledged_ns(self, sent: Integers) -> Integers:
        """Return when a partition's records would be acknowledged without a fault."""
        if self.shape.per_record_latency:
            own = self._random.gamma(2, 3 * MS, len(sent)).astype(np.int64)
            return np.asarray(self._sent[sent] + own)
        batches = int(self._batch.max()) + 1
        ready_ns = np.arange(1, batches + 1) * LINGER_NS + BEGIN_NS
        latency_ns = self._random.gamma(2, 3 * MS, batches).astype(np.int64)
        acknowledged_ns = np.maximum.accumulate(ready_ns + latency_ns)
        place_ns = (self._sent[sent] - BEGIN_NS) % LINGER_NS // 16
        return np.asarray(acknowledged_ns[self._batch[sent]] + place_ns)

    def _fail(self, sent: Integers, crash: _CrashedPartition) -> None:
        """Set the outcomes of records without an answer, and of rejected ones."""
        self._outcome[sent[crash.unknown]] = _UNKNOWN
        self._outcome[sent[crash.rejected]] = _REJECTED
        self._never_settled = sent[crash.unknown][: crash.damage.never_settled]

    def _received(self, partition: int, appended: Integers) -> tuple[Integers, Integers]:
        """Return the offsets that the concurrent consumer received of a partition, and when.

        Records appended within a millisecond are returned together, a nanosecond apart.
        """
        offsets = np.arange(len(appended))
        fetched_ms = np.maximum.accumulate(appended) // MS
        first = np.where(np.diff(fetched_ms, prepend=-1) > 0, offsets, 0)
        place = offsets - np.maximum.accumulate(first)
        received_ns = (fetched_ms + 1) * MS + fetched_ms * 7_919 % 600_000 + place
        received_ns += partition * 50_000
        middle, damage = len(offsets) // 2, self.shape.damage
        if damage and partition == _IS_SKIPPED:
            keep = np.r_[:middle, middle + damage.missed : len(offsets)]
            return offsets[keep], received_ns[keep]
        if damage and partition == _IS_REREAD:
            again = np.arange(middle, middle + damage.redelivered)
            later_ns = received_ns[again[-1]] + 20 * MS + np.arange(len(again))
            return np.append(offsets, again), np.append(received_ns, later_ns)
        return offsets, received_ns

    def attempts(self) -> pa.Table:
        """Return the table `attempts`."""
        records = len(self._seq)
        outcomes = pa.DictionaryArray.from_arrays(self._outcome, list(OUTCOMES))
        errors = np.array([0, _QUEUE_FULL, _TIMED_OUT], np.int32)[self._outcome]
        never_settled = np.zeros(records, np.bool_)
        never_settled[self._never_settled] = True
        columns = {
            "producer": self._producers(np.arange(records)),
            "seq": self._seq,
            "key": self._seq % self.shape.keys,
            "intended_ns": self._intended,
            "sent_ns": self._sent,
            "settled_ns": pa.array(self._settled, mask=_mask(never_settled)),
            "outcome": outcomes,
            "error": errors,
            "partition": self._partition.astype(np.int32),
            "offset": pa.array(self._offset, mask=_mask(self._offset < 0)),
            "transaction": pa.nulls(records, pa.int64()),
        }
        return _table(columns, TABLES["attempts"])

    def log(self) -> pa.Table:
        """Return the table `log`."""
        records = np.concatenate([log.records for log in self.logs])
        foreign = _mask(records == _FOREIGN)
        rows = len(records)
        columns = {
            "partition": _repeat_partitions([len(log.records) for log in self.logs]),
            "offset": np.concatenate([np.arange(len(log.records)) for log in self.logs]),
            "producer": pa.array(self._producers(records), mask=foreign),
            "seq": pa.array(self._seq[records], mask=foreign),
            "timestamp_ms": self._sent[records] // MS,
            "intact": np.concatenate([_intact(log) for log in self.logs]),
            "leader_epoch": np.concatenate(
                [
                    (np.arange(len(log.records)) >= log.begin_of_epoch_1).astype(np.int32)
                    for log in self.logs
                ]
            ),
            "visible": np.ones(rows, np.bool_),
        }
        log = _table(columns, LOG)
        if self.shape.compacted:
            keys = self._seq[records][::-1] % self.shape.keys
            log = log.take(rows - 1 - np.sort(np.unique(keys, return_index=True)[1])[::-1])
        return log

    def reads(self) -> pa.Table:
        """Return the table `reads`."""
        received_ns = np.concatenate([log.received_ns for log in self.logs])
        order = received_ns.argsort(kind="stable")
        records = np.concatenate([log.records[log.read_offsets] for log in self.logs])[order]
        foreign = _mask(records == _FOREIGN)
        zeros = np.zeros(len(order), np.int32)
        columns = {
            "consumer": zeros,
            "generation": zeros,
            "partition": _repeat_partitions([len(log.read_offsets) for log in self.logs])[order],
            "offset": np.concatenate([log.read_offsets for log in self.logs])[order],
            "producer": pa.array(self._producers(records), mask=foreign),
            "seq": pa.array(self._seq[records], mask=foreign),
            "intended_ns": pa.array(self._intended[records], mask=foreign),
            "received_ns": received_ns[order],
        }
        return _table(columns, READS)

    def sent(self) -> pa.Table:
        """Return the table `sent`."""
        records = np.arange(len(self._seq))
        columns = {"producer": self._producers(records), "seq": self._seq, **self._fields(records)}
        return _table(columns, SENT)

    def replays(self) -> pa.Table:
        """Return the table `replays`: each has all of the log."""
        records = np.concatenate([log.records for log in self.logs])
        sizes = [len(log.records) for log in self.logs]
        rows = {
            "partition": _repeat_partitions(sizes),
            "offset": np.concatenate([np.arange(size) for size in sizes]),
            "producer": self._producers(records),
            "seq": self._seq[records],
            **self._fields(records),
        }
        return pa.concat_tables(
            _table({"replay": np.full(len(records), number, np.int32), **rows}, REPLAYS)
            for number in range(1, self.shape.replays + 1)
        )

    def _fields(self, records: Integers) -> dict[str, object]:
        digest = (records * 0x1E37_79B9_7F4A_7C15) & (2**62 - 1)  # in no order
        names = ("key_digest", "value_digest", "headers_digest")
        return {"timestamp_ms": self._sent[records] // MS, **dict.fromkeys(names, digest)}

    def record(self, sweep_id: str, trial_id: str) -> TrialManifest:
        """Return the content of `trial.json`."""
        shape, kind = self.shape, "leader-crash" if self.shape.damage else "none"
        return a_record(
            sweep_id=sweep_id,
            trial_id=trial_id,
            experiment="perf",
            cell={"acks": 1, "fault": kind},
            label=f"acks=1 {kind}",
            order=self.number,
            partitions=shape.partitions,
            replication_factor=3,
            rate_records_per_s=shape.rate_records_per_s,
            duration_s=shape.load_ns / 10**9,
            fault=FaultEvidence(kind=kind, targets=(1,) if shape.damage else (), took_effect=True),
            phases=shape.phases,
            producers=tuple(
                ProducerSummary(
                    producer=producer,
                    records=shape.per_producer,
                    version="2.16.1",
                    lateness_us_p50=500,
                    lateness_us_p99=1_000,
                    lateness_us_max=1_000,
                )
                for producer in range(shape.producers)
            ),
            end_offsets={number: len(log.records) for number, log in enumerate(self.logs)},
            keying=shape.keying,
            topic_settings={"cleanup.policy": "compact"} if shape.compacted else {},
            replays=tuple(
                Replay(number=number, begin_offsets=dict.fromkeys(range(shape.partitions), 0))
                for number in range(1, shape.replays + 1)
            ),
        )

    def _producers(self, records: Integers) -> npt.NDArray[np.int32]:
        return (records // self.shape.per_producer).astype(np.int32)


class _CrashedPartition:
    """Which records of a crashed leader's partition are damaged, as places in its order."""

    def __init__(self, shape: LedgerShape, damage: Damage, batches: npt.NDArray[np.int32]) -> None:
        self.damage = damage
        self._records = len(batches)
        self._crash_ns = shape.crash_ns
        self._available_ns = shape.crash_ns + damage.unavailable_ns

        def place(at_ns: int) -> int:
            return int(np.searchsorted(batches, (at_ns - BEGIN_NS) // LINGER_NS))

        self._crash = place(self._crash_ns - APPENDED_NS)
        self._available = place(self._available_ns)
        unknown = self._crash + damage.unknown
        rejected = unknown + damage.rejected
        self.lost = slice(self._crash - damage.lost, self._crash)
        self.unknown = slice(self._crash, unknown)
        self.rejected = slice(unknown, rejected)
        self._reordered = slice(rejected, rejected + damage.reordered)
        self._overtaking = slice(self._reordered.stop, self._reordered.stop + damage.reordered)
        if self.lost.start < 0 or self._overtaking.stop > self._records:
            raise ValueError(
                f"the damage {damage} does not fit into a partition of {self._records} records"
            )

    def begin_of_epoch_1(self, partition: int) -> int:
        """Return the first offset of the next leader."""
        return self.lost.start if partition == _LOSES else self._crash

    def delay(self, settled: Integers, sent: Integers, *, repeats: bool) -> None:
        """Change the times of acknowledgements: none while the partition is unavailable.

        Args:
            settled: when each record would be acknowledged without the fault; changed.
            sent: when each record was sent.
            repeats: whether the last records before the crash are acknowledged after it.
        """
        first = self._crash - self.damage.duplicated if repeats else self._crash
        settled[: self._crash] = np.minimum(settled[: self._crash], self._crash_ns - 1_000)
        late = slice(first, self._available)
        settled[late] = self._available_ns + (sent[late] - sent[first]) // 20

    def appended_again(self) -> Integers:
        """Return the order of the log if the last records before the crash are sent again."""
        again = np.arange(self._crash - self.damage.duplicated, self._records)
        return np.append(np.arange(self._crash), again)

    def appended_late(self) -> Integers:
        """Return the order of the log with losses and with records behind later ones."""
        every = np.arange(self._records)
        return np.concatenate(
            [
                every[: self.lost.start],
                every[self.unknown][::2],
                every[self._overtaking],
                every[self._reordered],
                every[self._overtaking.stop :],
            ]
        )


def _intact(log: PartitionLog) -> npt.NDArray[np.bool_]:
    intact = np.ones(len(log.records), np.bool_)
    end = len(intact) - log.foreign
    intact[end - log.corrupt : end] = False
    return intact


def _repeat_partitions(rows: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.repeat(np.arange(len(rows), dtype=np.int32), rows)


def _mask(is_null: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    return is_null if is_null.any() else None


def _table(columns: dict[str, object], schema: pa.Schema) -> pa.Table:
    return pa.table([columns[column.name] for column in schema], schema=schema)
