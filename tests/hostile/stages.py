"""The stages of a run of the command, seen from outside, and the sweep that it runs."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from e2e.command import AckbenchCommand

from ackbench.experiments.sweep.folder import FAILED, PARTIAL, SweepActivity, SweepFolder
from ackbench.experiments.trial.events.journal import JOURNAL_FILE
from ackbench.infra.process.waiting import wait_until

EXPERIMENT: Final = """\
name: killed
title: Killed
question: What is left behind?
construction: The leader crashes once in each trial.
axes:
  acks: all
  enable.idempotence: true
  replication.factor: 3
  partitions: 1
  fault: leader-crash
broker: {broker.session.timeout.ms: 1500, broker.heartbeat.interval.ms: 300}
producer: {socket.timeout.ms: 1000}
workload: {rate_records_per_s: 1000, record_size_bytes: 100, duration_s: 5, producers: 1}
faults:
  leader-crash: {at_s: 0.5, restart_after_s: 2.5}
controls: false
repeats: 2
"""
"""Two trials: a kill during the second one finds the first one sealed."""

_ACTIVITIES: Final[Mapping[str, str]] = {
    "creating the topic": "prepare",
    "load, and": "load",
    "waiting for the last": "heal",
    "waiting for the full ISR": "heal",
    "reading the log": "read",
    "writing the ledger": "seal",
}
"""The stage of each activity of a trial, by its first words (`experiments.trial.run`)."""
_STAGE_TIMEOUT_S: Final = 600.0
"""No law is about time: long enough for a busy machine."""


def wait_for_stage(
    bench: AckbenchCommand, command: subprocess.Popen[str], known: set[str], stage: str
) -> None:
    """Wait until the sweep that is not known yet is in a stage, or the command has ended.

    What an earlier command reported of the same sweep does not count.

    Raises:
        WaitTimeout: neither happened.
    """
    since_ns = time.time_ns()
    wait_until(
        lambda: _stage(new_sweep(bench, known), since_ns) == stage or command.poll() is not None,
        awaiting=f"the stage {stage}",
        timeout_s=_STAGE_TIMEOUT_S,
        every_s=0.002,
    )


def _stage(sweep: SweepFolder | None, since_ns: int) -> str:
    """Return the current stage of a sweep; of its trials only the second one counts."""
    activity = sweep.activity() if sweep else None
    if sweep is None or activity is None or activity.since_ns < since_ns:
        return ""
    if activity.stage != "trial":
        return activity.stage
    if not any(True for _ in _sealed_folders(sweep)):
        return "first trial"
    stage = next(
        (stage for words, stage in _ACTIVITIES.items() if activity.what.startswith(words)), ""
    )
    return "fault" if stage == "load" and _fault_has_begun(sweep, activity) else stage


def _fault_has_begun(sweep: SweepFolder, activity: SweepActivity) -> bool:
    journal = sweep.partial(activity.trial_id or "") / JOURNAL_FILE
    return journal.is_file() and '"fault_begin"' in journal.read_text()


def sweep_ids(bench: AckbenchCommand) -> list[str]:
    """Return the ids of the sweeps in the home."""
    return [path.parent.name for path in bench.home.sweeps.glob("*/plan.json")]


def new_sweep(bench: AckbenchCommand, known: set[str]) -> SweepFolder | None:
    """Return the sweep that is not known yet; `None` before it has a plan."""
    new = [name for name in sweep_ids(bench) if name not in known]
    return SweepFolder(bench.home.sweeps / new[0]) if new else None


def _sealed_folders(sweep: SweepFolder) -> list[Path]:
    folders = (path.parent for path in (sweep.root / "trials").glob("*/trial.json"))
    return [folder for folder in folders if folder.suffix not in {PARTIAL, FAILED}]


def digests(sweep: SweepFolder | None) -> dict[str, str]:
    """Return the SHA-256 of every file of the sealed trials, by path."""
    if sweep is None:
        return {}
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in _sealed_folders(sweep)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
