"""Runs `ackbench` in a fork of this process: its exit code, its output, and what it wrote.

A fork has its own environment, user and limits, and skips the seconds that imports take. What would
start a cluster, a service or a Spark job ends the command with the exit code `STARTED` instead:
bad input must not get that far.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from ackbench.experiments.commands.cli import cli

STARTED: Final = 99
"""The exit code of a command that would have started something."""
TIMEOUT_S: Final = 60.0
NOBODY: Final = 65534
_VARIABLES: Final = ("ACKBENCH_", "AIRFLOW", "MLFLOW", "XDG_", "COLUMNS")
"""Prefixes of variables of the caller that no case inherits."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int | None
    """`None`: it was still running after `TIMEOUT_S`, and was killed."""
    stdout: str
    stderr: str

    @property
    def problem(self) -> str | None:
        """What is wrong if the command had bad input; `None`: exit code 2 and one line on stderr.

        Lines on stderr before the last one are reports of progress, and count as wrong too.
        """
        if self.code is None:
            return f"no end within {TIMEOUT_S:.0f} s"
        if "Traceback" in self.stderr:
            return f"a traceback: {self.stderr.strip().splitlines()[-1][:300]}"
        if self.code == STARTED:
            return "accepted"
        lines = self.stderr.splitlines()
        if self.code != 2 or len(lines) != 1 or not lines[0].startswith("ackbench: "):
            return f"exit code {self.code}, {len(lines)} lines on stderr: {self.stderr[:300]!r}"
        if self.stdout:
            return f"output on stdout: {self.stdout[:100]!r}"
        return None


@dataclass(frozen=True)
class Conditions:
    """The conditions that a command runs under."""

    variables: Mapping[str, str]
    """Of the environment; `ACKBENCH_HOME` belongs here."""
    as_nobody: bool = False
    """Whether it runs as the user `nobody`; this process must be root then."""
    open_files: int | None = None
    """The limit of open files (`ulimit -n`); `None`: as here."""


def import_commands() -> None:
    """Import what the commands import, so that forks need not."""
    import importlib.readers  # noqa: F401 - the user `nobody` may not be able to read them
    import socketserver  # noqa: F401 - the same

    from ackbench.experiments.commands import (  # noqa: F401 - for their side effect
        catalog,
        clean,
        compare,
        faults,
        run,
        selftest,
        show,
        tour,
        why,
    )
    from ackbench.experiments.commands.history import publish  # noqa: F401 - the same
    from ackbench.experiments.commands.machine import cluster, doctor, step, up  # noqa: F401 - the same
    from ackbench.experiments.orchestration import services  # noqa: F401 - the same


def run_command(arguments: Sequence[str], conditions: Conditions, folder: Path) -> Outcome:
    """Run a command in a fork, in a folder, and wait for its end."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _run_in_child(arguments, conditions, folder, (stdout.fileno(), stderr.fileno()))
        code = _wait(pid)
        texts = []
        for stream in (stdout, stderr):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return Outcome(code, *texts)


def _wait(pid: int) -> int | None:
    """Return the exit code of a child; `None`: it was killed because it did not end."""
    descriptor = os.pidfd_open(pid)
    try:
        ended, _, _ = select.select([descriptor], [], [], TIMEOUT_S)
        if not ended:
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(descriptor)
    return os.waitstatus_to_exitcode(status) if ended else None


def _run_in_child(
    arguments: Sequence[str], conditions: Conditions, folder: Path, output: tuple[int, int]
) -> NoReturn:
    """Run the command and end this process, whatever happens."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output[0], 1)
        os.dup2(output[1], 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115 - descriptors
        os.chdir(folder)
        for name in [name for name in os.environ if name.startswith(_VARIABLES)]:
            del os.environ[name]
        os.environ.update(conditions.variables)
        _start_nothing()
        if conditions.open_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (conditions.open_files,) * 2)
        if conditions.as_nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        cli.main(list(arguments), prog_name="ackbench")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - the fork must not return into its caller
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _start_nothing() -> None:
    """Replace what starts clusters, services and Spark jobs by the end of the process."""
    from ackbench.experiments.commands import run, tour
    from ackbench.experiments.commands.machine import cluster, step
    from ackbench.experiments.orchestration import services
    from ackbench.experiments.results import spark_job
    from ackbench.infra.airflow import environment

    replaced: tuple[tuple[Any, str], ...] = (
        (run, "run_in_child"),
        (tour, "run_in_child"),
        (tour, "measuring_service"),
        (cluster, "start_cluster"),
        (services, "_running"),
        (services, "ensure_database"),
        (environment, "_migrate"),
        (spark_job, "_run"),
    )
    left_out: tuple[tuple[Any, str], ...] = (
        (run, "ensure_set_up"),
        (step, "ensure_set_up"),
        (tour, "ensure_set_up"),
        (cluster, "ensure_set_up"),
    )
    for module, name in left_out:  # what comes after the set-up is tried, too
        setattr(module, name, _does_nothing)
    for module, name in replaced:
        if not hasattr(module, name):
            raise AssertionError(f"{module.__name__} has no {name}: correct {__file__}")
        setattr(module, name, _would_start(name))


def _does_nothing(*_arguments: object) -> None:
    """Replace the set-up of a home, which fetches jars and trains caches."""


def _would_start(name: str) -> Callable[..., NoReturn]:
    def end(*_arguments: object, **_named: object) -> NoReturn:
        sys.stderr.write(f"would start: {name}\n")
        sys.stderr.flush()
        os._exit(STARTED)

    return end
