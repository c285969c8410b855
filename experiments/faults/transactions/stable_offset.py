"""The last stable offset: where `read_committed` consumers stand while a transaction is open, asked from the leader (ListOffsets, KIP-98)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from experiments.clock import now_ns
from experiments.faults.base.scene import OBSERVED_PARTITION, Scene
from infra.errors import HarnessError, WaitTimeout

STANDS_S: Final = 1.5
"""A last stable offset that has not moved for so long behind the high watermark stands still: transactions under load end several times in it."""
FOUND_WITHIN_S: Final = 30.0
_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class Stuck:
    """Where it stood, and since when it was seen to."""

    stable_offset: int
    high_watermark: int
    since_ns: int


def stuck(scene: Scene) -> Stuck | None:
    """Return where the observed partition's last stable offset stands, once it has for a while; `None`: it goes on."""
    seen: list[Stuck] = []

    def stands() -> Stuck | None:
        now = _look(scene)
        if now is None:  # nobody answered in time, which says nothing of where it stands
            return None
        if now.stable_offset >= now.high_watermark:
            seen.clear()
            return None
        if not seen or seen[0].stable_offset != now.stable_offset:
            seen[:] = [now]
        return seen[0] if now.since_ns - seen[0].since_ns >= STANDS_S * 1e9 else None

    try:
        found = scene.wait(stands, awaiting="the last stable offset to stand still", timeout_s=FOUND_WITHIN_S, every_s=_EVERY_S)
    except WaitTimeout:
        scene.saw(f"the last stable offset of partition {OBSERVED_PARTITION} never stood still for {STANDS_S:g} s behind the high watermark")
        return None
    scene.journal.note("stable_stuck", f"high watermark {found.high_watermark}", partition=OBSERVED_PARTITION, offset=found.stable_offset, at_ns=found.since_ns)
    scene.saw(f"the last stable offset of partition {OBSERVED_PARTITION} stood at {found.stable_offset}, behind the high watermark {found.high_watermark}")
    return found


def freed(scene: Scene, was: Stuck) -> str | None:
    """Say how long it stood, once it has moved on; `None`: not so far."""
    now = _look(scene)
    if now is None or now.stable_offset <= was.stable_offset:
        return None
    scene.journal.note("stable_moved", f"high watermark {now.high_watermark}", partition=OBSERVED_PARTITION, offset=now.stable_offset, at_ns=now.since_ns)
    lasted_s, behind = (now.since_ns - was.since_ns) / 1e9, now.high_watermark - was.stable_offset
    return f"the last stable offset moved on after {lasted_s:.2f} s, when the log had gone on for {behind} offsets behind it"


def _look(scene: Scene) -> Stuck | None:
    from experiments.clients import admin

    try:
        stable, high = (admin.end_offsets(scene.cluster.admin_servers, scene.topic, read_committed=committed) for committed in (True, False))
    except HarnessError:
        return None
    return Stuck(stable[OBSERVED_PARTITION], high[OBSERVED_PARTITION], now_ns())
