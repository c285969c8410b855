"""The memory, disk and open files that a sweep needs, estimated from its plan.

The estimate is rounded up; a sweep that the machine cannot hold is refused before it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.undivided import TASK_BYTES, UndividedTrial
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.resources import SPARK_OPEN_FILES, MachineResources, format_gib

MIB: Final = 2**20

NODE_BYTES: Final = 300 * MIB
"""Memory of a node: 190 MiB measured, with a heap of at most 256 MiB."""
ORCHESTRATION_BYTES: Final = 500 * MIB
"""Memory of Airflow in one process and of the command itself."""
SPARK_BYTES: Final = 2048 * MIB
"""Heap of the Spark session that measures; the cluster may still run at that time."""
SPARK_JVM_BYTES: Final = 512 * MIB
"""Memory of Spark's JVM alone: 320 MiB measured."""
UNIT_BYTES: Final = 1024 * MIB
"""Memory of a task that measures a part of a divided trial, of 4 million records."""
REPLAYS: Final = 3
"""Times that a trial with headers reads its log again (`trial.final_read`)."""

RECORD_OVERHEAD_BYTES: Final = 30
"""Key, offsets and batch header of a record in a broker's log, rounded up."""
LEDGER_RECORD_BYTES: Final = 120
"""A record's attempt (57 bytes), log and read rows, before Parquet compresses them."""
NODE_OPEN_FILES: Final = 256
"""Open files of a node without the trial's partitions: 115 measured, and its internal topics."""
NODE_DISK_BYTES: Final = 64 * MIB
"""Metadata log, indexes (preallocated) and log files of a node."""


@dataclass(frozen=True)
class ResourceNeeds:
    """Largest need of memory, disk and open files at any time of a sweep."""

    memory_bytes: int
    disk_bytes: int
    open_files: int = 0
    """Of one process."""


def resource_needs(plan: Plan) -> ResourceNeeds:
    """Return the needs of a plan's trials; nothing if it has none."""
    if not plan.trials:
        return ResourceNeeds(0, 0)
    return ResourceNeeds(
        memory_bytes=max(map(_memory_bytes, plan.trials)) + ORCHESTRATION_BYTES,
        disk_bytes=_disk_bytes(plan),
        open_files=max(SPARK_OPEN_FILES, *map(_node_open_files, plan.trials)),
    )


def require_measurable(plan: Plan, machine: MachineResources, tasks: int) -> None:
    """Check that this machine can measure the trials that are not divided.

    Args:
        plan: the sweep's.
        machine: before the cluster is started, which may still run when the trials are measured.
        tasks: how many tasks Spark runs at once.

    Raises:
        MachineError: their tasks need more memory than there is; with both figures and a remedy.
    """
    found = sorted(
        ((undivided, trial) for trial in plan.trials if (undivided := _undivided(trial))),
        key=lambda one: one[0].memory_bytes,
        reverse=True,
    )[:tasks]
    if not found:
        return
    largest, trial = found[0]
    free_bytes = machine.memory_bytes - SPARK_JVM_BYTES - max(map(_cluster_bytes, plan.trials))
    size = (
        f"trial {trial.trial_id} ({trial.label}) has {largest.records:,} records with "
        f"{largest.features}, which one task measures: {largest.record_bytes} bytes per record"
    )
    free = f"{format_gib(max(0, free_bytes))} are free for it beside the cluster and Spark's JVM"
    if largest.memory_bytes > free_bytes:
        fit = max(0, free_bytes - TASK_BYTES) // largest.record_bytes
        raise MachineError(
            f"{size}, {format_gib(largest.memory_bytes)}, and {free}: request at most "
            f"{_round_down(fit):,} records (rate_records_per_s x duration_s), or measure on Spark "
            "executors with that memory (--master)"
        )
    if sum(one.memory_bytes for one, _ in found) > free_bytes:
        raise MachineError(
            f"{size}, and Spark measures {len(found)} such trials at once, "
            f"{format_gib(sum(one.memory_bytes for one, _ in found))}, and {free}: measure one "
            "after the other with --master 'local[1]', or request fewer records"
        )


def largest_undivided(plan: Plan) -> UndividedTrial | None:
    """Return the trial whose task takes most memory, of those that are not divided."""
    found = filter(None, map(_undivided, plan.trials))
    return max(found, key=lambda one: one.memory_bytes, default=None)


def _round_down(count: int) -> int:
    """Return a count with its first two digits, the others 0."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return count // unit * unit


def _undivided(trial: TrialSpec) -> UndividedTrial | None:
    """Return what decides the memory of measuring a trial; `None`: the trial is divided."""
    policy = trial.topic.get("cleanup.policy") or trial.cluster.settings().get(
        "log.cleanup.policy", ""
    )
    found = UndividedTrial(
        trial.workload.records,
        keys=trial.keying() is not None,
        compacted="compact" in policy,
        replays=REPLAYS if trial.workload.headers else 0,
    )
    return found if found.features else None


def _cluster_bytes(trial: TrialSpec) -> int:
    return _local_nodes(trial) * NODE_BYTES


def _memory_bytes(trial: TrialSpec) -> int:
    clients = trial.workload.producers + 1 + trial.workload.members
    cluster = _cluster_bytes(trial)
    ledger = trial.workload.records * LEDGER_RECORD_BYTES
    return max(
        cluster + clients * traits_of(trial.client).process_bytes + ledger, cluster + SPARK_BYTES
    )


def _node_open_files(trial: TrialSpec) -> int:
    """Return how many files a node has open if it has a replica of each partition."""
    topics = 2 if trial.workload.copies else 1
    return NODE_OPEN_FILES + topics * trial.partitions


def _local_nodes(trial: TrialSpec) -> int:
    """Return the number of node processes on this machine."""
    return len(trial.cluster.spec().roles) if trial.cluster.traits.started_here else 0


def _disk_bytes(plan: Plan) -> int:
    """Return the size of all ledgers and all logs, as if no topic were deleted before the end."""
    ledgers = sum(trial.workload.records * LEDGER_RECORD_BYTES for trial in plan.trials)
    output = max(
        trial.workload.records * traits_of(trial.client).output_record_bytes
        for trial in plan.trials
    )
    logs = sum(map(_log_bytes, plan.trials))
    return ledgers + output + logs + max(map(_local_nodes, plan.trials)) * NODE_DISK_BYTES


def _log_bytes(trial: TrialSpec) -> int:
    """Return the size of a trial's topics on all replicas, with the output topic of copiers."""
    topics = 2 if trial.workload.copies else 1
    record_bytes = trial.workload.record_size_bytes + RECORD_OVERHEAD_BYTES
    return topics * trial.workload.records * record_bytes * trial.replication_factor
