"""Processes of a running trial that another program kills, as the kernel does without memory."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from ackbench.experiments.trial.events.journal import JOURNAL_FILE
from ackbench.infra.cluster.local import LocalCluster
from ackbench.infra.process.waiting import wait_until

_TIMEOUT_S = 60


def has_happened(folder: Path, event: str) -> bool:
    """Return whether the trial that runs in a folder has had an event of this kind."""
    journals = folder.glob(f"**/trials/*.partial/{JOURNAL_FILE}")
    return any(f'"kind": "{event}"' in _text(journal) for journal in journals)


def _text(journal: Path) -> str:
    try:
        return journal.read_text()
    except FileNotFoundError:  # the trial was sealed, or has failed
        return ""


@contextmanager
def during(folder: Path, event: str, act: Callable[[], None]) -> Iterator[None]:
    """Act once, as soon as the trial that runs within the context has had an event.

    Args:
        folder: of its sweep, or of all sweeps.
        event: its kind.
        act: what to do.
    """
    ended = threading.Event()
    errors: list[BaseException] = []

    def wait_and_act() -> None:
        try:
            wait_until(
                lambda: ended.is_set() or has_happened(folder, event),
                awaiting=f"the event {event}",
                timeout_s=_TIMEOUT_S,
                every_s=0.05,
            )
            if not ended.is_set():
                act()
        except BaseException as error:  # noqa: BLE001 - the test's own thread raises it
            errors.append(error)

    thread = threading.Thread(target=wait_and_act, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_TIMEOUT_S)
    if errors:
        raise errors[0]


def kill_node(cluster: LocalCluster, node_id: int) -> None:
    """Kill the process of a node of the test's own cluster by its pid, behind ackbench's back."""
    (pid,) = (node.pid for node in cluster.status() if node.node_id == node_id)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def kill_child(argument: str) -> None:
    """Kill the child of this test that has an argument with this text."""
    _kill_the_only(
        process
        for process in _running(psutil.Process().children())
        if any(argument in word for word in process.cmdline())
    )


def kill_fork(file: str) -> None:
    """Kill the forked client of this test that maps a file with this name."""
    _kill_the_only(
        process
        for process in _running(psutil.Process().children(recursive=True))
        if file in Path("/proc", str(process.pid), "maps").read_text()
    )


def _running(processes: Iterable[psutil.Process]) -> Iterator[psutil.Process]:
    return (one for one in processes if one.status() != psutil.STATUS_ZOMBIE)


def _kill_the_only(processes: Iterable[psutil.Process]) -> None:
    (process,) = processes
    process.kill()
