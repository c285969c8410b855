"""Runs the Spark job in a separate process, whose memory and output stay out of this one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.messages.errors import LedgerError, SparkError
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.spark_master import spark_arguments
from ackbench.infra.errors import HarnessError, InputError, MachineError
from ackbench.infra.jvm.runtime import java_environment, spark_java_home
from ackbench.infra.jvm.startup_cache import StartupCache, quote_java_options, spark_startup_cache
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.machine.resources import (
    SPARK_OPEN_FILES,
    full_disk,
    require_resources,
    this_machine,
)
from ackbench.infra.machine.scratch import SPARK, remove_abandoned, scratch_folder
from ackbench.infra.process.load_lock import hold_machine_lock_for_command
from ackbench.infra.process.log_tail import last_lines, read_from
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.start import module_command

SERVICE_VARIABLE: Final = "ACKBENCH_MEASURING_SERVICE"
"""The folder of a running measuring service, for this process and its children."""
_SOCKET: Final = "measure.sock"
_OK: Final = "ok"
_SKIP_UNFIT: Final = "skip-unfit "
"""Begins a request that leaves out unfit trials (`spark_jobs.service`)."""
JAVA_OPTIONS: Final = ("-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1")
"""The serial collector starts fastest and suits few cores.

Performance data would be written to a file outside the home folder. The JVM only passes bytes
between Python processes, so its second compiler (C2) does not pay off.
"""
SPARK_PREFIXES: Final = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")
"""How variables begin that name a user's Spark and its configuration.

Spark's launcher puts folders that they name on the class path, and a JVM writes no start-up cache
when a folder there has files ("Cannot have non-empty directory in paths").
"""
_BAD_INPUT: Final = 2
_ANSWERS: Final[Mapping[str, type[InputError]]] = {"measure: ": LedgerError, "spark: ": SparkError}
"""Prefixes of the job's own line in the output of the JVM (`spark_jobs.measure`), and its error."""
_UNFIT_REMEDY: Final = "restore it from a copy, or leave the trial out with --skip-unfit"
_LAST_LINES: Final = 15
_END_S: Final = 20.0
"""How long the job and its JVM may take to exit after SIGINT, seconds."""


def measure(sweep: SweepFolder, home: Home, *, skip_unfit: bool = False) -> None:
    """Compute the sweep's `results/` from its ledgers; on failure the existing results stay.

    Args:
        sweep: the sweep.
        home: as of `measure_location`.
        skip_unfit: leave out the trials whose ledgers cannot be measured; the results name them.

    Raises:
        LedgerError: a ledger is incomplete, truncated, altered, of another version or of another
            trial; with the job's message.
        SparkError: Spark cannot run the job as it is configured; with the job's message.
        HarnessError: the job failed; with its log and the last lines of it.
    """
    measure_location(str(sweep.root), home, sweep.sweep_id, skip_unfit=skip_unfit)


def measure_location(location: str, home: Home, name: str, *, skip_unfit: bool = False) -> None:
    """Compute the results of a sweep where it is, as `measure` does.

    Args:
        location: the sweep's folder, or the URI of a published sweep.
        home: has the job's log and cache.
        name: the folder of the log in `logs/`.
        skip_unfit: as of `measure`.

    Raises:
        LedgerError, SparkError, HarnessError: as `measure`.
    """
    service = os.environ.get(SERVICE_VARIABLE)
    request = f"{_SKIP_UNFIT if skip_unfit else ''}{location}"
    answer = _ask(Path(service), request) if service else None
    if answer == _OK:
        return
    if answer is not None:
        raise _error_of(answer) or HarnessError(f"the measuring service failed: {answer}")
    _run(
        _job(
            "ackbench.spark_jobs.measure",
            [location, *(["--skip-unfit"] if skip_unfit else []), *spark_arguments()],
            home,
            f"{name}/spark",
            _cache(home).options,
        )
    )


@contextmanager
def measuring_service(home: Home) -> Iterator[None]:
    """Measure all sweeps of this process and its children in one Spark application.

    It starts in the background, while the first sweep runs. If it ends before the context does,
    sweeps are measured by a job of their own again.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(scratch_folder(home.cache, SPARK))
        listener = _listening(folder)
        stack.enter_context(
            _job(
                "ackbench.spark_jobs.service",
                [f"--socket={listener.fileno()}", *spark_arguments()],
                home,
                "service/spark",
                _cache(home).options,
                descriptors=(listener.fileno(),),
            )
        )
        listener.close()  # the service has it now: once that has ended, connections are refused
        os.environ[SERVICE_VARIABLE] = str(folder)
        stack.callback(os.environ.pop, SERVICE_VARIABLE)
        yield


def _listening(folder: Path) -> socket.socket:
    """Return a socket in a folder, for connections of the folder's owner."""
    listener = socket.socket(socket.AF_UNIX)
    with _short_path(folder) as path:
        listener.bind(path)
    listener.listen()
    return listener


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """Yield a path of the socket in a folder that is short enough for one: below 108 bytes."""
    descriptor = os.open(folder, os.O_PATH)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)


