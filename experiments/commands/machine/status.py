"""`ackbench status` and `stop`: what runs in a home, and the end of a sweep that does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Final

from ackbench.experiments.commands.api.hand_cluster import running_clusters
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.messages.terminal import echo
from ackbench.experiments.orchestration.services import is_up
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import RunRecord, is_in_progress, runs
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.progress import activity_text
from ackbench.infra.errors import AckbenchError, InputError, MachineError, WaitTimeout
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

_STOP_S: Final = 120.0
"""A fault is healed and brokers end within that."""


def status(home: Home) -> int:
    """Print the sweeps in progress, clusters by hand and the services, and how each is ended."""
    lines = [*_sweep_lines(home), *_other_lines(home)]
    for line in lines:
        echo(line)
    if not lines:
        echo(f"nothing runs in {home.root}")
        newest = next(iter(list_sweeps(home)), None)
        if newest:
            echo(f"the newest sweep: ackbench show {newest.sweep_id}")
    return 0


def _sweep_lines(home: Home) -> Iterator[str]:
    for sweep, record in _in_progress(home):
        trials = len(sweep.plan().trials)
        complete = trials - len(sweep.pending())
        who = record.describe() if record else "another process"
        yield (
            f"sweep {sweep.sweep_id}: {complete} of {format_count(trials, 'trial')}, "
            f"{activity_text(sweep.activity())}  ({who})"
        )
        yield f"  watch: ackbench open live   end: ackbench stop {sweep.sweep_id}"


def _other_lines(home: Home) -> Iterator[str]:
    for cluster in running_clusters(home):
        yield f"cluster {cluster.name}: bootstrap.servers={cluster.bootstrap_servers}"
        look = f"ackbench cluster status --name {cluster.name}"
        yield f"  look: {look}   end: Ctrl-C where it was started"
    if is_up(home):
        yield "ackbench up: the pages of Airflow and MLflow"
        yield "  end: Ctrl-C where it was started"


def _in_progress(home: Home) -> Iterator[tuple[SweepFolder, RunRecord | None]]:
    for sweep_id, record in runs(home).items():
        sweep = SweepFolder(home.sweeps / sweep_id)
        try:
            if sweep.root.is_dir() and is_in_progress(sweep, record):
                sweep.plan()
                yield sweep, record
        except AckbenchError:
            continue  # a folder that is no sweep runs nothing


def stop(home: Home, named: str | None) -> int:
    """End a sweep as Ctrl-C does: the fault is healed, the brokers end, sealed trials are kept.

    Args:
        home: of the sweep.
        named: its id, or its experiment; `None`: the only one in progress.

    Raises:
        InputError: none is in progress, or several are, or another program runs it.
        MachineError: it does not end.
    """
    sweep, record = _to_stop(home, named)
    if record is None or not record.machine.is_own or record.dag_run is not None:
        who = record.describe() if record else "another process"
        raise InputError(
            f"sweep {sweep.sweep_id} is run by {who}, which this command cannot end: end it there, "
            "or `ackbench clean --force` here"
        )
    if record.watcher.is_alive():
        os.kill(record.watcher.pid, signal.SIGINT)
    try:
        wait_until(
            lambda: not is_in_progress(sweep, None),
            awaiting=f"the end of sweep {sweep.sweep_id}",
            timeout_s=_STOP_S,
        )
    except WaitTimeout as error:
        raise MachineError(f"{error}; `ackbench clean --force` kills it") from error
    trials = len(sweep.plan().trials)
    echo(f"stopped; {trials - len(sweep.pending())} of {trials} trials are complete and kept")
    echo(f"resume with: ackbench run --resume {sweep.sweep_id}")
    return 0


def _to_stop(home: Home, named: str | None) -> tuple[SweepFolder, RunRecord | None]:
    found = [
        one
        for one in _in_progress(home)
        if named is None or one[0].sweep_id == named or one[0].sweep_id.startswith(f"{named}-20")
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        what = f"no sweep {named}" if named else "no sweep"
        raise InputError(f"{what} is in progress (ackbench status)")
    ids = [sweep.sweep_id for sweep, _ in found]
    raise InputError(f"{format_list(ids)} are in progress: name one")
