"""Runs the Spark job in a separate process.

The memory and the output of its JVM stay out of this process.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from experiments.errors import LedgerError
from experiments.sweep.folder import SweepFolder
from infra.errors import HarnessError
from infra.jvm.runtime import java_environment, spark_java_home
from infra.jvm.startup_cache import StartupCache, quote_java_options, spark_startup_cache
from infra.machine.home import REPOSITORY, Home
from infra.process.log_tail import last_lines, read_from
from infra.process.processes import spawn_dying_with_parent

JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData")
"""The serial collector starts fastest and suits few cores.

Performance data would be written to a file outside the home folder.
"""
_BAD_LEDGER: Final = 2
_ANSWER: Final = "measure: "
"""Prefix of the job's own line in the output of the JVM (`spark_jobs.measure`)."""
_LAST_LINES: Final = 15
_END_S: Final = 20.0
"""How long the job and its JVM may take to exit after SIGINT, seconds."""
_WORK: Final = ".spark-"
"""Prefix of the name of the folder of Spark's own files; the pid of its owner follows."""


def measure(sweep: SweepFolder, home: Home) -> None:
    """Compute the sweep's `results/` from its ledgers; on failure the existing results stay.

    Raises:
        LedgerError: a ledger is incomplete, truncated, of another version or of another trial;
            with the job's message.
        HarnessError: the job failed; with its log and the last lines of it.
    """
    measure_location(str(sweep.root), home, sweep.sweep_id)


def measure_location(location: str, home: Home, name: str) -> None:
    """Compute the results of a sweep where it is, as `measure` does.

    Args:
        location: the sweep's folder, or the URI of a published sweep.
        home: has the job's log and cache.
        name: the folder of the log in `logs/`.

    Raises:
        LedgerError, HarnessError: as `measure`.
    """
    _run("spark_jobs.measure", [location], home, f"{name}/spark", _cache(home).options)


def ensure_spark_ready(home: Home, say: Callable[[str], None]) -> None:
    """Train the start-up cache of Spark's JVM, if the JVM supports one and it does not exist yet.

    Args:
        home: has the cache and the log.
        say: receives the progress message.

    Raises:
        HarnessError: the training run failed, or wrote no cache.
    """
    cache = _cache(home)
    if cache.is_ready:
        return
    say("running the Spark job once, to train the start-up cache of its JVM")
    with cache.training() as options:
        _run("spark_jobs.rehearse", [], home, "setup/spark", options)


def _cache(home: Home) -> StartupCache:
    return spark_startup_cache(home.cache, JAVA_OPTIONS)


def _run(
    module: str, arguments: Sequence[str], home: Home, log_name: str, cache_options: Sequence[str]
) -> None:
    """Run a module of the job and wait for it; its output goes to `<home>/logs/<log_name>.log`."""
    log = home.logs / f"{log_name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log_begin_bytes = log.stat().st_size if log.exists() else 0
    with (
        tempfile.TemporaryDirectory(
            prefix=f"{_WORK}{os.getpid()}-", dir=_cleaned(home.cache), ignore_cleanup_errors=True
        ) as work,
        log.open("ab") as output,
    ):
        options = [
            f"--java-options={quote_java_options([*JAVA_OPTIONS, *cache_options])}",
            f"--log={log}",
        ]
        command = [sys.executable, "-m", module, *arguments, *options]
        job = spawn_dying_with_parent(
            command,
            env=_environment(home, Path(work)),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            code = job.wait()
        finally:
            _end(job)
    if code:
        raise _failure(code, log, log_begin_bytes)


def _end(job: subprocess.Popen[Any]) -> None:
    """End the job, if this process was interrupted while it runs.

    SIGINT comes first, because only the job can end its JVM; then SIGKILL.
    """
    if job.poll() is None:
        job.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            job.wait(_END_S)
    job.kill()  # no effect on one that has ended
    job.wait()


def _cleaned(cache: Path) -> Path:
    """Create the folder for Spark's own files, and remove from it those of killed runs."""
    cache.mkdir(parents=True, exist_ok=True)
    for folder in cache.glob(f"{_WORK}*-*"):
        if not Path("/proc", folder.name.removeprefix(_WORK).split("-")[0]).exists():
            shutil.rmtree(folder, ignore_errors=True)
    return cache


def _environment(home: Home, work: Path) -> dict[str, str]:
    """Return the job's environment: ackbench's JVM, and no files outside the home folder."""
    java = {
        "JAVA_HOME": str(spark_java_home(home.cache)),
        "TMPDIR": str(work),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return {**java_environment(os.environ), **java}


def _failure(code: int, log: Path, log_begin_bytes: int) -> Exception:
    lines = read_from(log, log_begin_bytes).splitlines()
    answers = [line.removeprefix(_ANSWER) for line in lines if line.startswith(_ANSWER)]
    if code == _BAD_LEDGER and answers:
        return LedgerError(answers[-1])
    return HarnessError(
        f"the Spark job failed with exit code {code}; last lines of {log}:\n"
        + "\n".join(last_lines(log, _LAST_LINES, since_bytes=log_begin_bytes))
    )
