"""Faults of one node's disk: full, gone, slow. Needs root: each node's data lies on an image.

A broker whose only log directory fails takes it offline and ends (KIP-112); Kafka never takes it in again by itself.
"""

from __future__ import annotations

import time
from typing import Final

from experiments.events.journal import CRC_FAILED
from experiments.faults.core import OBSERVED_PARTITION, FaultContext, FaultKind, FaultMissed
from experiments.faults.core.evidence import leader_left
from experiments.faults.core.kind import TrialObservations
from experiments.faults.disk.parameters import (
    FAMILY,
    BitFlipParameters,
    DiskParameters,
    SlowDiskParameters,
    nature_of_bit_flip,
    nature_of_full_disk,
    nature_of_power_loss,
    nature_of_slow_disk,
)
from experiments.faults.disk.power_loss import NodeLogState
from experiments.ledger.record import FaultEvidence
from infra.cluster.capabilities import Capability
from infra.cluster.disks import SYNCED_BYTES

_FULL: Final = "No space left on device"
_SLOWED: Final = 10
"""So many times longer a synced write takes at least, or the kernel did not hold it back."""


def disk_full(context: FaultContext, parameters: DiskParameters) -> FaultEvidence:
    """Take every free block of the leader's disk; it bit when the node ended over it, and the partition lost its leader."""
    context.until(parameters.at_s)
    leader, disks = context.leader(), context.cluster.disks
    with context.striking(leader) as healing:
        log = NodeLogState(context, leader)
        healing.callback(context.start, leader)
        healing.callback(disks.free, leader)
        with context.held_nodes.alone(leader):
            context.held_nodes.take(leader, "down", context.name)
            left_bytes = disks.fill(leader)
        context.note("fault_effective", f"{left_bytes} bytes are free", leader)
        context.saw(
            f"node {leader}'s disk was filled {context.since_load_began_s():.2f} s into the load: {left_bytes} bytes were left"
        )
        context.until(parameters.heals_at_s())
        left = context.noticed(lambda: leader_left(context, leader), parameters.patience_s)
        ended = _ended_by_itself(context, leader, log, _FULL)
    return FaultEvidence(
        kind="disk-full",
        targets=(leader,),
        took_effect=left and ended,
        evidence=tuple(context.facts),
    )


def log_dir_gone(context: FaultContext, parameters: DiskParameters) -> FaultEvidence:
    """End the file system under the leader's log directory; it bit when the node ended over it, and the partition lost its leader."""
    context.until(parameters.at_s)
    leader, disks = context.leader(), context.cluster.disks
    with context.striking(leader) as healing:
        log = NodeLogState(context, leader)
        healing.callback(context.start, leader)
        healing.callback(_bring_back, context, leader)
        with context.held_nodes.alone(leader):
            context.held_nodes.take(leader, "down", context.name)
            disks.take_away(leader)
        context.note("fault_effective", "the file system of its log directory has ended", leader)
        context.saw(
            f"node {leader}'s log directory was gone {context.since_load_began_s():.2f} s into the load, with all that was not synced"
        )
        context.until(parameters.heals_at_s())
        left = context.noticed(lambda: leader_left(context, leader), parameters.patience_s)
        ended = _ended_by_itself(context, leader, log, "IOException")
    return FaultEvidence(
        kind="log-dir-gone",
        targets=(leader,),
        took_effect=left and ended,
        evidence=tuple(context.facts),
    )


def _synced_write_s(context: FaultContext, node: int) -> float:
    """Return how long a synced write takes.

    Raises:
        Missed: the disk takes none: another part of the fault has struck it.
    """
    try:
        return context.cluster.disks.synced_write_s(node)
    except OSError as error:
        raise FaultMissed(f"the disk of node {node} takes no write: {error.strerror}") from error


def slow_disk(context: FaultContext, parameters: SlowDiskParameters) -> FaultEvidence:
    """Let the kernel hold back what is written to the leader's disk; it bit when a synced write was seen to take its time."""
    context.until(parameters.at_s)
    leader, disks = context.leader(), context.cluster.disks
    fast_s = min(_synced_write_s(context, leader) for _ in range(3))
    with context.striking(leader) as healing:
        healing.callback(disks.limit, leader, None)
        disks.limit(leader, parameters.write_bytes_per_s)
        context.note(
            "fault_effective",
            f"the kernel takes {parameters.write_bytes_per_s} bytes a second",
            leader,
        )
        began_s = time.monotonic()
        slow_s = _synced_write_s(context, leader)
        context.until(parameters.heals_at_s())
        lasted_s = time.monotonic() - began_s
    context.saw(
        f"node {leader}'s disk took {parameters.write_bytes_per_s} bytes a second for {lasted_s:.2f} s"
    )
    context.saw(
        f"a synced write of {SYNCED_BYTES} bytes to it took {slow_s:.3f} s, and {fast_s:.3f} s before"
    )
    return FaultEvidence(
        kind="slow-disk",
        targets=(leader,),
        took_effect=slow_s > _SLOWED * fast_s,
        evidence=tuple(context.facts),
    )


def _ended_by_itself(context: FaultContext, node: int, log: NodeLogState, telltale: str) -> bool:
    """Whether the node's process has ended, which nobody asked for; keeps what it said about its disk."""
    ended = context.state_of(node) == "stopped"
    said = log.first(telltale)
    context.saw(
        f"node {node} ended by itself"
        if ended
        else f"node {node} still ran when the fault was healed"
    )
    context.saw(f"it said: {said}" if said else f"its log says nothing of {telltale!r}")
    return ended


