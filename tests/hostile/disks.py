"""A disk that becomes full in each stage of a run, and has space again afterwards.

The home is on a file system in memory (tmpfs, as root), which is filled when the stage begins. The
run must end and name the full disk; with space again, the sweep is resumed, and trials that were
sealed before are unchanged.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.stages import EXPERIMENT, digests, new_sweep, sweep_ids, wait_for_stage
from support.machine_state import machine_state

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.machine.resources import full_disk_is_named

STAGES: Final = (
    "provision",
    "prepare",
    "load",
    "heal",
    "read",
    "seal",
    "measure",
    "report",
    "track",
)
SIZE_BYTES: Final = 768 * 2**20
"""Room for a cluster, its logs and the sweep, in memory."""
_BLOCK_BYTES: Final = 2**20
_EXIT_TIMEOUT_S: Final = 300.0


def run(rounds: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Fill the disk of a home in every stage, and check what the run says and what is resumed.

    Args:
        rounds: how often each stage is tried.
        say: called with one line per try.
    """
    start_s = time.monotonic()
    law = "the full disk is named, the sweep is resumed, no sealed trial is altered"
    if os.geteuid() != 0:
        say("left out: mounting a small file system needs root")
        return Figures("full disks (left out: not root)", law, 0, (), 0.0)
    failures: list[str] = []
    for stage in STAGES * rounds:
        with tempfile.TemporaryDirectory() as folder, _small_disk(Path(folder)):
            found = [f"disk full during {stage}: {line}" for line in _round(Path(folder), stage)]
        say(found[0] if found else f"disk full during {stage}: held")
        failures += found
    tried = len(STAGES) * rounds
    return Figures("full disks", law, tried, tuple(failures), time.monotonic() - start_s)


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    options = f"size={SIZE_BYTES},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ackbench-test", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def _round(folder: Path, stage: str) -> Iterator[str]:
    """Run a sweep, fill the disk, free it, clean and resume; yield what did not hold."""
    bench = new_bench(folder)
    experiment = folder / "killed.yaml"
    experiment.write_text(EXPERIMENT)
    before = machine_state(bench.home.root)
    known = set(sweep_ids(bench))
    command = bench.start("run", str(experiment))
    try:
        wait_for_stage(bench, command, known, stage)
        filled = _fill(folder / "filled")
        sealed = digests(new_sweep(bench, known))
        _, output = command.communicate(timeout=_EXIT_TIMEOUT_S)
    except (WaitTimeout, subprocess.TimeoutExpired) as error:
        command.kill()
        command.communicate()
        yield str(error)
        return
    finally:
        (folder / "filled").unlink(missing_ok=True)
    if not filled:
        yield "the disk could not be filled"
    if command.returncode != 0 and not full_disk_is_named(output):
        yield f"exit code {command.returncode}, and the disk is not named: {output[-400:]!r}"
    if "Traceback" in output:
        yield "a traceback"
    yield from _after(bench, known, sealed)
    yield from (f"left: {line}" for line in machine_state(bench.home.root).added_since(before))


def _fill(path: Path) -> bool:
    """Write until nothing more fits; return whether the disk was full."""
    blocks = (_BLOCK_BYTES, 4096, 1)
    with path.open("wb", buffering=0) as file:
        for size_bytes in blocks:
            try:
                while file.write(b"\0" * size_bytes) == size_bytes:
                    pass
            except OSError:
                continue
    return path.stat().st_size > 0


def _after(bench: AckbenchCommand, known: set[str], sealed: dict[str, str]) -> Iterator[str]:
    """Clean and resume; yield what did not hold."""
    cleaned = bench.run("clean")
    if cleaned.returncode != 0:
        yield f"clean: {cleaned.stderr.strip()[-300:]}"
    sweep = new_sweep(bench, known)
    if sweep is None:
        return
    resumed = bench.run("run", "--resume", sweep.sweep_id)
    if resumed.returncode != 0 or sweep.pending():
        yield f"not resumed: {resumed.stderr.strip()[-400:]}"
    after = digests(sweep)
    yield from (f"altered: {path}" for path in sealed if sealed[path] != after.get(path))
