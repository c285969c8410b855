"""One bit flipped in a stored record, under the running leader.

Each batch carries a CRC of its bytes (https://kafka.apache.org/documentation/#recordbatch). The broker checks it when a batch arrives and when it
recovers a log after an unclean end, and at no other time: it serves what lies on its disk. Readers check it if they are set to (`check.crcs`).
"""

from __future__ import annotations

from typing import Final

from experiments.faults.base import OBSERVED_PARTITION, FaultKind, Missed, Scene
from experiments.faults.base.aftermath import Aftermath
from experiments.faults.base.observing import leader_left
from experiments.faults.disk.down import NodeLog
from experiments.faults.disk.nature import nature_of_bit_flip
from experiments.faults.disk.parameters import FAMILY, BitFlipParameters
from experiments.journal import CRC_FAILED
from experiments.ledger.record import FaultEvidence

_SETTLE_TIMEOUT_S: Final = 5.0
_FOUND: Final = "Found invalid messages in log segment"


def flip_bit(scene: Scene, parameters: BitFlipParameters) -> FaultEvidence:
    """Flip a bit of an acknowledged record; it bit when the batch's CRC no longer holds, and, killed, the partition lost its leader."""
    scene.until(parameters.at_s)
    leader = scene.leader()
    with scene.striking(leader) as healing:
        flipped = _flip(scene, leader)
        if parameters.then == "restart":
            log = NodeLog(scene, leader)
            healing.callback(scene.start, leader)
            scene.kill(leader)
            scene.until(parameters.ends_s())
            flipped = scene.noticed(lambda: leader_left(scene, leader), parameters.patience_s) and flipped
            scene.start(leader)
            flipped = _recovered(scene, leader, log) and flipped
    return FaultEvidence(kind="bit-flip", parameters={"then": parameters.then}, targets=(leader,), bit=flipped, evidence=tuple(scene.facts))


def _flip(scene: Scene, leader: int) -> bool:
    """Flip it in a batch that every replica has; return whether its CRC held before and does not any more."""
    disks, replicas = scene.cluster.disks, scene.partition().replicas
    everywhere = min(disks.replica(node, scene.topic, OBSERVED_PARTITION).end_offset for node in replicas)
    flip = disks.flip_bit(leader, scene.topic, OBSERVED_PARTITION, below_offset=everywhere)
    if flip is None:
        raise Missed(f"no plain batch of partition {OBSERVED_PARTITION} is on all of its replicas")
    scene.note("fault_bit", f"bit {flip.bit} of byte {flip.position} of {flip.segment}", leader)
    where = f"bit {flip.bit} of byte {flip.position} of node {leader}'s {flip.segment}"
    scene.saw(f"{where} was flipped, in the batch of offsets {flip.base_offset} to {flip.last_offset}")
    scene.saw("its CRC held before and does not now" if flip.broke else "its CRC did not change from right to wrong")
    return flip.broke


def _recovered(scene: Scene, leader: int, log: NodeLog) -> bool:
    """Whether the node found the batch when it recovered its log."""
    said = scene.wait(lambda: log.first(_FOUND) or log.first(NodeLog.STARTED), awaiting=f"node {leader} to recover its log", timeout_s=60)
    found = _FOUND in said
    scene.saw(f"at its restart the leader cut its log there: {said}" if found else f"node {leader} started and found nothing wrong with its log")
    return found


def with_what_was_read(evidence: FaultEvidence, aftermath: Aftermath) -> FaultEvidence:
    """Add what the final read met with; where the log was to be read with the bit flipped, and no CRC failed, the fault did not bite."""
    refused = [event for event in aftermath.since(CRC_FAILED) if event.partition == OBSERVED_PARTITION]
    told = [f"a reader that checks CRCs is refused the batch at offset {event.offset}; the log was read on without checking" for event in refused]
    none = "no reader is refused anything: the leader that serves the log does not have the flipped bit"
    expected = evidence.parameters["then"] == "read"
    return evidence.model_copy(update={"evidence": (*evidence.evidence, *(told or [none])), "bit": evidence.bit and bool(refused) == expected})


KINDS: Final = (
    FaultKind(
        "bit-flip",
        FAMILY,
        "one bit of a stored record flips on the leader's disk; then the log is read, or the leader is killed and has to recover it",
        BitFlipParameters,
        flip_bit,
        nature_of_bit_flip,
        confirmed=with_what_was_read,
    ),
)
