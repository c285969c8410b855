"""librdkafka of other versions than the installed one: out of confluent-kafka's wheels.

confluent-kafka ships each release of librdkafka in wheels of the same version. A wheel's Python ABI
is that of the module beside the library: the library itself is loaded by its path, with ctypes, so
that a wheel for any CPython serves. It is fetched once into the home's cache, described by a
process of its own (`version_probe`), and recognized by its digest from then on.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import ClientLibraryError, ExperimentError
from ackbench.experiments.messages.phrases import format_list, format_value, one_line
from ackbench.experiments.trial.clients.librdkafka.library_file import LIBRARY_VARIABLE
from ackbench.experiments.trial.clients.librdkafka.properties import Scope
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.files import exclusive_lock, move_into_place, replace_file
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.scratch import LIBRARIES, scratch_folder
from ackbench.infra.start import module_command

OLDEST: Final = (1, 5, 0)
"""The oldest one whose wheel was tried."""
_RELEASE: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_ABIS: Final = ("3.13", "3.12", "3.11", "3.10", "3.9", "3.8", "3.7")
"""CPython versions whose wheels are asked for, in this order."""
_POLICIES: Final = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux2010")
_DESCRIPTION: Final = "library.json"
_FETCH_TIMEOUT_S: Final = 300.0
_PROBE_TIMEOUT_S: Final = 60.0
_OFFERED: Final = re.compile(r"\(from versions: ([^)]*)\)")
_UNREACHABLE: Final = re.compile(r"Retrying \(|Could not fetch URL|ConnectionError|NewConnection")


class LibraryVersion(Frozen):
    """A fetched library, and what was found out about it when it was fetched."""

    version: str
    """The library's own version string."""
    wheel: str
    """The name of the wheel's file."""
    file: str
    """The library's file, in the folder of its description."""
    sha256: str
    """Of that file."""
    lacks: tuple[str, ...]
    """Functions of the installed version that this one does not have."""
    properties: tuple[tuple[str, Scope, str, str, str | None], ...]
    """The rows of its table of properties, as `properties.table_rows` has them."""


def parse_client_version(version: str) -> tuple[int, int, int]:
    """Return the numbers of a release of librdkafka, such as `(2, 4, 0)`.

    Raises:
        ExperimentError: it is not a release, or before 1.5.0.
    """
    match = _RELEASE.fullmatch(version)
    numbers = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
    if numbers < OLDEST:
        raise ExperimentError(
            f"client.version is {format_value(version)}; allowed with client librdkafka: a release "
            f"from {'.'.join(map(str, OLDEST))} on, such as 2.4.0"
        )
    return numbers


def library_path_of(cache: Path, version: str) -> Path:
    """Return the path of the library of a version; fetch it if it is not in the cache.

    Raises:
        ClientLibraryError, ExperimentError, MachineError: as `library_version`.
    """
    return _folder(cache, version) / library_version(cache, version).file


def library_variables(version: str | None) -> dict[str, str]:
    """Return the variables of a process whose clients have a version; `None`: the installed one.

    Raises:
        ClientLibraryError, ExperimentError, MachineError: as `library_version`.
    """
    if version is None:
        return {}
    return {LIBRARY_VARIABLE: str(library_path_of(Home.from_environment().cache, version))}


def is_fetched(cache: Path, version: str) -> bool:
    """Return whether a version is in the cache. Offline."""
    return (_folder(cache, version) / _DESCRIPTION).is_file()


def library_version(cache: Path, version: str) -> LibraryVersion:
    """Return the library of a version; fetch and describe it if it is not in the cache.

    Raises:
        ExperimentError: there is no such release, or no wheel of it for this platform.
        ClientLibraryError: the cached file is not the one that was described, or the library
            cannot be used: another layout of its messages, another version than its wheel's.
        MachineError: the package index cannot be reached.
    """
    parse_client_version(version)
    folder = _folder(cache, version)
    if not is_fetched(cache, version):
        with exclusive_lock(folder):
            if not is_fetched(cache, version):
                _fetch(cache, version)
    known = _read(folder)
    path = folder / known.file
    if not path.is_file() or _digest(path) != known.sha256:
        raise ClientLibraryError(
            f"{path} is not the librdkafka that was fetched: delete {folder}, and it is fetched "
            "again"
        )
    return known


