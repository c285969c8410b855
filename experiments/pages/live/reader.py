"""The process that reads a sweep once a second, writes the live page and serves the metrics.

    python -m ackbench.experiments.pages.live.reader [--sweep SWEEP] [--metrics-port PORT]

Without a sweep it shows whichever sweep of the home runs. It has a process of its own, which the
kernel schedules only on idle CPUs (SCHED_IDLE, sched(7)): as a thread of the command it could not,
because a thread that waits for the CPU while it holds the GIL would delay the command's handling
of Ctrl-C.

Whatever goes wrong here is written to its log, once, and has no effect on the run.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from typing import IO, TYPE_CHECKING, Final

from ackbench.experiments.messages.log_records import keep_log_records_visible
from ackbench.experiments.pages.live.files import LOCK, live_folder
from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.home import Home, keep_files_private

if TYPE_CHECKING:
    from ackbench.experiments.pages.live.sweep import LiveSweep, SweepFollower

EVERY_S: Final = 1.0
PAGE_EVERY_S: Final = 10.0
"""An open page loads its data each second; the page itself is written for those who open it."""
_LOG: Final = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Read until SIGTERM or SIGINT; return the exit code."""
    parser = argparse.ArgumentParser(prog="ackbench.experiments.pages.live.reader")
    parser.add_argument("--sweep")
    parser.add_argument("--metrics-port", type=int)
    options = parser.parse_args(arguments)
    keep_files_private()
    run_on_idle_cpus_only()
    keep_log_records_visible()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reader = LiveReader(Home.from_environment(), options.sweep)
    with ExitStack() as serving:
        serving.callback(reader.close)
        if options.metrics_port:
            from ackbench.experiments.pages.live.metrics import exporter

            serving.enter_context(exporter(options.metrics_port, lambda: reader.latest))
        while not stop.wait(EVERY_S):
            reader.tick()
        reader.tick(over=True)
    return 0


def run_on_idle_cpus_only() -> None:
    """Have the kernel run this process only while a CPU would be idle."""
    with suppress(OSError):  # a container may forbid it: then with the lowest priority
        os.setpriority(os.PRIO_PROCESS, 0, 19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class LiveReader:
    """Reads a sweep of a home and writes its page.

    Args:
        home: the home.
        sweep_id: the sweep to read; `None`: whichever runs.
    """

    def __init__(self, home: Home, sweep_id: str | None) -> None:
        self._home, self._sweep_id = home, sweep_id
        # A command starts it with its sweep; a sweep of a scheduler may be in a trial already.
        self._since_ns = time.time_ns() if sweep_id else 0
        self._follower: SweepFollower | None = None
        self._lock: IO[str] | None = None
        self._said: set[str] = set()
        self._news, self._page_due_s = "", 0.0
        self.latest: LiveSweep | None = None
        """The sweep as it was read last; `None`: none runs."""

    def tick(self, *, over: bool = False) -> None:
        """Read the sweep and write the page; say a failure once.

        Args:
            over: whether the run has ended.
        """
        try:
            self._read(over=over)
            self._write()
        except Exception as error:  # noqa: BLE001 - no failure here may have an effect on the run
            text = f"{type(error).__name__}: {error}"
            if text not in self._said:
                self._said.add(text)
                _LOG.warning("the live page is not up to date: %s", text)

    def close(self) -> None:
        """Release the sweep's files and the page."""
        if self._follower:
            self._follower.close()
        if self._lock:
            self._lock.close()

    def _read(self, *, over: bool) -> None:
        from ackbench.experiments.pages.live.sweep import open_follower, sweep_under_way
        from ackbench.experiments.sweep.folder import SweepFolder

        sweep: SweepFolder | None
        if self._sweep_id:
            sweep = SweepFolder(self._home.sweeps / self._sweep_id)
        else:
            running = sweep_under_way(self._home)
            over = over or running is None
            sweep = running or (self._follower.sweep if self._follower else None)
        if sweep and (self._follower is None or self._follower.sweep != sweep):
            if self._follower:
                self._follower.close()
            self._follower = open_follower(sweep, self._since_ns)
        if self._follower:
            self.latest = self._follower.read(over=over)

    def _write(self) -> None:
        from ackbench.experiments.pages.live import page

        folder = live_folder(self._home)
        folder.mkdir(exist_ok=True)  # without its parents: a home that was moved is not made again
        if self._lock is None:
            self._lock = try_lock(folder / LOCK)
        if self._lock is None:  # another sweep of this home runs, and this one waits
            return
        if self.latest is None:
            sections, news = page.waiting_sections(), "No sweep runs now."
        else:
            sections, news = page.sections_of(self.latest), page.news_of(self.latest)
        over = self.latest is None or self.latest.over
        state = page.PageState(sections, news, time.time_ns(), over)
        now_s = time.monotonic()
        if news == self._news and now_s < self._page_due_s:
            page.write_data(folder, state)
        else:
            page.write_page(folder, state)
            self._news, self._page_due_s = news, now_s + PAGE_EVERY_S


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
