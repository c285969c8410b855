"""Running trials with planted files, as the live reader finds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from support.builders.records import a_spec

from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.trial.clients.consumer.reads import HEADER_BYTES, ReadRow
from ackbench.experiments.trial.clients.producer.attempts import NOT_DUE, SETTLED, AttemptsFile
from ackbench.experiments.trial.events.journal import JOURNAL_FILE

MS: Final = 1_000_000
BEGIN_NS: Final = 1_700_000_000_000 * MS
"""When the planted loads begin."""


def a_running_sweep(root: Path, specs: tuple[TrialSpec, ...] = ()) -> SweepFolder:
    """Return the folder of a sweep whose first trial runs: it has a folder for its clients.

    Args:
        root: the folder `sweeps` of a home.
        specs: the trials; by default three.
    """
    sweep = SweepFolder(root / "quick-20260101T000000-abcd")
    trials = specs or tuple(
        a_spec(trial_id=f"{number:03d}-abcdef", order=number, label=f"cell {number}")
        for number in range(3)
    )
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment="quick",
            question="Which settings lose records?",
            seed=1,
            repeats=1,
            trials=trials,
            refused=(),
        )
    )
    begin_trial(sweep, trials[0])
    return sweep


def begin_trial(sweep: SweepFolder, spec: TrialSpec) -> Path:
    """Create the folder of a trial that runs; return the folder of its clients."""
    clients = sweep.partial(spec.trial_id) / "clients"
    clients.mkdir(parents=True)
    sweep.report_activity("trial", "load, and leader-crash", spec.trial_id)
    return clients


def note(sweep: SweepFolder, spec: TrialSpec, *events: Mapping[str, Any]) -> None:
    """Append events to the journal of a trial."""
    defaults = {"node": None, "partition": None, "detail": ""}
    with (sweep.partial(spec.trial_id) / JOURNAL_FILE).open("a") as file:
        file.writelines(f"{json.dumps({**defaults, **event})}\n" for event in events)


class PlantedAttempts:
    """A producer's mapped file, filled as the producer fills it.

    Args:
        clients: the folder of the clients.
        records: the length of the schedule.
        number: the producer's number.
    """

    def __init__(self, clients: Path, records: int, number: int = 0) -> None:
        self.path = clients / f"producer-{number}.attempts"
        self.file = AttemptsFile.create(self.path, records)

    def send(self, first: int, sent_ms: list[int], state: int) -> None:
        """Write consecutive records: intended 1 ms before they were sent, not settled.

        Args:
            first: the seq of the first one.
            sent_ms: when each was sent, milliseconds after `BEGIN_NS`.
            state: their state.
        """
        for seq, at_ms in enumerate(sent_ms, first):
            row = self.file.rows[seq]
            row["sent_ns"] = BEGIN_NS + at_ms * MS
            row["intended_ns"] = row["sent_ns"] - MS
            row["state"] = state
        is_attempted = self.file.rows["state"] != NOT_DUE
        self.file.header["next_seq"] = np.flatnonzero(is_attempted).max() + 1

    def settle(self, seqs: list[int], latency_ms: int, error: int = 0) -> None:
        """Write delivery reports: latency, row, then the counters."""
        self.file.latency_us[seqs] = latency_ms * 1000
        self.file.rows["error"][seqs] = error
        self.file.rows["state"][seqs] = SETTLED
        self.file.header["settled"] += len(seqs)


def receive(path: Path, received_ms: list[int], *, before: int = 0, counted: int = -1) -> None:
    """Write received records into a consumer's mapped file.

    Args:
        path: the file.
        received_ms: when each was received, milliseconds after `BEGIN_NS`.
        before: how many records the file has.
        counted: the number of records in the header; -1: all.
    """
    rows = np.zeros(len(received_ms), ReadRow)
    rows["received_ns"] = BEGIN_NS + np.array(received_ms, np.int64) * MS
    content = path.read_bytes() if path.exists() else bytes(HEADER_BYTES)
    content = content[: HEADER_BYTES + before * ReadRow.itemsize] + rows.tobytes()
    filled = before + len(received_ms) if counted < 0 else counted
    path.write_bytes(filled.to_bytes(8, "little") + content[8:] + bytes(10 * ReadRow.itemsize))