def _folder(cache: Path, version: str) -> Path:
    return cache / "librdkafka" / version


def _read(folder: Path) -> LibraryVersion:
    try:
        return LibraryVersion.model_validate_json((folder / _DESCRIPTION).read_bytes())
    except (OSError, ValidationError) as error:
        raise ClientLibraryError(
            f"{folder / _DESCRIPTION} cannot be read ({one_line(str(error))[:120]}): delete "
            f"{folder}, and it is fetched again"
        ) from error


def _fetch(cache: Path, version: str) -> None:
    with scratch_folder(cache, LIBRARIES) as partial:
        wheel = _download(partial / "wheels", version)
        unpacked = partial / "library"
        library = _unpack(wheel, unpacked)
        described = _describe(library, version)
        known = LibraryVersion(
            wheel=wheel.name,
            file=str(library.relative_to(unpacked)),
            sha256=_digest(library),
            **described,
        )
        replace_file(unpacked / _DESCRIPTION, known.model_dump_json())
        move_into_place(unpacked, _folder(cache, version))


def _download(folder: Path, version: str) -> Path:
    """Download a wheel with pip, which knows the user's indexes and certificates."""
    folder.mkdir(parents=True)
    machine, offered = platform.machine(), dict[str, None]()
    for abi in _ABIS:
        command = [
            *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"),
            *("--disable-pip-version-check", "--no-input", "--quiet", "--dest", str(folder)),
            *("--implementation", "cp", "--python-version", abi),
            *(word for name in _POLICIES for word in ("--platform", f"{name}_{machine}")),
            f"confluent-kafka=={version}",
        ]
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise MachineError(
                f"librdkafka {version}: no wheel of confluent-kafka within {_FETCH_TIMEOUT_S:g} s"
            ) from error
        if ran.returncode == 0:
            return next(folder.glob("*.whl"))
        if "No module named pip" in ran.stderr:
            raise MachineError(
                f"pip is needed to fetch librdkafka {version}: `{sys.executable} -m ensurepip` "
                "installs it"
            )
        if _UNREACHABLE.search(ran.stderr):
            raise MachineError(
                f"librdkafka {version}: the package index cannot be reached with pip; a version "
                f"that is in the cache of this home needs none ({_last_line(ran.stderr)})"
            )
        match = _OFFERED.search(ran.stderr)
        offered |= dict.fromkeys(match[1].split(", ") if match else [])
    releases = [one for one in offered if _RELEASE.fullmatch(one)]
    known = f"; there are wheels of {format_list(releases)}" if releases else ""
    raise ExperimentError(
        f"client.version is {version}; confluent-kafka has no wheel of it for {machine}{known}"
    )


def _last_line(text: str) -> str:
    return next(reversed([line for line in text.splitlines() if line.strip()]), "")[:200]


def _unpack(wheel: Path, folder: Path) -> Path:
    """Unpack the shared libraries of a wheel; return librdkafka's."""
    with zipfile.ZipFile(wheel) as archive:
        names = [
            name
            for name in archive.namelist()
            if ".so" in Path(name).name and "libs" in Path(name).parent.name
        ]
        for name in names:
            target = folder / Path(name).name  # the base name only: a wheel's paths are not ours
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
    found = sorted(folder.glob("librdkafka*.so*"))
    if not found:
        raise ClientLibraryError(f"{wheel.name} has no librdkafka")
    return found[0]


def _describe(library: Path, version: str) -> Mapping[str, object]:
    """Return what a process of its own finds out about a library, which may crash it."""
    try:
        ran = subprocess.run(
            module_command("ackbench.experiments.trial.clients.librdkafka.version_probe"),
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            env={**os.environ, LIBRARY_VARIABLE: str(library)},
        )
        why = _last_line(ran.stderr) or f"status {ran.returncode}"
    except subprocess.TimeoutExpired:
        ran, why = None, f"no answer within {_PROBE_TIMEOUT_S:g} s"
    if ran is None or ran.returncode != 0:
        raise ClientLibraryError(f"librdkafka {version} cannot be used: {why}")
    described: dict[str, object] = json.loads(ran.stdout)
    if described["version"] != version:
        raise ClientLibraryError(
            f"the wheel confluent-kafka {version} has librdkafka {described['version']}: "
            "a trial would name another version than it ran"
        )
    return described


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
