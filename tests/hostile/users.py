"""Two homes of one machine at once, of two users where that is possible; one of them is killed.

As root, the second home belongs to `nobody`. Otherwise, and where `nobody` cannot execute Python's
interpreter, both homes belong to this user; a line says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.stages import EXPERIMENT, digests, new_sweep, sweep_ids, wait_for_stage
from support.machine_state import machine_state
from support.needed_programs import missing

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.machine.home import Home

NOBODY: Final = 65534
AS_NOBODY: Final = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
_STAGES: Final = ("provision", "load", "fault", "seal", "measure")
_EXIT_TIMEOUT_S: Final = 600.0


def run(rounds: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Run a sweep in each home at once and kill one of them, in one stage after the other.

    Args:
        rounds: how many kills.
        say: called with one line per round, and with the reason if there is one user only.
    """
    start_s = time.monotonic()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        experiment = root / "shared.yaml"
        experiment.write_text(EXPERIMENT)
        root.chmod(0o755)
        reason = only_one_user()
        say(f"one user with two homes: {reason}" if reason else "two users, root and nobody")
        first = new_bench(_subfolder(root, "first"))
        second = _bench_of_nobody(root) if not reason else new_bench(_subfolder(root, "second"))
        for number in range(rounds):
            stage = _STAGES[number % len(_STAGES)]
            killed, other = (first, second) if number // len(_STAGES) % 2 == 0 else (second, first)
            found = _round(killed, other, str(experiment), stage)
            whose = "first" if killed is first else "second"
            failures += [f"{whose} killed during {stage}: {line}" for line in found]
            say(f"{whose} killed during {stage}: {'; '.join(found) or 'held'}")
        if not reason:  # a home becomes private when the first sweep writes to it
            failures += _readable(second, first)
    return Figures(
        "users",
        "the other home's sweep succeeds, clean removes nothing of it, the killed one is resumed",
        rounds,
        tuple(failures),
        time.monotonic() - start_s,
    )


def only_one_user() -> str | None:
    """Return why no second user can run ackbench here; `None`: `nobody` can."""
    if os.geteuid() != 0:
        return "not root"
    if reason := missing(["setpriv"]):
        return reason
    command = (*AS_NOBODY, sys.executable, "-c", "import ackbench.experiments.commands.cli")
    tried = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else None


def _subfolder(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    return path


def _bench_of_nobody(folder: Path) -> AckbenchCommand:
    """Return the command as `nobody`, with a copy of the caches: it cannot read those of root."""
    home = Home(_subfolder(folder, "second") / "a home")
    shutil.copytree(Home.from_environment().cache, home.cache, symlinks=True)
    for path in (home.root.parent, *home.root.parent.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return AckbenchCommand(home, {"HOME": "/nonexistent"}, AS_NOBODY)


def _readable(reader: AckbenchCommand, owner: AckbenchCommand) -> list[str]:
    """Return a line if a user can list the home of another user."""
    command = (*reader.prefix, "ls", str(owner.home.root))
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if listed.returncode else [f"nobody can list {owner.home.root}"]


def _round(
    killed: AckbenchCommand, other: AckbenchCommand, experiment: str, stage: str
) -> list[str]:
    """Start both sweeps, kill one in a stage, clean its home, and return what does not hold."""
    before = machine_state(killed.home.root), machine_state(other.home.root)
    known, others_known = set(sweep_ids(killed)), set(sweep_ids(other))
    doomed, lasting = killed.start("run", experiment), other.start("run", experiment)
    wrong = []
    try:
        wait_for_stage(killed, doomed, known, stage)
        sealed = digests(new_sweep(killed, known))
        others_sealed = digests(new_sweep(other, others_known))
        doomed.kill()
        doomed.communicate(timeout=_EXIT_TIMEOUT_S)
        cleaned = killed.run("clean")
        if cleaned.returncode:
            wrong.append(f"clean: {cleaned.stderr.strip()[-300:]}")
        _, errors = lasting.communicate(timeout=_EXIT_TIMEOUT_S)
        if lasting.returncode:
            wrong.append(f"the other sweep: exit code {lasting.returncode}: {errors[-300:]}")
    except (WaitTimeout, subprocess.TimeoutExpired) as error:
        for bench, command in ((killed, doomed), (other, lasting)):
            command.kill()
            command.communicate()
            bench.run("clean", "--force")
        return [str(error)]
    sweep = new_sweep(killed, known)
    if sweep:
        resumed = killed.run("run", "--resume", sweep.sweep_id)
        if resumed.returncode or sweep.pending():
            wrong.append(f"not resumed: {resumed.stderr.strip()[-300:]}")
    for bench, earlier, start in zip(
        (killed, other), (sealed, others_sealed), (known, others_known), strict=True
    ):
        now = digests(new_sweep(bench, start))
        wrong += [f"altered: {path}" for path in earlier if earlier[path] != now.get(path)]
    for bench, state in zip((killed, other), before, strict=True):
        left = machine_state(bench.home.root).added_since(state)
        wrong += [f"left behind: {line}" for line in left]
    return wrong
