"""The programs that an experiment names, looked up where `ackbench run` starts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value
from ackbench.experiments.sweep.workload import Workload


def found_command(command: Sequence[str], name: str | None = None) -> tuple[str, ...]:
    """Return a command with its program's absolute path.

    Args:
        command: a program, looked up on PATH unless it has a slash, and its arguments.
        name: the command's place in an experiment, with which the message begins.

    Raises:
        ExperimentError: there is no such program.
    """
    path = shutil.which(command[0])
    if path is None:
        place = f"{name}: " if name else ""
        raise ExperimentError(f"{place}no such program: {format_value(command[0])}")
    return (str(Path(path).absolute()), *command[1:])


def with_found_application(workload: Workload) -> Workload:
    """Return a load with the path of the program that copies; as it is, if there is none.

    Raises:
        ExperimentError: there is no such program.
    """
    copies = workload.copies
    if copies is None or not copies.command:
        return workload
    command = found_command(copies.command, "copy.command")
    return workload.model_copy(update={"copies": copies.model_copy(update={"command": command})})
