"""The reader's process, as its command sees it: how it starts, ends and fails."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from ackbench.experiments.pages.live.files import LOCK, live_folder, page_path
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.home import REPOSITORY, Home
from ackbench.infra.machine.loopback import LOOPBACK, require_free_port
from ackbench.infra.process.exits import describe_exit, is_kill
from ackbench.infra.process.log_tail import last_lines
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.start import module_command

_STOP_TIMEOUT_S: Final = 3.0
"""How long it may take to write the page a last time."""
_INHERITED: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_DATA_HOME"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),  # without them a Python of its own prefix may not start
)
"""The variables that it gets. It needs no secret, so it gets none."""


@dataclass(frozen=True)
class LiveOptions:
    """What of a sweep is shown while it runs."""

    page: bool = True
    metrics_port: int | None = None
    """The port of OpenMetrics; `None`: they are not served."""

    def check(self) -> None:
        """Check the port before anything is made.

        Raises:
            MachineError: it is taken.
        """
        if self.metrics_port:
            require_free_port("metrics", self.metrics_port)


WITHOUT_METRICS: Final = LiveOptions()


def reader_command(sweep_id: str | None, metrics_port: int | None) -> list[str]:
    """Return the command of the reader (`experiments.pages.live.reader`).

    Args:
        sweep_id: the sweep; `None`: whichever of the home runs.
        metrics_port: the port of its metrics; `None`: they are not served.
    """
    options = {"--sweep": sweep_id, "--metrics-port": metrics_port}
    given = [str(word) for option in options.items() if option[1] is not None for word in option]
    return module_command("ackbench.experiments.pages.live.reader", *given)


def reader_environment(home: Home) -> Mapping[str, str]:
    """Return the few variables that the reader gets; its numeric libraries use one thread."""
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {
        **inherited,
        "ACKBENCH_HOME": str(home.root),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


class ReaderProcess:
    """A running reader; `None` inside if it could not be started."""

    def __init__(self, home: Home, sweep: SweepFolder, metrics_port: int | None) -> None:
        self._log = home.logs / sweep.sweep_id / "live.log"
        self._process: subprocess.Popen[Any] | None = None
        self._error = ""
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as output:
                self._process = spawn_dying_with_parent(
                    reader_command(sweep.sweep_id, metrics_port),
                    env=dict(reader_environment(home)),
                    cwd=REPOSITORY,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._error = str(error)

    @property
    def pid(self) -> int | None:
        """Its pid; `None`: it could not be started."""
        return self._process.pid if self._process else None

    def failure(self) -> str | None:
        """Return why it does not run, as a clause; `None`: it runs."""
        if self._process is None:
            return self._with_log(self._error)
        status = self._process.poll()
        if status is None:
            return None
        last = "" if is_kill(status) else "".join(last_lines(self._log, 1)).strip()
        return self._with_log(last or f"its process {describe_exit(status)}")

    def stop(self) -> str | None:
        """Have it write the page a last time, and end it; return why it did not."""
        if self._process is None or self._process.poll() is not None:
            return self.failure()
        self._process.terminate()
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return self._with_log(f"its process did not end within {_STOP_TIMEOUT_S:g} s")
        return self.failure() if self._process.returncode else None

    def _with_log(self, reason: str) -> str:
        return f"{reason} (log: {self._log})"


@contextmanager
def live_page(
    home: Home, sweep: SweepFolder, options: LiveOptions, say: Callable[[str], None]
) -> Iterator[Callable[[], None]]:
    """Show a sweep on the live page while the context lasts.

    Args:
        home: the home of the sweep.
        sweep: the sweep.
        options: what is shown.
        say: called with where the page is, and once if it fails, which has no effect on the sweep.

    Yields:
        A function to call now and then: it notices a failure.
    """
    if not options.page:
        yield lambda: None
        return
    say(f"live page: {page_path(home)} (ackbench open live)")
    if options.metrics_port:
        say(f"metrics: http://{LOOPBACK}:{options.metrics_port}/metrics")
    reader = ReaderProcess(home, sweep, options.metrics_port)
    said = False

    def check() -> None:
        nonlocal said
        if not said and (failure := reader.failure()):
            said = True
            say(f"no live page: {failure}")
            _write_page_without_data(home, sweep, failure, over=False)

    try:
        yield check
    finally:
        if failure := reader.stop():
            _write_page_without_data(home, sweep, failure, over=True)


def _write_page_without_data(home: Home, sweep: SweepFolder, failure: str, *, over: bool) -> None:
    """Replace the page of a reader that has failed, which would go on to show old figures.

    Args:
        home: has the page.
        sweep: the sweep.
        failure: why there are no figures.
        over: whether the run has ended.
    """
    from ackbench.experiments.pages.live import page

    with suppress(OSError):  # no failure here may have an effect on the run
        folder = live_folder(home)
        folder.mkdir(parents=True, exist_ok=True)
        lock = try_lock(folder / LOCK)
        if lock is None:  # another sweep of this home runs, and has the page
            return
        with lock:
            sections = page.sections_without_data(sweep, failure, over=over)
            page.write_page(folder, page.PageState(sections, "No data.", time.time_ns(), over=True))
