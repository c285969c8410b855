"""A test leaves its process as it found it; one that does not fails by name.

Otherwise the next test passes or fails by what ran before it. A test is compared from before the
first to after the last of its own fixtures: environment, working folder, mask of new files, signal
handlers, Python's path, the root logger; threads, child processes, open files of the test's own
folder, temporary files. A file is compared from its first to its last test: fixtures of a module or
of the session may keep a browser or a cluster for later tests, but no variable for another file.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.waiting import wait_until

State = Mapping[str, Mapping[object, object]]
_SETTINGS: Final = pytest.StashKey[State]()
_END_S: Final = "leftovers_end_s"
"""The option with the time for a thread or a child that is about to end."""
_PYTESTS: Final = "PYTEST_CURRENT_TEST"
_COLUMNS: Final = 300
_KEPT: Final = (
    "settings_check_main",
    "fork_server_main",
    "InProcessExecutionAPI-loop",
    "mlflow.db",
    " kafka.Kafka ",
    "spawner",
)
"""One per process for all later uses: ackbench's two helpers and its thread that starts processes,
a thread of Airflow, and the connections that MLflow pools. Brokers are a fixture's, also if a test
has started them again.
"""


_HANDLED: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGSEGV, signal.SIGALRM),
)
"""The signals that ackbench's commands and tasks handle, and those of Airflow's parser."""


def settings_of_process() -> State:
    """Return what decides how later code of this process behaves."""
    root = logging.getLogger()
    return {
        "environment": {name: value for name, value in os.environ.items() if name != _PYTESTS},
        "working folder": {"": _working_folder()},
        "mask of new files": {"": _mask_of_new_files()},
        "handler of signal": {
            number.name: signal.getsignal(number)
            for number in signal.valid_signals()
            if isinstance(number, signal.Signals) and number != signal.SIGALRM  # pytest-timeout's
        },
        "Python's path": dict.fromkeys(sys.path, "there"),
        "root logger": {"level": root.level, "disabled": logging.root.manager.disable}
        | {f"handler {type(each).__name__}": "there" for each in root.handlers if not _own(each)},
    }


def _own(handler: logging.Handler) -> bool:
    """Return whether a handler is pytest's, or that of a library's call of `logging.info`.

    py4j calls it when a JVM has gone away while it sends a command, in whichever test runs then.
    The first such call in a process adds a handler with the basic format. The project's own code
    never logs to the root logger (ruff's LOG015).
    """
    basic = handler.formatter is not None and handler.formatter._fmt == logging.BASIC_FORMAT
    return basic or type(handler).__module__.startswith("_pytest")


def resources_of_process(folder: Path) -> State:
    """Return what is still running or open; of open files those below a folder."""
    threads = {each.ident: each.name for each in threading.enumerate()}
    temporary = Path(tempfile.gettempdir()).iterdir()
    return {
        "thread": _without_kept(threads),
        "child process": _without_kept(dict(_children())),
        "open file": _without_kept(dict(_open_files(folder))),
        "temporary file": {path.name: "there" for path in temporary},
    }


def _without_kept(running: Mapping[Any, str]) -> Mapping[object, object]:
    return {key: name for key, name in running.items() if not any(map(name.count, _KEPT))}


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "deleted"


def _mask_of_new_files() -> str:
    status = Path("/proc/self/status").read_text()
    return next(line.split()[1] for line in status.splitlines() if line.startswith("Umask"))


def _children() -> Iterator[tuple[str, str]]:
    """Yield pid and command of each child; an ended one that nobody waited for is a child too."""
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            for pid in (task / "children").read_text().split():
                yield pid, command_of(Path("/proc", pid)) or "ended, and not waited for"


def command_of(process: Path) -> str:
    """Return the command line of a process, its folder in /proc; empty if it has ended.

    One that runs another program has none for a moment (execve(2)).
    """
    while True:
        command = (process / "cmdline").read_bytes()
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        if command or state == "Z":
            return command.replace(b"\0", b" ").decode(errors="replace")


def _open_files(folder: Path) -> Iterator[tuple[str, str]]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if (target := descriptor.readlink()).is_relative_to(folder):
                yield descriptor.name, str(target)


def differences(before: State, after: State) -> list[str]:
    """Return one line for each thing that was added, removed or changed."""
    return [
        f"{kind} {name}: {old.get(name, 'absent')!r} -> {new.get(name, 'absent')!r}"[:_COLUMNS]
        for kind, old in before.items()
        for new in [after[kind]]
        for name in {**old, **new}
        if old.get(name, "absent") != new.get(name, "absent")
    ]


def _fail_with(who: str, lines: Sequence[str]) -> None:
    if lines:
        text = f"{who} does not leave what it found:\n" + "\n".join(lines)
        pytest.fail(text, pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option to `pyproject.toml` and `-o`."""
    parser.addini(_END_S, "seconds for a thread or a child that is about to end", default="20")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Look before the first fixture of a file."""
    if _SETTINGS not in item.session.stash:
        item.session.stash[_SETTINGS] = settings_of_process()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Look after the last fixture of a file."""
    try:
        yield
    finally:
        is_last = nextitem is None or nextitem.path != item.path
        before = item.session.stash[_SETTINGS]
        if is_last:
            del item.session.stash[_SETTINGS]
    if is_last:
        _fail_with("a fixture of the file", differences(before, settings_of_process()))


@pytest.fixture(autouse=True)
def leaves_process_as_found(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Fail if the test, or a fixture of its own, leaves something changed, running or open."""
    own = tmp_path_factory.getbasetemp() / "none"
    if "tmp_path" in request.fixturenames:
        own = request.getfixturevalue("tmp_path")
    settings, resources = settings_of_process(), resources_of_process(own)
    yield

    def added() -> list[str]:
        lines = differences(resources, resources_of_process(own))
        return [line for line in lines if ": 'absent' -> " in line]

    if added():
        gc.collect()  # objects in cycles close their files
        with suppress(WaitTimeout):
            wait_until(
                lambda: not added(),
                awaiting="the end of what is left",
                timeout_s=float(request.config.getini(_END_S)),
            )
    if changed := differences(settings, settings_of_process()):
        request.session.stash[_SETTINGS] = settings_of_process()  # its file is not to blame
    _fail_with("the test", changed + added())


@contextmanager
def process_of_its_own() -> Iterator[None]:
    """Undo what code does to its process that expects one of its own, as a task of Airflow."""
    variables, mask = dict(os.environ), os.umask(0o022)
    os.umask(mask)
    actions = {number: signal.getsignal(number) for number in _HANDLED}
    try:
        yield
    finally:
        os.umask(mask)
        for number, action in actions.items():
            signal.signal(number, action)
        set_variables(variables)


def set_variables(variables: Mapping[str, str]) -> None:
    """Make these the variables of this process."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


@pytest.fixture
def own_process() -> Iterator[None]:
    """Give a test code that expects a process of its own."""
    with process_of_its_own():
        yield
