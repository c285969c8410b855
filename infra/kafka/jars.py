"""Kafka's jars: resolved when a version is first needed, then cached.

A shipped version has a list of verified jars, `jar_lists/kafka-<version>.sha256`, with one line
`<sha256> <bytes> <name>` per jar; resolved jars are compared with it. For any other version such a
list is written next to the jars. It records which jars were used, and that they were not verified.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.errors import MachineError
from ackbench.infra.kafka.versions import parse_client_version, parse_version
from ackbench.infra.machine.files import exclusive_lock, move_into_place, replace_file
from ackbench.infra.machine.scratch import JARS, scratch_folder
from ackbench.infra.process.log_tail import last_line
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.start import module_command

_LISTS: Final = Path(__file__).with_name("jar_lists")
_RESOLVE_TIMEOUT_S: Final = 900.0
_SHORTENED: Final = 300
"""Characters of a reason."""


@dataclass(frozen=True)
class LockedJar:
    """One jar of a list of jars."""

    sha256: str
    size_bytes: int
    name: str


def shipped_versions() -> tuple[str, ...]:
    """Return the Kafka versions that have a list of verified jars, the oldest first."""
    return tuple(
        sorted(
            (path.stem.removeprefix("kafka-") for path in _LISTS.glob("kafka-*.sha256")),
            key=parse_version,
        )
    )


def jars_folder(cache: Path, version: str) -> Path:
    """Return the cache folder of a version's jars."""
    return cache / "jars" / version


def unverified_checksums(cache: Path, version: str) -> Path | None:
    """Return the file with a version's recorded jars; `None`: it has a verified list."""
    return (
        None
        if version in shipped_versions()
        else jars_folder(cache, version).with_name(f"{version}.sha256")
    )


def kafka_jars(cache: Path, version: str) -> tuple[Path, ...]:
    """Return the version's jars. Resolving jars that are not cached needs the network.

    Raises:
        InputError: it is not a release, or before 2.8.
        MachineError: the jars cannot be resolved, or differ from the verified list.
    """
    parse_client_version(version)
    folder = jars_folder(cache, version)
    if not has_cached_jars(cache, version):
        with exclusive_lock(folder):
            if not has_cached_jars(cache, version):
                _resolve(cache, version)
    return tuple(folder / jar.name for jar in _known_jars(cache, version) or ())


def has_cached_jars(cache: Path, version: str) -> bool:
    """Return whether every jar of the version is cached with its full size. Offline.

    The digests were compared when the folder was created; comparing names and sizes is cheap.
    """
    known, folder = _known_jars(cache, version), jars_folder(cache, version)
    paths = [(folder / jar.name, jar.size_bytes) for jar in known or ()]
    return bool(paths) and all(
        path.is_file() and path.stat().st_size == size_bytes for path, size_bytes in paths
    )


def locked_jars(version: str) -> tuple[LockedJar, ...]:
    """Return the verified list of a shipped version.

    Raises:
        FileNotFoundError: the version is not a shipped one.
    """
    return _parse_list((_LISTS / f"kafka-{version}.sha256").read_text())


def _known_jars(cache: Path, version: str) -> tuple[LockedJar, ...] | None:
    """Return a version's jars; `None`: never resolved, and not a shipped version."""
    recorded = unverified_checksums(cache, version)
    if recorded is None:
        return locked_jars(version)
    return _parse_list(recorded.read_text()) if recorded.is_file() else None


def _parse_list(text: str) -> tuple[LockedJar, ...]:
    return tuple(
        LockedJar(sha256, int(size), name)
        for sha256, size, name in (line.split() for line in text.splitlines())
    )


def _resolve(cache: Path, version: str) -> None:
    """Resolve into a temporary folder, verify or record the jars, and rename the folder."""
    target, recorded = jars_folder(cache, version), unverified_checksums(cache, version)
    with scratch_folder(cache, JARS) as partial:
        fetched = partial / "jars"
        _fetch(cache, version, fetched)
        if recorded is None:
            _verify(fetched, locked_jars(version))
        else:
            replace_file(recorded, checksum_list(fetched))
        shutil.rmtree(target, ignore_errors=True)
        move_into_place(fetched, target)


def checksum_list(folder: Path) -> str:
    """Return the list of a folder's jars by name, in the format of `jar_lists`."""
    return "".join(
        f"{_digest(jar)} {jar.stat().st_size} {jar.name}\n" for jar in sorted(folder.iterdir())
    )


def _fetch(cache: Path, version: str, fetched: Path) -> None:
    """Have the jars fetched, with the certificates that Python trusts.

    Raises:
        MachineError: a jar is missing or cannot be fetched, with the reason.
    """
    certificates = fetched.parent / "trusted.pem"
    environment = {**os.environ}
    if _write_trusted_certificates(certificates):
        environment.setdefault("REQUESTS_CA_BUNDLE", str(certificates))
    arguments = (version, str(fetched), str(fetched.parent / "repository"))
    process = spawn_dying_with_parent(
        module_command("ackbench.infra.kafka.jar_resolver", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        _, output = process.communicate(timeout=_RESOLVE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        output = f"no end after {_RESOLVE_TIMEOUT_S:.0f} s"
    if process.returncode != 0:
        log = cache / "jars.log"
        log.write_text(output)
        raise MachineError(
            f"cannot resolve the jars of Kafka {version}: {last_line(output)[:_SHORTENED]}; check "
            f"that the version exists and Maven Central is reachable; log: {log}"
        )


def _write_trusted_certificates(path: Path) -> bool:
    """Write the certificates that Python trusts, as PEM; return whether there are any.

    Behind a company's proxy, those that come with packages are not sufficient.
    """
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if certificates:
        replace_file(path, "".join(map(ssl.DER_cert_to_PEM_cert, certificates)))
    return bool(certificates)


def _verify(folder: Path, locked: tuple[LockedJar, ...]) -> None:
    resolved = {path.name: _digest(path) for path in folder.iterdir()}
    different = sorted(resolved.items() ^ {(jar.name, jar.sha256) for jar in locked})
    if different:
        raise MachineError(
            "the resolved jars differ from the verified list of digests: "
            + ", ".join(sorted({name for name, _ in different}))
        )


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()
