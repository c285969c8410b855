"""A thread that starts one broker of an external cluster, and lets commands do things to it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ackbench.infra.process.processes import spawn_dying_with_parent

CONTROL = Path(__file__).with_name("broker_control.py")
ACTIONS = ("kill", "pause", "resume", "start")
_LOOK_S = 0.2


class BrokerKeeper:
    """Keeps one broker: it runs until the keeper is closed, unless a command says otherwise."""

    def __init__(
        self, name: str, command: Sequence[str], folder: Path, variables: Mapping[str, str]
    ) -> None:
        """Start the broker.

        Args:
            name: of the keeper, by which commands find it; unique on the machine.
            command: starts the broker.
            folder: its working directory, with its log.
            variables: further environment variables of the broker.
        """
        self._command, self._folder, self._variables = command, folder, variables
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(f"\0{name}")
        self._listening.listen()
        self._listening.settimeout(_LOOK_S)
        self._closing, self._started = threading.Event(), threading.Event()
        self._process: subprocess.Popen[Any] | None = None
        # The broker ends with the thread that has started it.
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        self._started.wait()

    @property
    def pid(self) -> int:
        """Of the broker that was started last."""
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """Kill the broker and end the thread."""
        self._closing.set()
        self._thread.join()

    def do(self, action: str) -> str:
        """Do what a command asks for; return what was done, empty if it is not known."""
        process = self._process
        assert process is not None
        match action:
            case "kill":
                process.kill()
                process.wait()
            case "pause":
                process.send_signal(signal.SIGSTOP)
            case "resume":
                process.send_signal(signal.SIGCONT)
            case "start":
                if process.poll() is None:
                    return f"broker {process.pid} runs"
                self._start()
            case _:
                return ""
        return f"{action} broker {process.pid}"

    def _serve(self) -> None:
        try:
            self._start()
        finally:
            self._started.set()
        with self._listening:
            while not self._closing.is_set():
                try:
                    connection, _ = self._listening.accept()
                except TimeoutError:
                    continue
                with connection:
                    connection.settimeout(None)
                    connection.sendall(self.do(connection.makefile().read()).encode())
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        with (self._folder / "log").open("ab") as log:
            self._process = spawn_dying_with_parent(
                self._command,
                cwd=self._folder,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._variables},
            )


def control_command(keeper: str, action: str) -> list[str]:
    """Return the command that asks a keeper for an action."""
    assert action in ACTIONS
    return [sys.executable, "-I", str(CONTROL), keeper, action]
