"""A cluster's folder and the supervisor that owns it: made, started, and waited for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from infra.errors import HarnessError, InputError, NodeFailed, SupervisorError
from infra.handle import Handle, read_handle
from infra.last_words import last_words
from infra.node import LOG, node_folder
from infra.protocol import NodeReport, Request, ask
from infra.waiting import wait_until

_LOG: Final = "supervisor.log"
_START_TIMEOUT_S: Final = 30.0


def new_folder(clusters: Path, name: str) -> Path:
    """Make a cluster's folder.

    Raises:
        InputError: the name is taken.
    """
    folder = clusters / name
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError as error:
        raise InputError(f"there is a cluster folder {folder} already: `ackbench clean` removes what was left behind") from error
    return folder.resolve()


def start_supervisor(folder: Path) -> subprocess.Popen[bytes]:
    """Detached: a session of its own, so that neither Ctrl-C nor a killed process group reaches it."""
    with (folder / _LOG).open("wb") as log:
        command = [sys.executable, "-m", "infra.supervisor", str(folder)]
        return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)


def await_supervisor(folder: Path, supervisor: subprocess.Popen[bytes]) -> Handle:
    """Return the handle once the supervisor answers.

    Raises:
        SupervisorError: it ended; the text has its last words.
        WaitTimeout: it did not answer in time.
    """

    def answered() -> bool:
        if supervisor.poll() is not None:
            raise SupervisorError(f"the supervisor of {folder.name} ended with status {supervisor.returncode}: {last_words(folder / _LOG)}")
        try:
            return bool(ask(folder, Request("status")).nodes)
        except HarnessError:
            return False

    wait_until(answered, awaiting=f"the supervisor of {folder.name}", timeout_s=_START_TIMEOUT_S, every_s=0.02)
    return read_handle(folder)


def raise_for_dead(folder: Path, reports: Sequence[NodeReport]) -> None:
    """Check that no node ended by itself.

    Raises:
        NodeFailed: one did; the text ends with its last words.
    """
    for report in reports:
        if report.died_unasked:
            node_id = report.status.node_id
            words = last_words(node_folder(folder, node_id) / LOG)
            raise NodeFailed(f"node {node_id} ended by itself with status {report.exit_status}; its log ends:\n{words}")
