"""What a sweep asks of the machine, from its plan: enough to refuse the impossible before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from experiments.sweep.plan import Plan, TrialSpec

MIB: Final = 2**20

NODE_BYTES: Final = 300 * MIB
"""A node was measured at 190 MiB, with a heap of 256 MiB at most."""
CLIENT_BYTES: Final = 250 * MIB
"""A producer or reader process: the interpreter with its libraries 150 MiB, and queues."""
JAVA_CLIENT_BYTES: Final = 450 * MIB
"""The same of Java's: a heap of 256 MiB, and the JVM around it."""
ORCHESTRATION_BYTES: Final = 500 * MIB
"""Airflow in one process, and the command itself."""
SPARK_BYTES: Final = 2048 * MIB
"""The measuring session's heap; the cluster may still run beside it."""

RECORD_OVERHEAD_BYTES: Final = 30
"""Key, offsets and batch header of a record in a broker's log, rounded up."""
LEDGER_RECORD_BYTES: Final = 120
"""A record's attempt (57 bytes), log and read rows while they are written, before Parquet makes them small."""
JAVA_RECORD_BYTES: Final = 400
"""What Kafka's own programs write of a record, the producer and the reader, until the ledger holds it."""
NODE_DISK_BYTES: Final = 64 * MIB
"""Metadata log, indexes (preallocated) and the node's own logs."""


@dataclass(frozen=True)
class ResourceNeeds:
    """Bytes of memory and disk at the sweep's widest moment, generously rounded."""

    memory_bytes: int
    disk_bytes: int


def needs_of(plan: Plan) -> ResourceNeeds:
    """Return what the plan's trials need; nothing where it has none."""
    if not plan.trials:
        return ResourceNeeds(0, 0)
    return ResourceNeeds(
        memory_bytes=max(map(_memory_bytes, plan.trials)) + ORCHESTRATION_BYTES,
        disk_bytes=_disk_bytes(plan),
    )


def _memory_bytes(trial: TrialSpec) -> int:
    clients = trial.workload.producers + 1 + trial.workload.members
    ledger = trial.workload.records * LEDGER_RECORD_BYTES
    client_bytes = JAVA_CLIENT_BYTES if trial.client == "java" else CLIENT_BYTES
    running = _members(trial) * NODE_BYTES + clients * client_bytes + ledger
    return max(running, _members(trial) * NODE_BYTES + SPARK_BYTES)


def _members(trial: TrialSpec) -> int:
    """How many processes its cluster is here; none of one that is somebody else's."""
    return 0 if trial.cluster.external else len(trial.cluster.spec().roles)


def _disk_bytes(plan: Plan) -> int:
    """Every trial's log on every replica, as if no topic were deleted before the end, and every ledger."""
    records = sum(trial.workload.records * LEDGER_RECORD_BYTES for trial in plan.trials)
    records += max(
        trial.workload.records * JAVA_RECORD_BYTES * (trial.client == "java")
        for trial in plan.trials
    )
    return (
        records
        + sum(map(_log_bytes, plan.trials))
        + max(map(_members, plan.trials)) * NODE_DISK_BYTES
    )


def _log_bytes(trial: TrialSpec) -> int:
    """Return what its topics take, the one that is copied to as well."""
    topics = 2 if trial.workload.kind == "copy" else 1
    return (
        topics
        * trial.workload.records
        * (trial.workload.record_size_bytes + RECORD_OVERHEAD_BYTES)
        * trial.replication_factor
    )
