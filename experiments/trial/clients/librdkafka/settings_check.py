"""Ask librdkafka about settings in a process of its own, which has no secrets.

librdkafka opens files and libraries as soon as it gets their names, and it is C: settings that
crash it, or that it never returns from, would end or stop the whole program. Here they end one
process, and the text of the refusal says so. That process is started once (about 0.1 s) and
answers in a few milliseconds.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.trial.clients.librdkafka.library_file import library_path
from ackbench.experiments.trial.clients.settings.security import WITHOUT_TLS
from ackbench.experiments.trial.clients.settings.tokens import TOKEN_COMMAND
from ackbench.infra.kafka.secrets import is_reference
from ackbench.infra.process.exits import describe_exit
from ackbench.infra.process.processes import spawn_dying_with_parent

ANSWER_TIMEOUT_S: Final = 30.0
_PLACEHOLDER: Final = "ackbench"
"""Takes the place of each secret."""
_NOT_SENT: Final = frozenset({"bootstrap.servers", "metadata.broker.list", TOKEN_COMMAND})
"""Addresses, and what is not librdkafka's."""
_MAIN: Final = Path(__file__).with_name("settings_check_main.py")


class SettingsCheck:
    """The process that is asked. One thread may use it at a time.

    Args:
        command: the program; its stdin is the socket.
        timeout_s: how long an answer may take.
    """

    def __init__(self, command: Sequence[str], timeout_s: float) -> None:
        self._owner_pid, self._timeout_s = os.getpid(), timeout_s
        self._socket, its_socket = socket.socketpair()
        with its_socket:
            self._process: subprocess.Popen[Any] = spawn_dying_with_parent(
                command,
                stdin=its_socket,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        self._socket.settimeout(timeout_s)
        self._answers = self._socket.makefile("rb")

    def is_usable(self) -> bool:
        """Return whether the process runs and was started by this process, not by its parent."""
        return self._owner_pid == os.getpid() and self._process.poll() is None

    def refusal(self, settings: Mapping[str, str]) -> str | None:
        """Return librdkafka's reason for rejecting settings; `None` if it accepts them.

        After a reason of this module the process has ended.
        """
        try:
            self._socket.sendall(json.dumps(dict(settings)).encode() + b"\n")
            answer = self._answers.readline()
        except TimeoutError:
            self.close()
            return f"librdkafka did not answer within {self._timeout_s:g} s"
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            self.close()
            return f"librdkafka {describe_exit(self._process.returncode)}"
        reason: str | None = json.loads(answer)
        return reason

    def close(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            # A closed socket means that it is about to end: its own signal is the better reason.
            self._socket.close()
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._answers.close()
        self._socket.close()


_checks: Final[dict[Path, SettingsCheck]] = {}
"""By the path of the library."""
_lock: Final = threading.Lock()


def refusal(settings: Mapping[str, str], library: Path | None = None) -> str | None:
    """Return librdkafka's reason for rejecting a producer's settings; `None` if it accepts them.

    Secrets are not sent: librdkafka gets a placeholder for each reference. If one of them protects
    a key, no TLS context is made. The values are used when a client connects.

    Args:
        settings: the producer's.
        library: the library to ask; `None`: the installed one.

    Raises:
        ClientLibraryError: librdkafka was not found.
    """
    path = library or library_path()
    with _lock:
        check = _checks.get(path)
        if check is None or not check.is_usable():
            command = [sys.executable, "-I", "-S", str(_MAIN), str(path)]
            check = _checks[path] = SettingsCheck(command, ANSWER_TIMEOUT_S)
        return check.refusal(_without_secrets(settings))


def _without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    references = {name for name, value in settings.items() if is_reference(name, value)}
    sent = {
        name: _PLACEHOLDER if name in references else value
        for name, value in settings.items()
        if name not in _NOT_SENT
    }
    protocol = sent.get("security.protocol", "").lower()
    if protocol in WITHOUT_TLS and any(name.startswith("ssl.") for name in references):
        sent["security.protocol"] = WITHOUT_TLS[protocol]
    return sent
