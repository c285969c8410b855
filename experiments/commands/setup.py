"""`ackbench setup`: jars, start-up caches, compiled clients, MLflow's database.

A second call finds everything and returns at once. A sweep in a home that was not set up by this
version calls it first, and says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.phrases import format_bytes
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.orchestration.tracking.store import database_of_store, ensure_store
from ackbench.experiments.results.spark_job import ensure_spark_ready
from ackbench.experiments.trial.clients.librdkafka.code_cache import cache_folder
from ackbench.infra.cluster.setup import ensure_jars, ensure_kafka_ready
from ackbench.infra.errors import MachineError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.files import folder_bytes, replace_file
from ackbench.infra.machine.home import INSTALL, SET_UP_FILE, Home
from ackbench.infra.machine.resources import MIB, this_machine
from ackbench.infra.process.load_lock import hold_machine_lock_for_command
from ackbench.infra.start import RUN_PACKAGES

COMPILED_MODULES: Final = (
    "ackbench.experiments.trial.clients.consumer.loop",
    "ackbench.experiments.trial.clients.producer.loop",
)
"""Importing them compiles what the clients run, into Numba's cache."""
_COMPILED: Final = "compiled"
"""The file in the cache that marks the compiled code as complete."""
_HOME_BYTES: Final = 320 * MIB
"""Of a home that is set up, at most: 264 MiB were measured in between, 209 MiB at the end."""
Say = Callable[[str], None]


class SetUp(Frozen):
    """What has set up a home; another version or Python makes a set-up necessary again."""

    ackbench: str
    python: str

    @classmethod
    def of_this_process(cls) -> SetUp:
        """Return what this process would record."""
        return cls(ackbench=version("ackbench"), python=platform.python_version())


def setup(home: Home) -> int:
    """Make what is missing, and print each step, the time it took, and the size of the home.

    Raises:
        MachineError: packages are missing, the home cannot be written, or as `make_ready`.
        HarnessError: as `make_ready`.
    """
    home.ensure_writable()
    begin_s = time.monotonic()
    _say(f"the home is {home.root}")
    made = make_ready(home, _say)
    took = f"{time.monotonic() - begin_s:.0f} s" if made else "nothing was missing"
    _say(f"ready ({took}); {format_bytes(folder_bytes(home.root))} in {home.root}")
    return 0


def ensure_set_up(home: Home, say: Say) -> None:
    """Set up a home that this version has not set up yet, before a sweep would wait for it.

    Args:
        home: the home.
        say: called with one line before the set-up and for each of its steps that takes long.

    Raises:
        MachineError: as `setup`, also if the home is set up.
        HarnessError: as `make_ready`.
    """
    require_run_packages()  # of this installation: another one may have set up the home
    found, wanted = set_up_of(home), SetUp.of_this_process()
    if found == wanted:
        return
    began = False

    def announce(text: str) -> None:
        nonlocal began
        if not began:
            began = True
            before = f"by ackbench {found.ackbench} on Python {found.python}" if found else "yet"
            say(
                f"the home {home.root} was not set up "
                + (f"by ackbench {wanted.ackbench} but {before}" if found else before)
                + ": setting it up first (once; `ackbench setup` does the same)"
            )
        say(text)

    make_ready(home, announce)


def set_up_of(home: Home) -> SetUp | None:
    """Return what has set up a home; `None`: nothing, or an earlier version that left no record.

    Raises:
        MachineError: a later version of ackbench has set it up: its databases may be of a form that
            this one does not know.
    """
    path = home.root / SET_UP_FILE
    try:
        found = SetUp.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    this = version("ackbench")
    if _parts(found.ackbench) > _parts(this):
        raise MachineError(
            f"the home {home.root} was set up by ackbench {found.ackbench}, this is {this}: "
            "install that version, or set ACKBENCH_HOME to another folder"
        )
    return found


