"""SIGKILL, and SIGSTOP with SIGCONT, to the process of the live page, at random moments of trials.

It only reads: a sweep ends as it does without it. The page has figures of now, or none.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.kills import pids_of
from hostile.signals import TIMEOUT_S, Signal, send_in_trials, signals
from hostile.stages import new_sweep, sweep_ids

from ackbench.experiments.pages.live.files import DATA, PAGE, live_folder
from ackbench.infra.errors import WaitTimeout

TRIALS: Final = 2
"""Per sweep: a stopped reader goes on, a killed one does not come back."""
_LOAD_S: Final = 5.0
EXPERIMENT: Final = f"""\
name: watched
title: Watched
question: Does the process that reads a sweep change its result?
construction: There is no fault.
axes:
  acks: all
  enable.idempotence: true
  replication.factor: 3
  partitions: 1
  fault: none
workload: {{rate_records_per_s: 1000, record_size_bytes: 100, duration_s: {_LOAD_S}, producers: 1}}
controls: false
repeats: {TRIALS}
"""


def run(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Send signals to the reader of sweeps, and check their results and the page.

    Args:
        rounds: how many signals: half of them kills, each in the last trial of a sweep.
        seed: determines when they are sent.
        say: called with one line per sweep.
    """
    start_s = time.monotonic()
    say(f"seed {seed}")
    failures: list[str] = []
    sent = 0
    by_kill = sorted(signals(rounds, seed, _LOAD_S), key=lambda one: one.stopped_s is None)
    pairs = list(zip(by_kill[: rounds // 2], by_kill[rounds // 2 :], strict=True))
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiment = Path(folder) / "watched.yaml"
        experiment.write_text(EXPERIMENT)
        for pair in pairs:
            wanted = deque(pair)
            found = list(_sweep(bench, str(experiment), wanted))
            sent += len(pair) - len(wanted)
            say(f"{', '.join(map(str, pair))}: {'; '.join(found) or 'held'}")
            failures += found
    return Figures(
        "readers",
        "the sweep ends as without it, and the page has no old figures",
        sent,
        tuple(failures),
        time.monotonic() - start_s,
    )


def _sweep(bench: AckbenchCommand, experiment: str, wanted: deque[Signal]) -> Iterator[str]:
    """Run a sweep, stop its reader and kill it later; yield what did not hold."""
    known = set(sweep_ids(bench))
    command = bench.start("run", experiment)
    try:
        sent = list(
            send_in_trials(bench, command, known, wanted, lambda: pids_of(bench, command, "live"))
        )
        output, errors = command.communicate(timeout=TIMEOUT_S)
    except (WaitTimeout, subprocess.TimeoutExpired) as error:
        yield f"the sweep: {error}"
        return
    finally:
        if command.poll() is None:
            command.kill()
            command.communicate()
            bench.run("clean", "--force")
    if len(sent) < TRIALS:
        yield f"{TRIALS - len(sent)} signals met no reader"
    if command.returncode or "Traceback" in output + errors:
        yield f"exit code {command.returncode}: {errors[-300:]}"
    if "no live page: its process exited by SIGKILL" not in output + errors:
        yield f"the killed reader is not named: {(output + errors)[:400]!r}"
    yield from _result(bench, known)
    yield from _page(bench)
    yield from (f"left: process {line}" for line in bench.processes())


def _result(bench: AckbenchCommand, known: set[str]) -> Iterator[str]:
    """Yield what the reader's end has done to the sweep."""
    sweep = new_sweep(bench, known)
    if sweep is None or sweep.pending():
        yield "the sweep is not complete"
        return
    for trial in bench.show(sweep.sweep_id)["trials"]:
        if trial["status"] != "sealed" or trial["lost"] != [0, 0] or trial["duplicates"]:
            yield f"trial {trial['trial_id']}: {json.dumps(trial)[:300]}"


def _page(bench: AckbenchCommand) -> Iterator[str]:
    """Yield what the page shows although nothing reads the sweep."""
    for name in (PAGE, DATA):
        path = live_folder(bench.home) / name
        text = path.read_text() if path.is_file() else ""
        if not re.search("Nothing reads this sweep: its process exited by SIGKILL", text):
            yield f"{name} does not say that it has no data"
        if re.search("acknowledged</dt>|trials have ended", text):
            yield f"{name} has old figures"
