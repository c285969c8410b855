"""The home is moved away while a command runs a sweep in it, and moved back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from random import Random
from typing import Final

from e2e.command import AckbenchCommand
from hostile.figures import Figures
from hostile.schedulers import Verdicts, left_behind, stage_of, undisturbed, wrong_end
from hostile.services import RUN_TIMEOUT_S
from hostile.stages import new_sweep, sweep_ids
from support.machine_state import machine_state

from ackbench.infra.process.waiting import wait_until

_LONGEST_S: Final = 45.0
"""About how long a sweep takes after it was planned."""


def run(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Move the home at a random moment of a sweep, wait for the command, move it back and resume.

    Args:
        rounds: how many moves.
        seed: determines the moments.
        say: called with one line per round.
    """
    start_s, failures = time.monotonic(), list[str]()
    random = Random(seed)  # noqa: S311 - no secret
    with undisturbed(failures) as (bench, file, verdicts):
        for number in range(1, rounds + 1):
            moment_s = random.uniform(0.0, _LONGEST_S)
            found, what = _round(bench, str(file), moment_s, verdicts)
            failures += [f"{what}: {line}" for line in found]
            say(f"{number} of {rounds}: {what}: {'; '.join(found) or 'held'}")
    return Figures(
        "moves",
        "one line, no other home is made, nothing is left; moved back, the sweep is resumed",
        rounds,
        tuple(failures),
        time.monotonic() - start_s,
    )


def _round(
    bench: AckbenchCommand, experiment: str, moment_s: float, verdicts: Verdicts
) -> tuple[list[str], str]:
    before, known = machine_state(bench.home.root), set(sweep_ids(bench))
    command = bench.start("run", experiment)
    moment = _Moment(bench, known, moment_s)
    wait_until(
        lambda: moment.has_come() or command.poll() is not None,
        awaiting="the moment",
        timeout_s=RUN_TIMEOUT_S,
    )
    sweep = new_sweep(bench, known)
    what = f"moved {moment_s:.1f} s after the plan ({stage_of(sweep)})"
    root = bench.home.root
    moved = root.rename(root.with_name("moved"))
    wrong: list[str] = []
    try:
        _, errors = command.communicate(timeout=RUN_TIMEOUT_S)
        if "Traceback" in errors:
            wrong.append(f"a traceback: {errors[-400:]}")
        if command.returncode not in {0, 1, 2}:
            wrong.append(f"exit code {command.returncode}: {errors[-300:]}")
        what += f", exit code {command.returncode} ({' | '.join(errors.strip().splitlines()[-3:])})"
    except subprocess.TimeoutExpired:
        wrong.append("`ackbench run` did not end")
        command.kill()
        command.communicate()
    wrong += left_behind(bench, before)
    if root.exists():
        files = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        wrong.append(f"another home: {files[:6]}")
        root.rename(root.with_name(f"other {time.monotonic_ns()}"))
    moved.rename(root)
    return [*wrong, *wrong_end(bench, sweep, verdicts)], what


class _Moment:
    """A time after the plan was written."""

    def __init__(self, bench: AckbenchCommand, known: set[str], after_s: float) -> None:
        self._bench, self._known, self._after_s = bench, known, after_s
        self._planned_s: float | None = None

    def has_come(self) -> bool:
        """Return whether the plan is there and the time has passed."""
        if self._planned_s is None and new_sweep(self._bench, self._known):
            self._planned_s = time.monotonic()
        return self._planned_s is not None and time.monotonic() - self._planned_s >= self._after_s
