"""MLflow's server killed or paused, and its database locked, while a sweep is tracked.

Each round tracks a complete sweep, which is measured and published, in a store that has nothing of
it, as the task `track` does. The runs that are missing then are written by tracking it again, or
by resuming it.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from e2e.command import AckbenchCommand
from e2e.services import free_ports
from hostile.figures import Figures
from hostile.schedulers import Verdicts, left_behind, undisturbed, verdicts_of
from hostile.services import RUN_TIMEOUT_S, START_TIMEOUT_S
from hostile.signals import Signal, signals
from support.machine_state import machine_state

from ackbench.experiments.orchestration.tracking.store import database_of_store
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.infra.process.waiting import sleep_until, wait_until

_LONGEST_S: Final = 8.0
"""About how long tracking takes from the start of its process."""
_RETRIES: Final = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3", "MLFLOW_HTTP_REQUEST_TIMEOUT": "15"}
"""MLflow's own client tries for four minutes."""
_TRACK: Final = """
import sys
from ackbench.experiments.orchestration import steps
from ackbench.infra.errors import AckbenchError
try:
    steps.track(sys.argv[1])
except AckbenchError as error:
    sys.exit(f"ackbench: {error}")
"""
_LOCKS: Final = 5
"""Every so manieth round locks the database of the embedded store instead."""
_LOCKED_S: Final = (0.0, 20.0)
"""How long the database is locked, in turn: until the tracking ends, or shorter than it waits."""


