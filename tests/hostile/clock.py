"""The wall clock is stepped while a sweep runs; nothing that is measured may change.

`clock.c` is preloaded into every process of the run, brokers and Spark included. It steps the wall
clock and leaves the monotonic clock and timed waits alone, as `settimeofday(2)` does.

Kafka itself computes instants of the near future on the wall clock: a batch of KRaft's leader
lingers until one (`BatchAccumulator`), and so does a follower's fetch of a partition after an error
(`PartitionFetchState`). If the clock is stepped back before one has come, nothing is committed, or
acknowledged with acks=all, for as long as the step. Seen with Kafka 4.3.1. Steps backwards are
therefore tried twice: with the brokers' clock as it is, where nothing may change, and with theirs
stepped too, where a trial may fail, but must say so, and the sweep must be resumable.
"""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.stages import EXPERIMENT, new_sweep, sweep_ids, wait_for_stage
from support.machine_state import machine_state
from support.needed_programs import missing

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.waiting import wait_until

_STEP_S: Final = 1800
"""Half an hour: a broker refuses records that are an hour ahead of its clock
(`message.timestamp.after.max.ms`), which would be Kafka's answer to the step, not ackbench's."""
STAGES: Final = ("provision", "load", "fault", "heal", "read", "measure", "track")
VARIABLE: Final = "ACKBENCH_CLOCK_STEP"
_SOURCE: Final = Path(__file__).with_name("clock.c")
_EXIT_TIMEOUT_S: Final = 600.0
_LOAD_TIMEOUT_S: Final = 10.0
_TRIALS_FAILED: Final = 1
"""The exit code of a sweep of which a trial failed."""
_MAX_MEASURED_MS: Final = 60_000.0
"""A trial takes less, so a longer latency or gap is a step of the clock that was measured."""


@dataclass(frozen=True)
class Step:
    """By how many seconds the clocks are stepped."""

    brokers_s: int
    others_s: int

    def __str__(self) -> str:
        """Return the step as the beginning of a line."""
        but = "" if self.brokers_s == self.others_s else ", not of the brokers,"
        return f"{self.others_s:+d} s{but}"


_NOT_STEPPED: Final = Step(0, 0)
STEPS: Final = (Step(_STEP_S, _STEP_S), Step(0, -_STEP_S), Step(-_STEP_S, -_STEP_S))


@dataclass(frozen=True)
class SteppedClock:
    """A wall clock that can be stepped, for the processes that are started with its environment."""

    library: Path
    step_file: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables with which a process, and all that it starts, has this clock.

        A space separates libraries in `LD_PRELOAD`, so that it has the name alone (ld.so(8)).
        """
        others = os.environ.get("LD_LIBRARY_PATH")
        return {
            "LD_PRELOAD": self.library.name,
            "LD_LIBRARY_PATH": ":".join(filter(None, (str(self.library.parent), others))),
            VARIABLE: str(self.step_file),
        }

    def step_to(self, ahead: Step) -> None:
        """Set how many seconds this wall clock is ahead of the machine's."""
        with self.step_file.open("r+b") as file:
            file.write(struct.pack("=qq", ahead.brokers_s, ahead.others_s))

    def is_loaded(self, pid: int) -> bool:
        """Return whether a process has this clock."""
        try:
            return str(self.library) in Path(f"/proc/{pid}/maps").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False


def stepped_clock(folder: Path) -> SteppedClock:
    """Compile the library into a folder, and return a clock that is not stepped yet."""
    clock = SteppedClock(folder / "clock.so", folder / "clock-step")
    clock.step_file.write_bytes(struct.pack("=qq", 0, 0))
    command = ("cc", "-shared", "-fPIC", "-O2", "-o", clock.library, _SOURCE, "-ldl")
    subprocess.run(command, check=True)
    return clock


