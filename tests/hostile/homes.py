"""Homes that cannot be used: for each command, one line instead of a traceback.

The law: the command ends with exit code 2 and one line, or does not need the home.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from hostile.command import Conditions, import_commands, run_command
from hostile.figures import Figures

COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("run", "quick"),
    ("run", "--resume", "x"),
    ("list",),
    ("explain", "quick"),
    ("show",),
    ("show", "x"),
    ("measure", "x"),
    ("report",),
    ("compare", "a", "b"),
    ("matrix",),
    ("publish", "x", "store"),
    ("up",),
    ("clean",),
    ("selftest",),
    ("doctor",),
    ("env",),
    ("tour", "--lessons", "1"),
    ("tour", "--resume", "newest"),
)
READERS: Final = frozenset({"list", "explain", "clean", "env", "doctor"})
"""Commands that may succeed with a home that can be read and not written."""
READABLE: Final = frozenset({"read-only"})


def _folder(mode: int) -> Callable[[Path], str]:
    def make(path: Path) -> str:
        path.mkdir()
        path.chmod(mode)
        return str(path)

    return make


def _file(path: Path) -> str:
    path.touch()
    return str(path)


def _below_a_file(path: Path) -> str:
    path.touch()
    return str(path / "home")


def _with_file(name: str) -> Callable[[Path], str]:
    def make(path: Path) -> str:
        path.mkdir()
        (path / name).touch()
        path.chmod(0o777)
        return str(path)

    return make


HOMES: Final[dict[str, Callable[[Path], str]]] = {
    "unreadable": _folder(0),
    "not listable": _folder(0o311),
    "read-only": _folder(0o555),
    "a file": _file,
    "below a file": _below_a_file,
    "a device": lambda _: "/dev/null",
    "a long name": lambda path: str(path.parent / ("x" * 300)),
    "a long path": lambda path: str(path) + "/x" * 3000,
    "an unknown user's": lambda _: "~nobody-there/home",
    **{
        f"a file {name}": _with_file(name)
        for name in ("sweeps", "clusters", "cache", "logs", "airflow", "mlflow", "tours", "runs")
    },
}
"""How each home is made, by what is wrong with it; the user is not root, and not its owner."""


def run(step: int = 1) -> Figures:
    """Run every `step`-th pair of a home and a command as the user `nobody`."""
    began_s = time.monotonic()
    import_commands()
    with tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        homes = {what: make(folder / what.replace(" ", "-")) for what, make in HOMES.items()}
        pairs = [(what, home, command) for what, home in homes.items() for command in COMMANDS]
        pairs = pairs[::step]
        failures = tuple(_failures(pairs, folder))
    return Figures(
        "unusable homes",
        "exit code 2 and one line, if the home is needed",
        len(pairs),
        failures,
        time.monotonic() - began_s,
    )


def _failures(pairs: Sequence[tuple[str, str, tuple[str, ...]]], folder: Path) -> Iterator[str]:
    for what, home, arguments in pairs:
        conditions = Conditions({"ACKBENCH_HOME": home}, as_nobody=os.geteuid() == 0)
        outcome = run_command(arguments, conditions, folder)
        if what in READABLE and arguments[0] in READERS and outcome.code in {0, 1}:
            continue
        if outcome.problem:
            yield f"home {what}: {' '.join(arguments)}: {outcome.problem}"
