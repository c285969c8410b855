"""Faults of the leader's disk: full, removed, slow, or with a flipped bit.

The first three need root, as each node's data is on an image. A broker whose only log directory
fails takes it offline and shuts down (KIP-112); Kafka never takes the directory back on its own.
"""

from __future__ import annotations

import time
from typing import Final

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.trial.events.journal import CRC_FAILED
from ackbench.experiments.trial.faults.core import (
    EFFECTIVE,
    OBSERVED_PARTITION,
    FaultContext,
    FaultKind,
    FaultMissed,
)
from ackbench.experiments.trial.faults.core.evidence import wait_for_leader_change
from ackbench.experiments.trial.faults.core.kind import TrialObservations, extend_evidence
from ackbench.experiments.trial.faults.disk.parameters import (
    FAMILY,
    BitFlipParameters,
    DiskParameters,
    SlowDiskParameters,
    bit_flip_effects,
    power_loss_effects,
    slow_disk_effects,
)
from ackbench.experiments.trial.faults.disk.power_loss import NodeLogTail
from ackbench.experiments.trial.faults.process.parameters import crash_effects
from ackbench.infra.cluster.capabilities import Capability
from ackbench.infra.cluster.disks import SYNCED_BYTES

_REQUIRED: Final = frozenset({Capability.DISK_IMAGES})


# A disk that is full or removed: the broker shuts down

_DISK_FULL: Final = "No space left on device"
_DISK_REMOVED: Final = "IOException"


def disk_full(context: FaultContext, parameters: DiskParameters) -> FaultEvidence:
    """Fill the leader's disk to the last block.

    It took effect if the node shut down because of it and the partition lost its leader.
    """
    context.sleep_until(parameters.at_s)
    leader, disks = context.leader(), context.cluster.disks
    with context.injected(leader) as heals:
        log = NodeLogTail(context, leader)
        heals.callback(context.start, leader)
        heals.callback(disks.free, leader)
        with context.held_nodes.locked(leader):
            context.held_nodes.hold(leader, "down", context.name)
            free_bytes = disks.fill(leader)
        context.note(EFFECTIVE, f"{free_bytes} bytes are free", leader)
        context.add_evidence(
            f"node {leader}'s disk was filled {context.load_elapsed_s():.2f} s into the load:"
            f" {free_bytes} bytes were left"
        )
        context.sleep_until(parameters.heals_at_s())
        reacted = wait_for_leader_change(context, leader, parameters.patience_s)
        shut_down = _shut_down_on_its_own(context, leader, log, _DISK_FULL)
    return context.fault_evidence((leader,), took_effect=reacted and shut_down)


def remove_log_dir(context: FaultContext, parameters: DiskParameters) -> FaultEvidence:
    """Shut down the file system under the leader's log directory.

    It took effect as `disk_full` does.
    """
    context.sleep_until(parameters.at_s)
    leader, disks = context.leader(), context.cluster.disks
    with context.injected(leader) as heals:
        log = NodeLogTail(context, leader)
        heals.callback(context.start, leader)
        heals.callback(_bring_disk_back, context, leader)
        with context.held_nodes.locked(leader):
            context.held_nodes.hold(leader, "down", context.name)
            disks.shut_down(leader)
        context.note(EFFECTIVE, "the file system of its log directory is shut down", leader)
        context.add_evidence(
            f"node {leader}'s log directory was removed {context.load_elapsed_s():.2f} s into the"
            " load, with all unsynced data"
        )
        context.sleep_until(parameters.heals_at_s())
        reacted = wait_for_leader_change(context, leader, parameters.patience_s)
        shut_down = _shut_down_on_its_own(context, leader, log, _DISK_REMOVED)
    return context.fault_evidence((leader,), took_effect=reacted and shut_down)