def _ask(service: Path, request: str) -> str | None:
    """Return the answer of a measuring service; `None`: it does not run.

    Args:
        service: the folder with its socket.
        request: its line, without the end.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection, _short_path(service) as path:
            connection.connect(path)
            with connection.makefile("rw", encoding="utf-8") as stream:
                stream.write(f"{request}\n")
                stream.flush()
                return stream.readline().rstrip("\n") or None
    except (ConnectionError, FileNotFoundError):
        return None


def ensure_spark_ready(
    home: Home,
    say: Callable[[str], None],
    load: Callable[[], AbstractContextManager[object]] | None = None,
) -> None:
    """Train the start-up cache of Spark's JVM, if the JVM supports one and it does not exist yet.

    Args:
        home: has the cache and the log.
        say: receives the progress message.
        load: returns a context for the training, which takes a core; `None`: the machine lock.

    Raises:
        HarnessError: the training run failed, or wrote no cache.
    """
    cache = _cache(home)
    if cache.is_ready:
        return
    say("running the Spark job once, to train the start-up cache of its JVM")
    without_configuration = {
        name: value for name, value in os.environ.items() if not name.startswith(SPARK_PREFIXES)
    }
    lock = load() if load else hold_machine_lock_for_command(home, "set-up of Spark", say)
    with lock, cache.training() as options:
        _run(
            _job(
                "ackbench.spark_jobs.rehearse",
                [],
                home,
                "setup/spark",
                options,
                without_configuration,
            )
        )


def _cache(home: Home) -> StartupCache:
    return spark_startup_cache(home.cache, JAVA_OPTIONS)


@dataclass(frozen=True)
class _Job:
    """A process of the job that runs."""

    process: subprocess.Popen[Any]
    log: Path
    log_begin_bytes: int
    """Where its own lines in the log begin."""


@contextmanager
def _job(
    module: str,
    arguments: Sequence[str],
    home: Home,
    log_name: str,
    cache_options: Sequence[str],
    inherited: Mapping[str, str] = os.environ,
    descriptors: Sequence[int] = (),
) -> Iterator[_Job]:
    """Start a module of the job, and end it with the context.

    Its output goes to `<home>/logs/<log_name>.log`. It inherits the variables and the descriptors.
    """
    require_resources(
        this_machine(home.root),
        memory_bytes=0,
        disk_bytes=0,
        open_files=SPARK_OPEN_FILES,
        purpose="measuring with Spark",
    )
    log = home.logs / f"{log_name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log_begin_bytes = log.stat().st_size if log.exists() else 0
    remove_abandoned(home.cache, SPARK)
    with scratch_folder(home.cache, SPARK) as work, log.open("ab") as output:
        options = [
            f"--java-options={quote_java_options([*JAVA_OPTIONS, *cache_options])}",
            f"--log={log}",
        ]
        process = spawn_dying_with_parent(
            module_command(module, *arguments, *options),
            env=_environment(home, work, inherited),
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=descriptors,
        )
        try:
            yield _Job(process, log, log_begin_bytes)
        finally:
            _end(process)


def _run(job: AbstractContextManager[_Job]) -> None:
    """Run a module of the job to its end."""
    with job as running:
        code = running.process.wait()
    if code:
        raise _failure(code, running)


def _end(job: subprocess.Popen[Any]) -> None:
    """End the job, if this process was interrupted while it runs.

    SIGINT comes first, so that the job ends its JVM; then SIGKILL, also to the processes below it:
    a JVM that does not answer would stay.
    """
    if job.poll() is None:
        job.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            job.wait(_END_S)
    if job.poll() is None:
        import psutil  # the commands start faster without

        for process in psutil.Process(job.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    job.kill()  # no effect on one that has ended
    job.wait()


def _environment(home: Home, work: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the job's environment: ackbench's JVM, and no files outside the home folder."""
    java = {"JAVA_HOME": str(spark_java_home(home.cache)), "TMPDIR": str(work)}
    return {**java_environment(inherited), **java}


def _failure(code: int, job: _Job) -> Exception:
    lines = read_from(job.log, job.log_begin_bytes).splitlines() if code == _BAD_INPUT else []
    for line in reversed(lines):
        if error := _error_of(line):
            return error
    last = "\n".join(last_lines(job.log, _LAST_LINES, since_bytes=job.log_begin_bytes))
    text = f"the Spark job failed with exit code {code}; last lines of {job.log}:\n{last}"
    full = full_disk(HarnessError(text), job.log)
    return MachineError(f"the Spark job failed, as {full}") if full else HarnessError(text)


def _error_of(line: str) -> InputError | None:
    """Return the error that a line of the job reports; `None`: it reports none."""
    for prefix, error in _ANSWERS.items():
        if line.startswith(prefix):
            text = line.removeprefix(prefix)
            return error(f"{text}; {_UNFIT_REMEDY}" if text.startswith("trial ") else text)
    return None
