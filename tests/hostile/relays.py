"""SIGKILL, and SIGSTOP with SIGCONT, to the process of the relays, at random moments of trials.

Relays are the harness: what they do without a fault is no evidence about Kafka. The relays of a
cluster on this machine run in its supervisor, and its nodes end with it.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.kills import pids_of
from hostile.signals import TIMEOUT_S, SentSignal, Signal, send_in_trials, signals
from hostile.stages import new_sweep, sweep_ids

from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import WaitTimeout

TRIALS: Final = 5
"""Per sweep."""
MOST_RESUMES: Final = 20
_LOAD_S: Final = 6.0
EXPERIMENT: Final = f"""\
name: relayed
title: Relayed
question: What does a relay that is stopped or killed change?
construction: A relay holds the leader's responses in each trial.
axes:
  acks: all
  enable.idempotence: true
  replication.factor: 3
  partitions: 1
  fault: relay-held
producer: {{socket.timeout.ms: 1000}}
workload: {{rate_records_per_s: 1000, record_size_bytes: 100, duration_s: {_LOAD_S}, producers: 1}}
faults:
  relay-held: {{at_s: 0.5, lasts_s: 2}}
controls: false
repeats: {TRIALS}
"""
_AVAILABILITY: Final = ("availability", "read-availability")
"""The fault itself makes the partition unavailable."""
_OUTAGE_MS: Final = 1000.0
_SHORTEST_NAMED_S: Final = 0.3
"""A stop that overlaps the load for this long is named."""


def run(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Send a signal to the relays in each trial of sweeps, and check what is said of each trial.

    Args:
        rounds: how many signals.
        seed: determines which, and when.
        say: called with one line per round.
    """
    start_s = time.monotonic()
    say(f"seed {seed}")
    failures: list[str] = []
    wanted = deque(signals(rounds, seed, _LOAD_S))
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiment = Path(folder) / "relayed.yaml"
        experiment.write_text(EXPERIMENT)
        while wanted:
            failures += _sweep(bench, str(experiment), wanted, say)
    return Figures(
        "relays",
        "killed: the trial fails and names it; stopped: named, no outage; the verdicts stay",
        rounds,
        tuple(failures),
        time.monotonic() - start_s,
    )


def _sweep(
    bench: AckbenchCommand, experiment: str, wanted: deque[Signal], say: Callable[[str], None]
) -> Iterator[str]:
    """Run a sweep with a signal in each trial, and resume it until it is complete.

    Yields:
        What did not hold.
    """
    known = set(sweep_ids(bench))
    sweep = None
    for _ in range(MOST_RESUMES):
        arguments = ("--resume", sweep.sweep_id) if sweep else (experiment,)
        yield from _command(bench, arguments, known, wanted, say)
        sweep = new_sweep(bench, known)
        if sweep is None:
            yield "no sweep was planned"
            return
        if not sweep.pending():
            return
    left = sweep.pending() if sweep else ()
    yield f"not complete after {MOST_RESUMES} resumes: {left}"


def _command(
    bench: AckbenchCommand,
    arguments: Sequence[str],
    known: set[str],
    wanted: deque[Signal],
    say: Callable[[str], None],
) -> Iterator[str]:
    """Run the command with a signal in each trial; yield what did not hold."""
    command = bench.start("run", *arguments)
    sent: list[SentSignal] = []
    try:
        sent += send_in_trials(
            bench, command, known, wanted, lambda: pids_of(bench, command, "supervisor")
        )
        output, errors = command.communicate(timeout=TIMEOUT_S)
        yield from _ending(command.returncode, output, errors)
    except (WaitTimeout, subprocess.TimeoutExpired) as error:
        yield f"the sweep: {error}"
    finally:
        if command.poll() is None:
            command.kill()
            command.communicate()
            bench.run("clean", "--force")
    yield from (f"left: process {line}" for line in bench.processes())
    sweep = new_sweep(bench, known)
    if sweep is None:
        return
    shown = bench.show(sweep.sweep_id)
    yield from _against_kafka(shown)
    trials = {trial["trial_id"]: trial for trial in shown["trials"]}
    for one in sent:
        trial = trials.get(one.trial_id)
        found = list(_law(sweep, one, trial)) if trial else ["the trial is not listed"]
        said = [trial["status"], trial["reason"], *trial["stalls"][:1]] if trial else []
        say(f"{one.signal}: {'; '.join(filter(None, said))}: {'; '.join(found) or 'held'}")
        yield from (f"{one.signal}, trial {one.trial_id}: {line}" for line in found)


def _ending(code: int, output: str, errors: str) -> Iterator[str]:
    """Yield what is wrong with the end of the command: 1 with a line that says what to do, or 0."""
    if "Traceback" in output + errors:
        yield f"a traceback: {(output + errors)[-400:]}"
    if code and not (code == 1 and errors.strip()):
        yield f"exit code {code}: {errors[-300:]}"


def _against_kafka(shown: dict[str, Any]) -> Iterator[str]:
    """Yield what a sweep says against Kafka, beyond what its fault does."""
    for cell in shown["cells"]:
        for judgement in cell["judgements"]:
            if judgement["seen"] and judgement["guarantee"] not in _AVAILABILITY:
                yield f"observed: {json.dumps(judgement)[:300]}"
    for trial in shown["trials"]:
        if trial["lost"] not in (None, [0, 0]):
            yield f"trial {trial['trial_id']} lost {trial['lost']}"


def _law(sweep: SweepFolder, one: SentSignal, trial: dict[str, Any]) -> Iterator[str]:
    """Yield what does not hold of a trial whose relays got a signal."""
    is_named = re.search("relay|supervisor", trial["reason"] or "")
    if one.signal.stopped_s is None:
        if trial["status"] not in {"failed", "void"} or not is_named:
            yield f"{trial['status']}: {trial['reason']!r}"
        return
    if trial["status"] == "failed":
        if not is_named:
            yield f"failed: {trial['reason']!r}"
        return
    phases = read_trial_manifest(sweep.trial(one.trial_id)).phases
    healthy_s = (phases.healthy_ns - phases.load_begin_ns) / 1e9
    watched_s = min(one.signal.at_s + one.signal.stopped_s, healthy_s) - one.signal.at_s
    named = any(text.startswith("relay was stopped") for text in trial["stalls"])
    if not named and watched_s > _SHORTEST_NAMED_S:
        yield f"the stop is not named: {trial['stalls']}"
    healed_s = ((phases.fault_end_ns or phases.load_begin_ns) - phases.load_begin_ns) / 1e9
    for gap in trial["gaps"]:
        if gap["gap_ms"] >= _OUTAGE_MS and gap["began_s"] > healed_s and not trial["overloaded"]:
            yield f"an outage after the heal at {healed_s:.2f} s: {gap}"