def _shut_down_on_its_own(
    context: FaultContext, node: int, log: NodeLogTail, error_text: str
) -> bool:
    """Return whether the node has ended without a signal; add its error to the evidence."""
    ended = context.process_state(node) == "stopped"
    error = log.first_line_with(error_text)
    context.add_evidence(
        f"node {node} shut down on its own"
        if ended
        else f"node {node} still ran when the fault was healed"
    )
    context.add_evidence(
        f"node {node} logged: {error}" if error else f"node {node} did not log {error_text!r}"
    )
    return ended


def _bring_disk_back(context: FaultContext, node: int) -> None:
    """Restore the disk. A process that still runs without its disk is killed first."""
    if context.process_state(node) != "stopped":
        context.cluster.kill(node)
    context.cluster.disks.bring_back(node)


# A slow disk

_MIN_SLOWDOWN: Final = 10
"""A synced write must take this many times as long, or the kernel did not throttle the disk."""


def slow_disk(context: FaultContext, parameters: SlowDiskParameters) -> FaultEvidence:
    """Let the kernel throttle writes to the leader's disk.

    It took effect if a synced write took at least ten times as long as before.
    """
    context.sleep_until(parameters.at_s)
    leader, disks = context.leader(), context.cluster.disks
    fast_s = min(_synced_write_s(context, leader) for _ in range(3))
    with context.injected(leader) as heals:
        heals.callback(disks.limit, leader, None)
        disks.limit(leader, parameters.write_bytes_per_s)
        context.note(
            EFFECTIVE, f"the kernel limits writes to {parameters.write_bytes_per_s} bytes/s", leader
        )
        began_s = time.monotonic()
        slow_s = _synced_write_s(context, leader)
        context.sleep_until(parameters.heals_at_s())
        lasted_s = time.monotonic() - began_s
    context.add_evidence(
        f"writes to node {leader}'s disk were limited to {parameters.write_bytes_per_s} bytes/s"
        f" for {lasted_s:.2f} s"
    )
    context.add_evidence(
        f"a synced write of {SYNCED_BYTES} bytes took {slow_s:.3f} s, and {fast_s:.3f} s before"
    )
    return context.fault_evidence((leader,), took_effect=slow_s > _MIN_SLOWDOWN * fast_s)


def _synced_write_s(context: FaultContext, node: int) -> float:
    try:
        return context.cluster.disks.synced_write_s(node)
    except OSError as error:  # another fault may have removed the disk
        raise FaultMissed(f"a write to node {node}'s disk failed: {error.strerror}") from error


# A bit flipped in a stored record, under the running leader
#
# Each batch has a CRC of its bytes (https://kafka.apache.org/documentation/#recordbatch). The
# broker checks it when a batch arrives and when it recovers a log after an unclean shutdown, and at
# no other time: it serves what is on its disk. Consumers check it if `check.crcs` is set.

_RECOVERY_TIMEOUT_S: Final = 60.0
_INVALID_BATCH: Final = "Found invalid messages in log segment"


def flip_bit(context: FaultContext, parameters: BitFlipParameters) -> FaultEvidence:
    """Flip a bit of an acknowledged record on the leader's disk.

    It took effect if the batch's CRC is wrong afterwards. With `then: restart`, the partition must
    also have lost its leader, and log recovery must have found the batch.
    """
    context.sleep_until(parameters.at_s)
    leader = context.leader()
    with context.injected(leader) as heals:
        took_effect = _flip(context, leader)
        if parameters.then == "restart":
            log = NodeLogTail(context, leader)
            heals.callback(context.start, leader)
            context.kill(leader)
            context.sleep_until(parameters.heals_at_s())
            reacted = wait_for_leader_change(context, leader, parameters.patience_s)
            context.start(leader)
            found = _found_in_recovery(context, leader, log)
            took_effect = took_effect and reacted and found
    return context.fault_evidence((leader,), took_effect=took_effect, then=parameters.then)


