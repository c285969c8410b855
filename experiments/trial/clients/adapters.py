"""The adapters: programs that come with ackbench, each for one client library in any release.

An adapter is a folder of `adapters/`, with a description, its source and a command that builds it
with a release of its library (`adapters/README.md`). What was built is kept in the home's cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import ClientLibraryError, ExperimentError
from ackbench.experiments.messages.phrases import format_list, format_value
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.files import exclusive_lock, replace_file
from ackbench.infra.machine.home import REPOSITORY
from ackbench.infra.process.log_tail import last_lines

ADAPTERS: Final = REPOSITORY / "adapters"
_DESCRIPTION: Final = "adapter.json"
_BUILT: Final = "built.json"
"""Is written last: without it, a folder of the cache is a build that was interrupted."""
_BUILD_TIMEOUT_S: Final = 900.0
_RELEASE: Final = re.compile(
    r"\d{1,4}(\.\d{1,6}){1,3}([.-]?(a|b|rc|alpha|beta)\.?\d{1,3})?", re.ASCII
)


class Adapter(Frozen):
    """An adapter's description."""

    library: str
    """The client library, as its own registry names it."""
    language: str
    version: str
    """The release that is tested unless an experiment names another one."""
    oldest: str
    """The oldest release that the adapter works with."""
    toolchain: tuple[str, ...] = ()
    """Programs that building and running need."""
    producer: dict[str, str] = Field(default_factory=dict)
    """The producer's properties that the library has, with its own defaults; empty: none."""
    consumer: dict[str, str] = Field(default_factory=dict)
    """The same of the consumer."""
    leader_lookup_ms: float = 0
    """How much later than Java's client it may ask for a new leader, whatever its settings."""


@cache  # the files belong to the installation
def adapters() -> Mapping[ClientKind, Adapter]:
    """Return the adapters by the kind of client that each is, sorted."""
    found = sorted(ADAPTERS.glob(f"*/{_DESCRIPTION}"))
    return MappingProxyType(
        {path.parent.name: Adapter.model_validate_json(path.read_bytes()) for path in found}
    )


def check_release(kind: ClientKind, version: str) -> None:
    """Check that a release of an adapter's library may be asked for.

    Raises:
        ExperimentError: it is not a release, or older than the adapter works with.
    """
    adapter = adapters()[kind]
    if _RELEASE.fullmatch(version) is None or _numbers(version) < _numbers(adapter.oldest):
        raise ExperimentError(
            f"client.version is {format_value(version)}; allowed with client {kind}: a release of "
            f"{adapter.library} from {adapter.oldest} on, such as {adapter.version}"
        )


def missing_toolchain(kind: ClientKind) -> tuple[str, ...]:
    """Return which programs an adapter needs and this machine does not have."""
    return tuple(name for name in adapters()[kind].toolchain if shutil.which(name) is None)


def built_command(
    home_cache: Path,
    kind: ClientKind,
    version: str | None,
    notify: Callable[[str], object] | None = None,
) -> tuple[str, ...]:
    """Return the command of an adapter; build it with the release if it is not in the cache.

    Args:
        home_cache: the home's cache folder.
        kind: the adapter.
        version: the release of its library; `None`: that of its lock.
        notify: gets a line before it is built.

    Raises:
        MachineError: a program that building needs is missing.
        ClientLibraryError: it could not be built; with the last line of the build.
    """
    release = version or adapters()[kind].version
    folder = home_cache / "adapters" / f"{kind}-{release}-{_digest_of_source(kind)}"
    built = folder / _BUILT
    if not built.is_file():
        with exclusive_lock(folder):
            if not built.is_file():
                if notify:
                    notify(f"building the client {kind} {release} (once; up to a minute)")
                _build(folder, kind, release)
    return (str(folder / "run"),)


def _build(folder: Path, kind: ClientKind, version: str) -> None:
    missing = missing_toolchain(kind)
    if missing:
        raise MachineError(
            f"client {kind} needs {format_list(missing)}, which PATH does not have "
            "(`ackbench doctor` lists the adapters and what each needs)"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_name(f"{folder.name}.log")
    with log.open("wb") as output:
        try:
            ran = subprocess.run(
                ["bash", str(ADAPTERS / kind / "build"), version, str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=_BUILD_TIMEOUT_S,
                check=False,
            )
            failed = "" if ran.returncode == 0 else f"exit code {ran.returncode}"
        except subprocess.TimeoutExpired:
            failed = f"no end within {_BUILD_TIMEOUT_S:g} s"
    if not failed and not os.access(folder / "run", os.X_OK):
        failed = "it made no program"
    if failed:
        shutil.rmtree(folder, ignore_errors=True)
        reason = "".join(last_lines(log, 1))[:300] or "it printed nothing"
        raise ClientLibraryError(
            f"client {kind} {version} could not be built ({failed}): {reason}; its log: {log}"
        )
    replace_file(folder / _BUILT, adapters()[kind].model_dump_json())


@cache
def _digest_of_source(kind: ClientKind) -> str:
    """Return a digest of an adapter's files and of those that adapters share."""
    digest = hashlib.sha256()
    for path in sorted(ADAPTERS.rglob("*")):
        place = path.relative_to(ADAPTERS)
        of_another = place.parts[0] in adapters() and place.parts[0] != kind
        if path.is_file() and not of_another and "__pycache__" not in place.parts:
            digest.update(f"{place}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])