def run(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Kill or pause the server, or lock the database, at random moments of the tracking.

    Args:
        rounds: how many; half of them kills, and every fifth one locks the database.
        seed: determines the moments and the pauses.
        say: called with one line per round.
    """
    start_s, failures = time.monotonic(), list[str]()
    with undisturbed(failures) as (bench, _, verdicts):
        before = machine_state(bench.home.root)
        attack = _Attack(bench, verdicts)
        for number, one in enumerate(signals(rounds, seed, _LONGEST_S), 1):
            if number % _LOCKS == 0:
                found, what = attack.lock(_LOCKED_S[number // _LOCKS % 2])
            else:
                found, what = attack.signal(one)
            found += left_behind(bench, before)
            failures += [f"{what}: {line}" for line in found]
            say(f"{number} of {rounds}: {what}: {'; '.join(found) or 'held'}")
    return Figures(
        "trackers",
        "tracked, or one line; the results stay, and all runs are written afterwards",
        rounds,
        tuple(failures),
        time.monotonic() - start_s,
    )


class _Attack:
    """A complete sweep, and an empty store for each round."""

    def __init__(self, bench: AckbenchCommand, verdicts: Verdicts) -> None:
        self._bench, self._verdicts = bench, verdicts
        self._sweep = list_sweeps(bench.home)[0]
        self._database = database_of_store(bench.home)
        self._expected = _runs(self._database, self._sweep.sweep_id)
        self._empty = bench.home.root.parent / "empty.db"
        with closing(sqlite3.connect(self._database)) as opened:
            tables = ("metrics", "latest_metrics", "params", "tags", "experiment_tags")
            for table in tables:
                opened.execute(f"DELETE FROM {table}")  # noqa: S608 - constants
            opened.execute("DELETE FROM runs")
            opened.execute("DELETE FROM experiments WHERE name <> 'Default'")
            opened.commit()
        shutil.copy(self._database, self._empty)

    def signal(self, one: Signal) -> tuple[list[str], str]:
        """Track in a server that is killed or paused; it is back when the sweep is resumed."""
        what = f"server {one}"
        database = self._empty.with_name("server.db")
        shutil.copy(self._empty, database)
        port = free_ports().mlflow
        variables = {**_RETRIES, "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}"}
        bench = replace(self._bench, variables=variables)
        with _server(database, port) as server:
            tracking = self._track(bench)
            sleep_until(time.monotonic() + one.at_s)
            if tracking.poll() is not None:
                what += ", tracked before"
            if one.stopped_s is None:
                os.killpg(server.pid, signal.SIGKILL)
            else:
                os.killpg(server.pid, signal.SIGSTOP)
                sleep_until(time.monotonic() + one.stopped_s)
                os.killpg(server.pid, signal.SIGCONT)
            wrong, said = self._end(tracking)
            what += said
            if one.stopped_s is not None:
                return [*wrong, *self._tracked_again(bench, database)], what
        with _server(database, port):
            return [*wrong, *self._tracked_again(bench, database)], what

    def lock(self, locked_s: float) -> tuple[list[str], str]:
        """Track while another process has locked the database; `0`: until the tracking ends."""
        what = f"database locked for {locked_s:.0f} s" if locked_s else "database locked"
        shutil.copy(self._empty, self._database)
        with closing(sqlite3.connect(self._database, isolation_level=None)) as holder:
            holder.execute("BEGIN EXCLUSIVE")
            tracking = self._track(self._bench)
            if locked_s:
                sleep_until(time.monotonic() + locked_s)
                holder.execute("ROLLBACK")
            wrong, said = self._end(tracking)
            what += said
            if not locked_s and f"is locked by process {os.getpid()}" not in said:
                wrong.append("the process that has locked the database is not named")
        resumed = self._bench.run("run", "--resume", self._sweep.sweep_id, timeout_s=RUN_TIMEOUT_S)
        wrong += [f"not resumed: {resumed.stderr[-300:]}"] if resumed.returncode else []
        return [*wrong, *self._missing(self._database)], what

    def _track(self, bench: AckbenchCommand) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", _TRACK, self._sweep.sweep_id],
            env={**bench.environment, "ACKBENCH_ONE_MACHINE": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _end(self, tracking: subprocess.Popen[str]) -> tuple[list[str], str]:
        """Wait for the end of the tracking; return what does not hold, and what was said."""
        try:
            _, errors = tracking.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            tracking.kill()
            tracking.communicate()
            return ["the tracking did not end"], ""
        last = errors.strip().splitlines()[-1:] or [""]
        says = tracking.returncode == 0 or last[0].startswith("ackbench: MLflow")
        wrong = [] if says else [f"exit code {tracking.returncode}: {errors[-400:]}"]
        if verdicts_of(self._bench, self._sweep.sweep_id) != self._verdicts:
            wrong.append("other verdicts")
        return wrong, f", tracked {f'not ({last[0][:200]})' if tracking.returncode else 'at once'}"

    def _tracked_again(self, bench: AckbenchCommand, database: Path) -> list[str]:
        """Track the sweep undisturbed; return what does not hold."""
        tracking = self._track(bench)
        _, errors = tracking.communicate(timeout=RUN_TIMEOUT_S)
        wrong = [f"not tracked again: {errors[-300:]}"] if tracking.returncode else []
        return [*wrong, *self._missing(database)]

    def _missing(self, database: Path) -> list[str]:
        found = _runs(database, self._sweep.sweep_id)
        return [] if found == self._expected else [f"runs {found}, expected {self._expected}"]


def _runs(database: Path, sweep_id: str) -> list[tuple[Any, ...]]:
    """Return each run that is not replaced: status, and how many metrics and params it has."""
    question = """
        SELECT t.value, r.status,
            (SELECT count(*) FROM latest_metrics m WHERE m.run_uuid = r.run_uuid),
            (SELECT count(*) FROM params p WHERE p.run_uuid = r.run_uuid)
        FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid AND t.key = 'trial_id'
        JOIN tags s ON s.run_uuid = r.run_uuid AND s.key = 'sweep_id' AND s.value = ?
        WHERE r.run_uuid NOT IN (SELECT run_uuid FROM tags WHERE key = 'superseded_by')
        ORDER BY t.value"""
    with closing(sqlite3.connect(database, timeout=60)) as opened:
        return opened.execute(question, (sweep_id,)).fetchall()


@contextmanager
def _server(database: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run MLflow's server over a database; it and its workers end with the context."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "mlflow", "server", "--backend-store-uri"),
            f"sqlite:///{database}",
            *("--default-artifact-root", (database.parent / "artifacts").as_uri()),
            *("--no-serve-artifacts", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        ],
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def answers() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return True
        except (URLError, OSError):
            return False

    try:
        wait_until(answers, awaiting="MLflow's server", timeout_s=START_TIMEOUT_S, every_s=0.25)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