def _flip(context: FaultContext, leader: int) -> bool:
    """Flip a bit in a batch that every replica has.

    Returns whether the batch's CRC was right before and is wrong now.
    """
    disks, replicas = context.cluster.disks, context.partition_with_leader().replicas
    common_end_offset = min(
        disks.replica_log(node, context.topic, OBSERVED_PARTITION).end_offset for node in replicas
    )
    flip = disks.flip_bit(leader, context.topic, OBSERVED_PARTITION, below_offset=common_end_offset)
    if flip is None:
        raise FaultMissed(
            f"no uncompressed batch of partition {OBSERVED_PARTITION} was on all of its replicas"
        )
    context.note(EFFECTIVE, f"bit {flip.bit} of byte {flip.position} of {flip.segment}", leader)
    context.add_evidence(
        f"bit {flip.bit} of byte {flip.position} of node {leader}'s {flip.segment} was flipped, in"
        f" the batch of offsets {flip.base_offset} to {flip.last_offset}"
    )
    context.add_evidence(
        "the batch's CRC was right before and is wrong now"
        if flip.invalidated_crc
        else "the batch's CRC did not change from right to wrong"
    )
    return flip.invalidated_crc


def _found_in_recovery(context: FaultContext, leader: int, log: NodeLogTail) -> bool:
    """Return whether log recovery found the batch when the node started."""
    line = context.wait_for(
        lambda: log.first_line_with(_INVALID_BATCH) or log.first_line_with(NodeLogTail.STARTED),
        awaiting=f"node {leader} to recover its log",
        timeout_s=_RECOVERY_TIMEOUT_S,
    )
    found = _INVALID_BATCH in line
    context.add_evidence(
        f"when node {leader} started, it truncated its log there: {line}"
        if found
        else f"node {leader} started and found no invalid batch in its log"
    )
    return found


def confirm_bit_flip(evidence: FaultEvidence, observations: TrialObservations) -> FaultEvidence:
    """Return the evidence with the CRC errors of the final read.

    It took effect if a consumer that checks CRCs got an error and the log was to be read, or got
    none and the leader was restarted.
    """
    failed = [
        f"a consumer that checks CRCs got an error for the batch at offset {event.offset};"
        " the final read went on without the check"
        for event in observations.since(CRC_FAILED)
        if event.partition == OBSERVED_PARTITION
    ]
    none = "no consumer got a CRC error: the flipped bit is not in the log that is served"
    expected = evidence.parameters["then"] == "read"
    return extend_evidence(
        evidence, *(failed or [none]), took_effect=evidence.took_effect and bool(failed) == expected
    )


KINDS: Final = (
    FaultKind(
        "disk-full",
        FAMILY,
        "the leader's disk is filled to the last block;"
        " the space is freed and the node started again later",
        DiskParameters,
        disk_full,
        crash_effects,  # what the node had written stays
        required_capabilities=_REQUIRED,
        disk="image",
        may_exit="targets",
        needs_own_cluster=True,
    ),
    FaultKind(
        "log-dir-gone",
        FAMILY,
        "the leader's log directory is removed under it, with all unsynced data;"
        " it is restored and the node started again later",
        DiskParameters,
        remove_log_dir,
        power_loss_effects,
        required_capabilities=_REQUIRED,
        disk="image",
        may_exit="targets",
        needs_own_cluster=True,
    ),
    FaultKind(
        "slow-disk",
        FAMILY,
        "writes to the leader's disk are limited to a low rate for a while",
        SlowDiskParameters,
        slow_disk,
        slow_disk_effects,
        required_capabilities=frozenset({Capability.DISK_IMAGES, Capability.SLOW_DEVICES}),
        disk="image",
        may_exit="targets",
    ),
    FaultKind(
        "bit-flip",
        FAMILY,
        "one bit of a stored record flips on the leader's disk;"
        " then the log is read, or the leader crashes and recovers it",
        BitFlipParameters,
        flip_bit,
        bit_flip_effects,
        acts_on_stored_records=True,
        confirm=confirm_bit_flip,
    ),
)
