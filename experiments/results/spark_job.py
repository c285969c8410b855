"""Runs the Spark job in a separate process, whose memory and output stay out of this one.

`ACKBENCH_SPARK_MASTER` and `ACKBENCH_SPARK_CONF` (one `key=value` per line) name Spark's master and
settings. As variables they also reach the tasks of a DAG.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from experiments.errors import LedgerError, SparkError
from experiments.sweep.folder import SweepFolder
from infra.errors import HarnessError, InputError
from infra.jvm.runtime import java_environment, spark_java_home
from infra.jvm.startup_cache import StartupCache, quote_java_options, spark_startup_cache
from infra.machine.home import REPOSITORY, Home
from infra.process.log_tail import last_lines, read_from
from infra.process.processes import spawn_dying_with_parent

MASTER_VARIABLE: Final = "ACKBENCH_SPARK_MASTER"
SETTINGS_VARIABLE: Final = "ACKBENCH_SPARK_CONF"
JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1")
"""The serial collector starts fastest and suits few cores.

Performance data would be written to a file outside the home folder. The JVM only passes bytes
between Python processes, so its second compiler (C2) does not pay off.
"""
_BAD_INPUT: Final = 2
_ANSWERS: Final[Mapping[str, type[InputError]]] = {"measure: ": LedgerError, "spark: ": SparkError}
"""Prefixes of the job's own line in the output of the JVM (`spark_jobs.measure`), and its error."""
_LAST_LINES: Final = 15
_END_S: Final = 20.0
"""How long the job and its JVM may take to exit after SIGINT, seconds."""
_WORK: Final = ".spark-"
"""Prefix of the name of the folder of Spark's own files; the pid of its owner follows."""


def configure_spark(master: str | None, settings: Sequence[str]) -> None:
    """Set master and settings of all jobs that this process and its children start.

    Args:
        master: Spark's master; `None`: that of the environment or of Spark's configuration.
        settings: Spark's settings as `key=value`; none: those of the environment.

    Raises:
        InputError: a setting has another form.
    """
    for setting in settings:
        if not setting.startswith("spark.") or "=" not in setting or "\n" in setting:
            raise InputError(
                f"--conf {setting}: give a setting of Spark as key=value, such as "
                "spark.executor.memory=2g"
            )
    if master:
        os.environ[MASTER_VARIABLE] = master
    if settings:
        os.environ[SETTINGS_VARIABLE] = "\n".join(settings)


def measure(sweep: SweepFolder, home: Home) -> None:
    """Compute the sweep's `results/` from its ledgers; on failure the existing results stay.

    Raises:
        LedgerError: a ledger is incomplete, truncated, of another version or of another trial;
            with the job's message.
        SparkError: Spark cannot run the job as it is configured; with the job's message.
        HarnessError: the job failed; with its log and the last lines of it.
    """
    _run(
        "spark_jobs.measure",
        [str(sweep.root), *_spark_arguments()],
        home,
        f"{sweep.sweep_id}/spark",
        _cache(home).options,
    )


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


def _spark_arguments() -> list[str]:
    """Return the job's arguments for the master and the settings that the environment names."""
    master = os.environ.get(MASTER_VARIABLE)
    settings = os.environ.get(SETTINGS_VARIABLE, "").splitlines()
    return [
        *([f"--master={master}"] if master else []),
        *(f"--conf={setting}" for setting in settings if setting),
    ]


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
    }
    return {**java_environment(os.environ), **java}


def _failure(code: int, log: Path, log_begin_bytes: int) -> Exception:
    if code == _BAD_INPUT:
        for line in reversed(read_from(log, log_begin_bytes).splitlines()):
            for prefix, error in _ANSWERS.items():
                if line.startswith(prefix):
                    return error(line.removeprefix(prefix))
    return HarnessError(
        f"the Spark job failed with exit code {code}; last lines of {log}:\n"
        + "\n".join(last_lines(log, _LAST_LINES, since_bytes=log_begin_bytes))
    )
