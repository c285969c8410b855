"""Tasks that Airflow ends itself, because their process was killed or never started.

Such a task has an empty log, and leaves nothing in its sweep's folder. Airflow runs its callbacks
in the DAG processor; those of any other failed task run in the process of the task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.messages.phrases import fit_line
from ackbench.experiments.messages.visible import visible
from ackbench.experiments.orchestration.step_context import sweep_named
from ackbench.experiments.orchestration.task_hosts import task_hosts
from ackbench.experiments.sweep import several_hosts
from ackbench.experiments.sweep.progress import FAILED
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.home import Home
from ackbench.infra.process.log_tail import last_lines

_BEGINNING: Final = "Airflow ended this task"
_LOG_LINES: Final = 400
_NOT_RUN: Final = re.compile(r"(\S+)Z \[error +\] Workload execution failed\.")
"""LocalExecutor's line before the traceback of the error that kept a task from running."""
_NEXT: Final = re.compile(r"\d{4}-\d\d-\d\dT")
"""Begins a line of the log that is not part of a traceback."""
_RECENT: Final = timedelta(minutes=10)
"""How old the scheduler's last such error may be; an older one is that of another task."""


def report_killed_task(context: Mapping[str, Any]) -> None:
    """Write why Airflow has ended a task to the task's log and to its sweep's folder.

    Args:
        context: as Airflow has it for callbacks. With an `exception`, the process of the task has
            failed the task and has logged why, so nothing is written.
    """
    if "exception" in context:
        return
    instance = context["ti"]
    line = killed_line(Home.from_environment(), datetime.now(UTC))
    if not _append_to_log(instance, line):
        return
    try:
        sweep = sweep_named(instance.xcom_pull(task_ids="plan"))
        if instance.task_id == "provision" and task_hosts().share_home:
            several_hosts.stop(sweep, f"no cluster: {line}")
    except AckbenchError:
        return  # nothing was planned, or the store of several hosts does not answer
    if not sweep.origin:
        sweep.report_activity(FAILED, f"{instance.task_id}: {line}")


def killed_line(home: Home, now: datetime) -> str:
    """Return what is known of a task that Airflow has ended now.

    Args:
        home: has the log of the scheduler, if `ackbench up` runs the tasks.
        now: when.
    """
    log = home.service_log("scheduler")
    error = _last_error(log, now)
    because = f" ({error})" if error else ""
    where = f", and {log}" if log.is_file() else ""
    return visible(
        f"{_BEGINNING}: its process was killed, or did not start{because}; details are "
        f"in the Audit Log of the task{where}; clear the task to run it again"
    )


def _last_error(log: Path, now: datetime) -> str | None:
    """Return the error that kept a task of the scheduler from running just now, if there is one."""
    error: str | None = None
    in_traceback = False
    for line in last_lines(log, _LOG_LINES):
        if found := _NOT_RUN.match(line):
            in_traceback = now - datetime.fromisoformat(found[1]).replace(tzinfo=UTC) < _RECENT
        elif _NEXT.match(line):
            in_traceback = False
        elif in_traceback and not line.startswith(" "):
            error = fit_line(line)
    return error


def _append_to_log(instance: Any, line: str) -> bool:
    """Append an error to the log of a task; return whether it was not there before.

    Airflow reports a task twice whose worker was killed: without heartbeats, and as failed by the
    executor.
    """
    from airflow.sdk.log import init_log_file
    from airflow.utils.helpers import log_filename_template_renderer

    entry = {"timestamp": datetime.now(UTC).isoformat(), "level": "error", "event": line}
    try:
        path = init_log_file(log_filename_template_renderer()(ti=instance))
        known = path.read_text(errors="replace")
        if _BEGINNING in known:
            return False
        with path.open("a") as log:
            log.write(f"{json.dumps({**entry, 'logger': 'task'})}\n")
    except OSError:
        return True  # the sweep's folder has it
    return True
