"""Attacks of the user of `ackbench up` over Airflow's API, with a scheduler that runs the tasks.

The user hands other values than a sweep's id from task to task, and asks for what the table of
`docs/security.md` denies. The services run, and no cluster is started.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from e2e.command import new_bench
from e2e.services import SWEEP_DAG, AirflowApi, DagRun, running_services
from hostile.figures import Figures
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

PRUNE_DAG: Final = "ackbench_prune"
ASKED: Final[tuple[tuple[str, str, object, bool], ...]] = (
    ("GET", "variables", None, False),
    ("POST", "variables", {"key": "PROD_KAFKA_PASSWORD", "value": "x"}, False),
    ("GET", "connections", None, False),
    ("POST", "connections", {"connection_id": "prod_kafka", "conn_type": "kafka"}, False),
    ("PATCH", "pools/ackbench_machine", {"name": "ackbench_machine", "slots": 9}, False),
    ("DELETE", "pools/ackbench_machine", None, False),
    ("POST", "assets/events", {"asset_id": 1}, False),
    ("GET", "config", None, False),
    ("GET", "dags", None, True),
    ("GET", f"dagSources/{SWEEP_DAG}", None, True),
    ("PATCH", f"dags/{SWEEP_DAG}", {"is_paused": True}, True),
)
"""Requests of the table of `docs/security.md`: method, path, body, and whether it is allowed."""
GROUPS: Final = (
    (("plan",), ("provision", "verify"), False),
    (("provision", "measure"), ("list_trials", "report", "destroy"), True),
    (("report",), ("measure", "track"), True),
)
"""Tasks that take a sweep and do not wait for each other, and whether they are retried; before
each group, the tasks whose success it waits for."""
_ENDED_TRY: Final = frozenset({"failed", "up_for_retry", "skipped", "success", "upstream_failed"})
_LONG_CHARACTERS: Final = 100_000
_MOST_CHARACTERS: Final = 4_000
"""Of a line of a task's log."""
_TASK_TIMEOUT_S: Final = 600.0


def run(say: Callable[[str], None] = lambda _: None) -> Figures:
    """Start the services, try everything, and return what was not refused in one line."""
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        outside = Home(Path(folder) / "outside")
        planted = FakeInfrastructure(outside).sweep(1).root
        FakeInfrastructure(bench.home).sweep(1, "kept-20260101T000000-abcd")
        before = digests_below(outside.root, bench.home.sweeps)
        tried = 0
        failures: list[str] = []
        try:
            with running_services(bench) as api:
                for number, found in enumerate(_attempts(api, planted, bench.home), 1):
                    tried = number
                    failures += found
                    say("; ".join(found) or "held")
        except (WaitTimeout, OSError) as error:
            failures.append(str(error))
        after = digests_below(outside.root, bench.home.sweeps)
        failures += [f"changed: {path}" for path in changed(before, after)]
        failures += [f"a cluster: {path}" for path in bench.home.clusters.glob("*/*")]
    return Figures(
        "airflow",
        "a task takes a sweep of its home or fails in one line, nothing outside is touched, and "
        "the API answers as the table says",
        tried,
        tuple(failures),
        time.monotonic() - start_s,
    )


def _attempts(api: AirflowApi, planted: Path, home: Home) -> Iterator[list[str]]:
    """Yield what was not refused of each attempt: nothing if all is well."""
    for method, path, body, is_allowed in ASKED:
        status = api.call(method, f"/api/v2/{path}", body).status
        as_documented = status < 400 if is_allowed else status == 403
        yield [] if as_documented else [f"{method} {path}: {status}"]
    yield _pruning(api)
    run = api.trigger({"experiment": "quick"})  # its DAG is paused
    run.mark("success")  # so that no task runs until it is cleared
    for waited_for, tasks, is_retried in GROUPS:
        for task_id in waited_for:
            run.mark_task(task_id, "success")
        api.unpause()
        values = handed_on_values(planted, home)
        for name in ("a path",) if is_retried else values:  # a retried one takes minutes
            yield [f"{name}: {problem}" for problem in _tasks_given(run, values[name], tasks)]
        run.mark("success")
    run.wait()  # its teardown still runs, and a run that runs is not deleted
    path = f"/api/v2/{run.path}"
    status = api.call("DELETE", path).status
    yield [] if status < 400 else [f"DELETE {path}: {status}"]


def handed_on_values(planted: Path, home: Home) -> Mapping[str, Any]:
    """Return what is handed on in place of a sweep's id.

    Args:
        planted: a sweep outside of the home.
        home: the home.
    """
    return {
        "a path": str(planted),
        "a relative path": os.path.relpath(planted, home.sweeps),
        "a URI": planted.as_uri(),
        "the id of another home's sweep": planted.name,
        "the folder of all sweeps": "..",
        "100 kB": "x" * _LONG_CHARACTERS,
        "lines": "a\nTraceback (most recent call last):\nb",
        "an object": {"sweep_id": str(planted)},
        "a list": [str(planted)],
        "a number": 1,
    }


def _pruning(api: AirflowApi) -> list[str]:
    api.unpause(PRUNE_DAG)
    run = api.trigger({"keep": 1}, PRUNE_DAG)
    if (state := run.wait()) != "failed":
        return [f"{PRUNE_DAG} with limits of the request: {state}"]
    return [f"{PRUNE_DAG}: {problem}" for problem in _not_one_line(run, "prune")]


def _tasks_given(run: DagRun, value: object, task_ids: tuple[str, ...]) -> list[str]:
    """Hand a value on as `plan` does, clear tasks, and return what they did but refuse it."""
    run.hand_on("plan", value)
    tries = {one["task_id"]: one["try_number"] for one in run.tasks()}
    run.clear(*task_ids)

    def ended() -> bool:
        return all(
            task["try_number"] > tries[task["task_id"]] and task["state"] in _ENDED_TRY
            for task in run.tasks()
            if task["task_id"] in task_ids
        )

    wait_until(
        ended,
        awaiting=f"the tasks {', '.join(task_ids)}",
        timeout_s=_TASK_TIMEOUT_S,
        every_s=1,
        seen=lambda: [(one["task_id"], one["state"]) for one in run.tasks()],
    )
    return [problem for task_id in task_ids for problem in _not_one_line(run, task_id)]


def _not_one_line(run: DagRun, task_id: str) -> list[str]:
    """Return why a task that had to fail did not do so in one line."""
    (task,) = run.tasks(task_id)
    if task["state"] not in {"failed", "up_for_retry"}:
        return [f"{task_id} is {task['state']}"]
    lines = run.logged(task)
    if len(lines) != 1 or "\n" in lines[0] or len(lines[0]) > _MOST_CHARACTERS:
        return [f"{task_id} failed with {len(lines)} lines: {str(lines)[:500]}"]
    return []


def digests_below(*folders: Path) -> dict[Path, str]:
    """Return the digest of each file below folders, and the folders."""
    paths = sorted(path for folder in folders for path in folder.rglob("*"))
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in paths
    }


def changed(before: Mapping[Path, str], after: Mapping[Path, str]) -> list[Path]:
    """Return the paths that are new, gone, or have another content."""
    paths = {*before, *after}
    return sorted(path for path in paths if before.get(path) != after.get(path))