def _bring_back(context: FaultContext, node: int) -> None:
    """Where the process lives on without its disk, it is killed first."""
    if context.state_of(node) != "stopped":
        context.cluster.kill(node)
    context.cluster.disks.bring_back(node)


_ON_IMAGES: Final = frozenset({Capability.DISK_IMAGES})

_FAILING: Final = (
    FaultKind(
        "disk-full",
        FAMILY,
        "the leader's disk is filled to its last block; freed, and the node started again, later",
        DiskParameters,
        disk_full,
        nature_of_full_disk,
        required_capabilities=_ON_IMAGES,
        disk="image",
        needs_own_cluster=True,
    ),
    FaultKind(
        "log-dir-gone",
        FAMILY,
        "the leader's log directory disappears under it, with all that was not synced; it comes back, and the node is started again, later",
        DiskParameters,
        log_dir_gone,
        nature_of_power_loss,
        required_capabilities=_ON_IMAGES,
        disk="image",
        needs_own_cluster=True,
    ),
    FaultKind(
        "slow-disk",
        FAMILY,
        "the leader's disk takes only so many bytes a second for a while",
        SlowDiskParameters,
        slow_disk,
        nature_of_slow_disk,
        required_capabilities=frozenset({Capability.DISK_IMAGES, Capability.SLOW_DEVICES}),
        disk="image",
    ),
)


# ---------- One bit flipped in a stored record, under the running leader.
#
# Each batch carries a CRC of its bytes (https://kafka.apache.org/documentation/#recordbatch). The broker checks it when a batch arrives and when it
# recovers a log after an unclean end, and at no other time: it serves what lies on its disk. Readers check it if they are set to (`check.crcs`).


_SETTLE_TIMEOUT_S: Final = 5.0
_FOUND: Final = "Found invalid messages in log segment"


def flip_bit(context: FaultContext, parameters: BitFlipParameters) -> FaultEvidence:
    """Flip a bit of an acknowledged record; it bit when the batch's CRC no longer holds, and, killed, the partition lost its leader."""
    context.until(parameters.at_s)
    leader = context.leader()
    with context.striking(leader) as healing:
        flipped = _flip(context, leader)
        if parameters.then == "restart":
            log = NodeLogState(context, leader)
            healing.callback(context.start, leader)
            context.kill(leader)
            context.until(parameters.heals_at_s())
            flipped = (
                context.noticed(lambda: leader_left(context, leader), parameters.patience_s)
                and flipped
            )
            context.start(leader)
            flipped = _recovered(context, leader, log) and flipped
    return FaultEvidence(
        kind="bit-flip",
        parameters={"then": parameters.then},
        targets=(leader,),
        took_effect=flipped,
        evidence=tuple(context.facts),
    )


def _flip(context: FaultContext, leader: int) -> bool:
    """Flip it in a batch that every replica has; return whether its CRC held before and does not any more."""
    disks, replicas = context.cluster.disks, context.partition().replicas
    everywhere = min(
        disks.replica(node, context.topic, OBSERVED_PARTITION).end_offset for node in replicas
    )
    flip = disks.flip_bit(leader, context.topic, OBSERVED_PARTITION, below_offset=everywhere)
    if flip is None:
        raise FaultMissed(
            f"no plain batch of partition {OBSERVED_PARTITION} is on all of its replicas"
        )
    context.note(
        "fault_effective", f"bit {flip.bit} of byte {flip.position} of {flip.segment}", leader
    )
    where = f"bit {flip.bit} of byte {flip.position} of node {leader}'s {flip.segment}"
    context.saw(
        f"{where} was flipped, in the batch of offsets {flip.base_offset} to {flip.last_offset}"
    )
    context.saw(
        "its CRC held before and does not now"
        if flip.broke
        else "its CRC did not change from right to wrong"
    )
    return flip.broke


def _recovered(context: FaultContext, leader: int, log: NodeLogState) -> bool:
    """Whether the node found the batch when it recovered its log."""
    said = context.wait(
        lambda: log.first(_FOUND) or log.first(NodeLogState.STARTED),
        awaiting=f"node {leader} to recover its log",
        timeout_s=60,
    )
    found = _FOUND in said
    context.saw(
        f"at its restart the leader cut its log there: {said}"
        if found
        else f"node {leader} started and found nothing wrong with its log"
    )
    return found


def with_what_was_read(evidence: FaultEvidence, aftermath: TrialObservations) -> FaultEvidence:
    """Add what the final read met with; where the log was to be read with the bit flipped, and no CRC failed, the fault did not bite."""
    refused = [
        event for event in aftermath.since(CRC_FAILED) if event.partition == OBSERVED_PARTITION
    ]
    told = [
        f"a reader that checks CRCs is refused the batch at offset {event.offset}; the log was read on without checking"
        for event in refused
    ]
    none = "no reader is refused anything: the leader that serves the log does not have the flipped bit"
    expected = evidence.parameters["then"] == "read"
    return evidence.model_copy(
        update={
            "evidence": (*evidence.evidence, *(told or [none])),
            "took_effect": evidence.took_effect and bool(refused) == expected,
        }
    )


_CORRUPTION: Final = (
    FaultKind(
        "bit-flip",
        FAMILY,
        "one bit of a stored record flips on the leader's disk; then the log is read, or the leader is killed and has to recover it",
        BitFlipParameters,
        flip_bit,
        nature_of_bit_flip,
        confirm=with_what_was_read,
    ),
)

KINDS: Final = (*_FAILING, *_CORRUPTION)
