"""Bad input for every command and every key of an experiment, from the table `inputs.yaml`.

The law: exit code 2, one line on stderr, nothing on stdout, no traceback, the home as before.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, Final

import yaml
from hostile.command import Conditions, Outcome, import_commands, run_command
from hostile.figures import Figures
from support.builders.records import no_rows, record_of

from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.experiments.planning.overrides import Overrides
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

TABLE: Final = Path(__file__).with_name("inputs.yaml")
LAW: Final = "exit code 2, one line, nothing written"
ROOT_KEYS: Final = ("file",)
"""Sections of `experiment` in the table whose entries are keys of the file itself."""
_BASE: Final[dict[str, Any]] = {
    "name": "bad",
    "title": "An experiment with one wrong value",
    "question": "Is it refused?",
    "axes": {"acks": [1], "fault": ["leader-crash"]},
}
"""A valid experiment, of which each case changes one value."""


@dataclass(frozen=True)
class BadInput:
    """A command with bad input."""

    arguments: tuple[str, ...]
    """With the names of the places in braces, as in `{sweep}`."""
    text: str | bytes | None = None
    """The content of `{file}`; `None`: the arguments are wrong by themselves."""

    @property
    def label(self) -> str:
        """The command, and the value that is wrong."""
        command = shlex.join(self.arguments)[:120]
        return command if self.text is None else f"{command} <- {self.text[-160:]!r}"


@dataclass(frozen=True)
class Places:
    """Where the cases run: a home with a sweep, and files that a command could take for its own."""

    home: Home
    folder: Path
    names: Mapping[str, str]

    def arguments(self, case: BadInput) -> tuple[str, ...]:
        """Return a command's arguments with the places filled in."""
        return tuple(
            reduce(
                lambda text, name: text.replace(f"{{{name}}}", self.names[name]), self.names, one
            )
            for one in case.arguments
        )


def bad_inputs() -> tuple[BadInput, ...]:
    """Return the cases of the table, in its order."""
    table = _table()
    return (
        *(BadInput(tuple(shlex.split(line))) for line in table["commands"]),
        *(
            BadInput(("run", "quick", "--set", f"{axis}={value}"))
            for axis, values in table["overrides"].items()
            for value in values
        ),
        *(
            BadInput(("explain", "{file}"), _with_value(section, key, value))
            for section, keys in bad_values().items()
            for key, values in keys.items()
            for value in values
        ),
        *(BadInput(("run", "{file}"), text) for text in table["files"]),
        *(BadInput(("run", "{file}"), bytes.fromhex(text)) for text in table["bytes"]),
    )


def bad_values() -> Mapping[str, Mapping[str, Sequence[Any]]]:
    """Return the bad values of an experiment's keys, by section and key."""
    values: Mapping[str, Mapping[str, Sequence[Any]]] = _table()["experiment"]
    return values


def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return table


def run(step: int = 1) -> Figures:
    """Run every `step`-th case of the table in forks of this process."""
    began_s, cases = time.monotonic(), bad_inputs()[::step]
    import_commands()
    with places() as at:
        failures = tuple(_failures(cases, at))
    return Figures("bad inputs", LAW, len(cases), failures, time.monotonic() - began_s)


def run_as_processes(count: int) -> Figures:
    """Run `count` cases of the table as processes of their own."""
    began_s, cases = time.monotonic(), bad_inputs()
    chosen = cases[:: max(1, len(cases) // max(1, count))][:count]
    with places() as at:
        failures = tuple(
            f"{case.label}: {problem}" for case in chosen if (problem := _process_problem(case, at))
        )
    return Figures("as processes", LAW, len(chosen), failures, time.monotonic() - began_s)


def _failures(cases: Sequence[BadInput], at: Places) -> Iterator[str]:
    conditions = Conditions({"ACKBENCH_HOME": str(at.home.root)})
    before = _content(at.home.root)
    for case in cases:
        _write(case, at)
        problem = run_command(at.arguments(case), conditions, at.folder).problem
        after = _content(at.home.root)
        written, before = sorted(after ^ before), after
        if problem or written:
            yield f"{case.label}: {problem or f'written: {written[0]}'}"


def _process_problem(case: BadInput, at: Places) -> str | None:
    _write(case, at)
    before = _content(at.home.root)
    ran = subprocess.run(
        [sys.executable, "-m", "ackbench", *at.arguments(case)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=at.folder,
        env={**os.environ, "ACKBENCH_HOME": str(at.home.root)},
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    written = _content(at.home.root) ^ before
    problem = Outcome(ran.returncode, ran.stdout, ran.stderr).problem
    return problem or (f"written: {min(written)}" if written else None)


def _write(case: BadInput, at: Places) -> None:
    if case.text is not None:
        content = case.text.encode() if isinstance(case.text, str) else case.text
        Path(at.names["file"]).write_bytes(content)


def _content(root: Path) -> set[tuple[str, int, int]]:
    """Return path, size and time of modification of every file below a folder."""
    files = [path for path in root.rglob("*") if "cache" not in path.relative_to(root).parts[:1]]
    return {
        (str(path), status.st_size, status.st_mtime_ns)
        for path in files
        if (status := path.lstat()) and path.is_file()
    }


def _with_value(section: str, key: str, value: Any) -> str:
    """Return the valid experiment with one other value, as YAML."""
    if section in ROOT_KEYS:
        data = {**_BASE, key: value}
    else:
        data = {**_BASE, section: {**_BASE.get(section, {}), key: value}}
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False)


@contextmanager
def places() -> Iterator[Places]:
    """Yield a home with one sealed trial, and a folder with a pipe, a folder, a large file, ..."""
    with tempfile.TemporaryDirectory(prefix="hostile-") as name:
        folder = Path(name)
        home = Home(folder / "home")
        sweep = a_sweep(home)
        files = folder / "files"
        files.mkdir()
        os.mkfifo(files / "pipe.yaml")
        (files / "folder.yaml").mkdir()
        (files / "text").write_text("not a folder")
        (files / "zero.yaml").symlink_to("/dev/zero")
        with (files / "large.yaml").open("wb") as large:
            large.truncate(2**40)
        yield Places(
            home,
            files,
            {
                "sweep": sweep.sweep_id,
                "file": str(files / "case.yaml"),
                "pipe": str(files / "pipe.yaml"),
                "folder": str(files / "folder.yaml"),
                "text": str(files / "text"),
                "zero": str(files / "zero.yaml"),
                "large": str(files / "large.yaml"),
                "long": "x" * 300 + ".yaml",
                "deep": "x/" * 3000 + "x.yaml",
            },
        )


def a_sweep(home: Home) -> SweepFolder:
    """Return a sweep of two trials, of which the first is sealed; nothing is measured."""
    sweep = new_sweep(
        home,
        "quick",
        Overrides(
            {
                "acks": ("all", 1),
                "partitions": (1,),
                "replication.factor": (3,),
                "fault": ("none",),
                "enable.idempotence": (False,),
                "broker.session.timeout.ms": (3500,),
            },
            controls=False,
        ),
    )
    first = sweep.plan().trials[0]
    sweep.partial(first.trial_id).mkdir()
    seal(sweep.partial(first.trial_id), sweep.trial(first.trial_id), record_of(first), no_rows())
    return sweep
