"""Starts the measuring job as a process of its own, so that the JVM's memory and its chatter stay outside of this one."""

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
"""The serial collector starts fastest and suits few cores; performance data would be a file outside the home folder."""
_BAD_LEDGER: Final = 2
_ANSWER: Final = "measure: "
"""How the job's own line begins among what the JVM says (`spark_jobs.measure`)."""
_LAST_LINES: Final = 15
_END_S: Final = 20.0
"""What the job and its JVM may need to end when they are asked to."""
_WORK: Final = ".spark-"
"""Begins the name of the folder of Spark's own files; the pid of its owner follows."""


def measure(sweep: SweepFolder, home: Home) -> None:
    """Make the sweep's `results/` from its ledgers alone; what was there stays when that fails.

    Raises:
        LedgerError: a ledger is incomplete, cut short, of another version or of another trial; the job's own words.
        HarnessError: the job did not end well; names its log and ends with its last lines.
    """
    _run(
        "spark_jobs.measure",
        [str(sweep.root)],
        home,
        f"{sweep.sweep_id}/spark",
        _cache(home).options,
    )


def ensure_spark_ready(home: Home, say: Callable[[str], None]) -> None:
    """Train the start-up cache of Spark's JVM, where the JVM makes such caches and it is not there yet.

    Raises:
        HarnessError: the rehearsal did not end well, or no cache was written.
    """
    cache = _cache(home)
    if cache.is_ready:
        return
    say("rehearsing the Spark job once, so that its JVM starts faster from now on")
    with cache.training() as options:
        _run("spark_jobs.rehearse", [], home, "setup/spark", options)


def _cache(home: Home) -> StartupCache:
    return spark_startup_cache(home.cache, JAVA_OPTIONS)


def _run(
    module: str, arguments: Sequence[str], home: Home, log_name: str, cache_options: Sequence[str]
) -> None:
    """Run one of the job's programs to its end; all it says goes to `<home>/logs/<log_name>.log`."""
    log = home.logs / f"{log_name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    began = log.stat().st_size if log.exists() else 0
    with (
        tempfile.TemporaryDirectory(
            prefix=f"{_WORK}{os.getpid()}-", dir=_swept(home.cache), ignore_cleanup_errors=True
        ) as work,
        log.open("ab") as chatter,
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
            stdout=chatter,
            stderr=chatter,
        )
        try:
            code = job.wait()
        finally:
            _end(job)
    if code:
        raise _failure(code, log, began)


def _end(job: subprocess.Popen[Any]) -> None:
    """See the job gone. One that still runs, because we are interrupted, is asked first: it alone can end its JVM."""
    if job.poll() is None:
        job.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            job.wait(_END_S)
    job.kill()  # no effect on one that has ended
    job.wait()


def _swept(cache: Path) -> Path:
    """Return the folder for Spark's own files, rid of those that a killed run left there."""
    cache.mkdir(parents=True, exist_ok=True)
    for left in cache.glob(f"{_WORK}*-*"):
        if not Path("/proc", left.name.removeprefix(_WORK).split("-")[0]).exists():
            shutil.rmtree(left, ignore_errors=True)
    return cache


def _environment(home: Home, work: Path) -> dict[str, str]:
    """Return the job's environment: our JVM, and nothing written outside of the home folder."""
    java = {
        "JAVA_HOME": str(spark_java_home(home.cache)),
        "TMPDIR": str(work),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    return {**java_environment(os.environ), **java}


def _failure(code: int, log: Path, began_bytes: int) -> Exception:
    lines = read_from(log, began_bytes).splitlines()
    answers = [line.removeprefix(_ANSWER) for line in lines if line.startswith(_ANSWER)]
    if code == _BAD_LEDGER and answers:
        return LedgerError(answers[-1])
    return HarnessError(
        f"the Spark job ended with exit code {code}; its log is {log}, and ends:\n"
        + "\n".join(last_lines(log, _LAST_LINES, since_bytes=began_bytes))
    )