def _parts(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def make_ready(home: Home, say: Say) -> bool:
    """Make everything that a sweep would otherwise wait for, and record that it is made.

    Args:
        home: the home whose cache and databases are filled.
        say: called with one line before each step that takes long, and after it.

    Returns:
        Whether anything was missing.

    Raises:
        MachineError: packages are missing, the disk has too little space, jars cannot be fetched,
            `ACKBENCH_JAVA_HOME` is not a JVM, or a later version has set up the home.
        HarnessError: a training run for a start-up cache failed.
        ClientLibraryError: librdkafka was not found, or has a version that is not verified.
    """
    require_run_packages()
    if set_up_of(home) != SetUp.of_this_process():
        _require_disk(home)
    spec, taking = ClusterSpec(), threading.Lock()
    with ExitStack() as held, ThreadPoolExecutor(max_workers=2) as background:

        @contextmanager
        def load() -> Iterator[None]:
            """Hold the machine lock from the first training on: both run at the same time."""
            with taking:
                held.enter_context(hold_machine_lock_for_command(home, "set-up", echo_error))
            yield

        def ensure_kafka(announce: Say) -> None:
            fetched.result()
            ensure_kafka_ready(home.cache, spec, announce, load)

        steps: tuple[Callable[[Say], None], ...] = (
            lambda announce: ensure_spark_ready(home, announce, load),
            ensure_compiled,
            lambda announce: _ensure_mlflow_store(home, announce),
            ensure_kafka,
        )
        first, *others = (
            partial(_made, step, _with_place(say, f"{number} of {len(steps)}"))
            for number, step in enumerate(steps, 1)
        )
        # Fetching waits for the network most of the time, and the other steps do not need it. The
        # longest step runs beside them.
        fetched = background.submit(ensure_jars, home.cache, spec.kafka_version, say)
        longest = background.submit(first)
        made = []
        for step in others:
            if fetched.done():
                fetched.result()  # an error ends the set-up at once
            made.append(step())
        made.append(longest.result())
    replace_file(home.root / SET_UP_FILE, SetUp.of_this_process().model_dump_json())
    return any(made)


def _require_disk(home: Home) -> None:
    """Check that the disk has space for what is missing in the cache.

    A JVM whose start-up cache does not fit says nothing: the set-up would wait for minutes.
    """
    needed_bytes = max(0, _HOME_BYTES - folder_bytes(home.cache))
    free_bytes = this_machine(home.root).disk_bytes
    if free_bytes < needed_bytes:
        raise MachineError(
            f"the disk of {home.root} has {format_bytes(free_bytes)} free, the set-up takes up to "
            f"{format_bytes(needed_bytes)}: free space, or set ACKBENCH_HOME to a folder on "
            "another disk; the next call goes on with what is there"
        )


def _with_place(say: Say, place: str) -> Say:
    """Return a function that says a line with the step's place among all steps before it."""
    return lambda text: say(f"{place}: {text}")


def _made(step: Callable[[Say], None], say: Say) -> bool:
    """Do a step, say how long it took if it had anything to do, and return whether it had."""
    announced: list[str] = []

    def announce(text: str) -> None:
        announced.append(text)
        say(text)

    begin_s = time.monotonic()
    step(announce)
    if announced:
        say(f"done ({time.monotonic() - begin_s:.0f} s)")
    return bool(announced)


def require_run_packages() -> None:
    """Check that the packages are installed with which clusters and sweeps are run.

    Raises:
        MachineError: this is the light installation; the message names the remedy.
    """
    missing = [name for name in RUN_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise MachineError(
            f"this installation has no {', '.join(missing)}, so it reads sweeps but runs none: "
            f"{INSTALL} installs what is missing"
        )


def _ensure_mlflow_store(home: Home, announce: Say) -> None:
    if not database_of_store(home).is_file():
        announce("making MLflow's database (once; about 10 seconds)")
    ensure_store(home, announce)


def ensure_compiled(say: Say) -> None:
    """Compile the clients' loops into the cache, unless they are there.

    Args:
        say: called with one line before the compiling.

    Raises:
        ClientLibraryError: librdkafka was not found, or has a version that is not verified.
        OSError: the cache cannot be written.
    """
    done = cache_folder() / _COMPILED
    if done.exists():
        return
    say("compiling the clients (once; about 10 seconds)")
    for module in COMPILED_MODULES:
        importlib.import_module(module)
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()


def _say(text: str) -> None:
    echo(f"setup: {text}")
