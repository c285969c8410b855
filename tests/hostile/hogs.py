"""Programs that keep every CPU busy beside a sweep: what that shifts, and what is said of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.stages import new_sweep, sweep_ids

EXPERIMENT: Final = """\
name: hogged
title: Hogged
question: What does a busy machine shift?
construction: The leader crashes once in each trial.
axes:
  acks: [1, all]
  enable.idempotence: false
  replication.factor: 3
  partitions: 1
  fault: leader-crash
producer: {socket.timeout.ms: 1000}
workload: {rate_records_per_s: 5000, record_size_bytes: 100, duration_s: 8, producers: 1}
faults:
  leader-crash: {at_s: 2, restart_after_s: 4}
controls: false
repeats: 3
"""
_TIMEOUT_S: Final = 1200.0
_AVAILABILITY: Final = ("availability", "read-availability")
"""When a partition answers again depends on time."""
_MARKED: Final = ("overloaded", "generator_late")


def run(rounds: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Run a sweep alone and one beside busy loops, and compare what they say.

    Args:
        rounds: how many pairs of sweeps.
        say: called with one line per figure.
    """
    start_s = time.monotonic()
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiment = Path(folder) / "hogged.yaml"
        experiment.write_text(EXPERIMENT)
        for _ in range(rounds):
            quiet = _shown(bench, str(experiment))
            with _hogs(2 * (os.cpu_count() or 1)):
                busy = _shown(bench, str(experiment))
            for line in _shifts(quiet, busy):
                say(line)
            failures += _differences(quiet, busy)
    return Figures(
        "hogs",
        "the same guarantees hold, and what shifts by a second is marked",
        rounds,
        tuple(failures),
        time.monotonic() - start_s,
    )


@contextmanager
def _hogs(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def _shown(bench: AckbenchCommand, experiment: str) -> dict[str, Any]:
    known = set(sweep_ids(bench))
    done = bench.run("run", experiment, timeout_s=_TIMEOUT_S)
    sweep = new_sweep(bench, known)
    if done.returncode or sweep is None:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr[-400:]}")
    return bench.show(sweep.sweep_id)


def _figures(trial: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the figures of a trial that time can shift."""
    ack, end = trial["latency_ms"]["ack"], trial["latency_ms"]["end_to_end"]
    return {
        "ack p50 ms": ack["p50"],
        "ack p99 ms": ack["p99"],
        "end-to-end p99 ms": end["p99"],
        "longest gap ms": trial["unavailable_ms"],
        "consumer's longest gap ms": trial["consumer_unavailable_ms"],
        "records per s": trial["throughput_records_per_s"],
        "lateness p99 ms": trial["lateness_p99_ms"],
        "producer stalled ms": trial["producer_stalled_ms"],
        "lost records": trial["lost"][0],
        "duplicates": trial["duplicates"],
        "marked overloaded": trial["overloaded"],
        "marked late": trial["generator_late"],
        "with stalls": bool(trial["stalls"]),
    }


def _medians(shown: Mapping[str, Any], label: str) -> dict[str, float]:
    trials = [_figures(trial) for trial in shown["trials"] if trial["label"] == label]
    return {
        name: median(trial[name] or 0 for trial in trials) if trials else 0
        for name in (trials[0] if trials else ())
    }


def _shifts(quiet: Mapping[str, Any], busy: Mapping[str, Any]) -> Iterator[str]:
    for cell in quiet["cells"]:
        before, after = _medians(quiet, cell["label"]), _medians(busy, cell["label"])
        for name, value in before.items():
            yield f"{cell['label']}: {name}: {value:,.1f} alone, {after[name]:,.1f} beside the hogs"


def _differences(quiet: Mapping[str, Any], busy: Mapping[str, Any]) -> Iterator[str]:
    """Yield guarantees that are judged differently, and trials that are late without a mark."""
    for one, other in zip(quiet["cells"], busy["cells"], strict=True):
        for alone, beside in zip(one["judgements"], other["judgements"], strict=True):
            verdicts = alone["verdict"], beside["verdict"]
            if alone["guarantee"] not in _AVAILABILITY and len(set(verdicts)) > 1:
                yield f"{one['label']}: {alone['guarantee']}: {verdicts}"
    slowest_ms = max(trial["latency_ms"]["ack"]["p50"] for trial in quiet["trials"]) + 1000
    for trial in busy["trials"]:
        marked = any(trial[mark] for mark in _MARKED) or trial["stalls"]
        if trial["latency_ms"]["ack"]["p50"] > slowest_ms and not marked:
            yield f"trial {trial['trial_id']}: slower by a second at the median, and not marked"
