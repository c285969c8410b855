"""The programs that an experiment names, looked up where `ackbench run` starts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ackbench.experiments.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.sweep.workload import Workload


def found_command(name: str, command: Sequence[str]) -> tuple[str, ...]:
    """Return a command with its program's absolute path.

    Args:
        name: what the command is, for the message.
        command: a program, looked up on PATH unless it has a slash, and its arguments.

    Raises:
        ExperimentError: there is no such program.
    """
    path = shutil.which(command[0])
    if path is None:
        raise ExperimentError(f"{name}: no such program: {format_value(command[0])}")
    return (str(Path(path).absolute()), *command[1:])


def with_found_application(workload: Workload) -> Workload:
    """Return a load with the path of the program that copies; as it is, if there is none.

    Raises:
        ExperimentError: there is no such program.
    """
    copies = workload.copies
    if copies is None or not copies.command:
        return workload
    command = found_command("copy.command", copies.command)
    return workload.model_copy(update={"copies": copies.model_copy(update={"command": command})})