def run(rounds: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Step the clock once in each stage, forwards and backwards, and check what was measured.

    Args:
        rounds: how often each step in each stage.
        say: called with one line per step.
    """
    start_s = time.monotonic()
    failures: list[str] = []
    tried = 0
    if reason := missing(["cc"]):
        return Figures("clock", f"left out: {reason}", 0, (), 0.0)
    with tempfile.TemporaryDirectory() as folder:
        clock = stepped_clock(Path(folder))
        bench = new_bench(Path(folder), clock.environment)
        experiment = Path(folder) / "stepped.yaml"
        experiment.write_text(EXPERIMENT)
        before = machine_state(bench.home.root)
        for stage in STAGES * rounds:
            for step in STEPS:
                tried += 1
                found = _round(bench, clock, str(experiment), stage, step, say)
                failures += [f"{step} during {stage}: {line}" for line in found]
                say(f"{step} during {stage}: {'; '.join(found) or 'held'}")
        left = machine_state(bench.home.root).added_since(before)
        failures += [f"left behind: {line}" for line in left]
    return Figures(
        "clock",
        "the sweep succeeds (is resumed, where brokers are stepped back), no record is lost or "
        "duplicated, no time contains the step",
        tried,
        tuple(failures),
        time.monotonic() - start_s,
    )


def _round(
    bench: AckbenchCommand,
    clock: SteppedClock,
    experiment: str,
    stage: str,
    step: Step,
    say: Callable[[str], None],
) -> list[str]:
    """Run a sweep, step the clock in a stage, and return what does not hold."""
    clock.step_to(_NOT_STEPPED)
    known = set(sweep_ids(bench))
    command = bench.start("run", experiment)
    try:
        wait_for_stage(bench, command, known, stage)
        others = [int(line.split()[0]) for line in bench.processes()]
        clock.step_to(step)
        without = [pid for pid in others if _has_no(clock, pid)]
        _, errors = command.communicate(timeout=_EXIT_TIMEOUT_S)
    except (WaitTimeout, subprocess.TimeoutExpired) as error:
        command.kill()
        command.communicate()
        bench.run("clean", "--force")
        return [str(error)]
    finally:
        clock.step_to(_NOT_STEPPED)
    wrong = [f"process {pid} does not have the clock" for pid in without]
    sweep = new_sweep(bench, known)
    if command.returncode == _TRIALS_FAILED and step.brokers_s < 0 and sweep is not None:
        reason = next(line for line in errors.splitlines() if "failed" in line)
        say(f"{step} during {stage}: {reason}; resumed with the clock as before")
        resumed = bench.run("run", "--resume", sweep.sweep_id)
        returncode, errors = resumed.returncode, resumed.stderr
    else:
        returncode = command.returncode
    if returncode != 0:
        return [*wrong, f"exit code {returncode}: {errors.strip()[-300:]}"]
    if sweep is None or sweep.pending():
        return [*wrong, "the sweep is not complete"]
    return [*wrong, *_wrong_results(bench.show())]


def _has_no(clock: SteppedClock, pid: int) -> bool:
    """Return whether a process runs on without the clock; one that has just begun loads it."""
    try:
        wait_until(
            lambda: clock.is_loaded(pid) or not _runs(pid),
            awaiting="the clock",
            timeout_s=_LOAD_TIMEOUT_S,
            every_s=0.01,
        )
    except WaitTimeout:
        return True
    return False


def _runs(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}/exe")  # noqa: PTH110 - Path.exists raises for a zombie


def _wrong_results(results: dict[str, Any]) -> list[str]:
    """Return what a step of the clock has changed in a sweep that loses and duplicates nothing."""
    wrong = []
    for trial in results["trials"]:
        counts = (trial["status"], trial["lost"], trial["duplicates"])
        if counts != ("sealed", [0, 0], 0):
            wrong.append(f"status, lost and duplicates are {counts} ({trial['reason']})")
        times = {
            "the longest acknowledgement": trial["latency_ms"]["ack"]["max"],
            "the longest end-to-end latency": trial["latency_ms"]["end_to_end"]["max"],
            "the longest gap": trial["unavailable_ms"],
        }
        negative = sum(times["negative_records"] for times in trial["latency_ms"].values())
        wrong += [f"{negative} latencies are negative"] if negative else []
        wrong += [
            f"{name} is {time_ms} ms"
            for name, time_ms in times.items()
            if time_ms is None or not 0 <= time_ms < _MAX_MEASURED_MS
        ]
    return wrong
