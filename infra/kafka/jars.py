"""Kafka's jars: resolved by the Ivy that PySpark brings, when a version is first needed, and kept in the cache.

`infra/ivy/kafka.xml` says what is wanted. For the versions that we ship, `infra/ivy/kafka-<version>.sha256` says what that came to, one
`<sha256> <bytes> <name>` a line, and what is resolved is held against it. Of any other version such a list is written beside the jars: it
tells later what they were, and that nobody verified them.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.errors import HarnessError, MachineError
from infra.jvm import runtime
from infra.jvm.runtime import java_binary, java_environment
from infra.kafka.versions import parse_version, uses_log4j2
from infra.machine.files import exclusive_lock

_IVY: Final = Path(__file__).with_name("ivy")
_RESOLVE_TIMEOUT_S: Final = 900.0
_MISSING: Final = re.compile(r"UNRESOLVED DEPENDENCIES|\bnot found$|\berror\b", re.IGNORECASE)


@dataclass(frozen=True)
class LockedJar:
    """One jar as a list has it."""

    sha256: str
    size_bytes: int
    name: str


def shipped_versions() -> tuple[str, ...]:
    """Return the Kafka versions that have a list of verified jars, the oldest first."""
    return tuple(
        sorted(
            (path.stem.removeprefix("kafka-") for path in _IVY.glob("kafka-*.sha256")),
            key=parse_version,
        )
    )


def jars_folder(cache: Path, version: str) -> Path:
    """Where a version's jars are kept."""
    return cache / "jars" / version


def unverified_checksums(cache: Path, version: str) -> Path | None:
    """Return the list that was written of what a version came to here; `None` where there is a verified one."""
    return (
        None
        if version in shipped_versions()
        else jars_folder(cache, version).with_name(f"{version}.sha256")
    )


def kafka_jars(cache: Path, version: str) -> tuple[Path, ...]:
    """Return the version's jars; resolve them first when they are not all there, which needs the network.

    Raises:
        InputError: that is no version, or one before 3.9.
        MachineError: its jars cannot be had from here, or are not those of the list.
    """
    parse_version(version)
    folder = jars_folder(cache, version)
    if not has_cached_jars(cache, version):
        with exclusive_lock(folder):
            if not has_cached_jars(cache, version):
                _resolve(cache, version)
    return tuple(folder / jar.name for jar in _listed(cache, version) or ())


def has_cached_jars(cache: Path, version: str) -> bool:
    """Whether every jar of the version lies in the cache at its full size; asks no network.

    The digests were held against when the folder was made; afterwards names and sizes do, at no cost.
    """
    listed, folder = _listed(cache, version), jars_folder(cache, version)
    paths = [(folder / jar.name, jar.size_bytes) for jar in listed or ()]
    return bool(paths) and all(
        path.is_file() and path.stat().st_size == size_bytes for path, size_bytes in paths
    )


def locked_jars(version: str) -> tuple[LockedJar, ...]:
    """Return the verified list of a version that we ship.

    Raises:
        FileNotFoundError: we ship none of it.
    """
    return _read((_IVY / f"kafka-{version}.sha256").read_text())


def _listed(cache: Path, version: str) -> tuple[LockedJar, ...] | None:
    """What a version's jars are; `None`: nobody knows yet."""
    written = unverified_checksums(cache, version)
    if written is None:
        return locked_jars(version)
    return _read(written.read_text()) if written.is_file() else None


def _read(text: str) -> tuple[LockedJar, ...]:
    return tuple(
        LockedJar(sha256, int(size), name)
        for sha256, size, name in (line.split() for line in text.splitlines())
    )


def _resolve(cache: Path, version: str) -> None:
    """Fetch into a partial folder, verify or write down, and only then give it the name that is looked for."""
    target, written = jars_folder(cache, version), unverified_checksums(cache, version)
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=target.parent) as partial:
        fetched = Path(partial, "jars")
        _run_ivy(cache, version, fetched)
        if written is None:
            _verify(fetched, locked_jars(version))
        else:
            written.write_text(checksum_list(fetched))
        shutil.rmtree(target, ignore_errors=True)
        fetched.replace(target)


def checksum_list(folder: Path) -> str:
    """Return the list of a folder's jars, by name, as `infra/ivy/kafka-<version>.sha256` holds it."""
    return "".join(
        f"{_digest(jar)} {jar.stat().st_size} {jar.name}\n" for jar in sorted(folder.iterdir())
    )


def _run_ivy(cache: Path, version: str, fetched: Path) -> None:
    """Run Ivy with the certificates that Python trusts; its pattern's brackets are Ivy's own."""
    store = fetched.parent / "trusted.jks"
    trusted = (
        [
            f"-Djavax.net.ssl.trustStore={store}",
            f"-Djavax.net.ssl.trustStorePassword={runtime.TRUST_STORE_PASSWORD}",
        ]
        if runtime.write_trust_store(store)
        else []
    )
    told = {
        "-cache": str(cache / "ivy"),
        "-ivy": str(_IVY / "kafka.xml"),
        "-confs": "log4j2" if uses_log4j2(version) else "log4j",
        "-retrieve": f"{fetched}/[artifact]-[revision].[ext]",
    }
    options = [word for option in told.items() for word in option]
    command = [
        str(java_binary()),
        *trusted,
        f"-Dkafka.version={version}",
        "-jar",
        str(_ivy_jar()),
        *options,
        "-types",
        "jar",
        "bundle",
    ]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_RESOLVE_TIMEOUT_S,
        check=False,
        env=java_environment(),
    )
    if ran.returncode != 0 or not fetched.is_dir():
        log = cache / "ivy.log"
        log.write_text(ran.stdout + ran.stderr)
        raise MachineError(
            f"the jars of Kafka {version} cannot be resolved from here ({_reason(ran.stdout)}): is there such a version? See {log}"
        )


def _reason(output: str) -> str:
    """The first line of Ivy's report that names what is missing."""
    lines = [line.strip(" :\t") for line in output.splitlines()]
    return next(
        (line for line in lines if _MISSING.search(line) and not line.startswith("UNRESOLVED")),
        "no reason was given",
    )[:300]


def _ivy_jar() -> Path:
    import pyspark

    found = sorted(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise HarnessError("PySpark's package holds no jars/ivy-*.jar: run `make setup` again")
    return found[-1]


def _verify(folder: Path, locked: tuple[LockedJar, ...]) -> None:
    there = {path.name: _digest(path) for path in folder.iterdir()}
    wrong = sorted(there.items() ^ {(jar.name, jar.sha256) for jar in locked})
    if wrong:
        raise MachineError(
            f"resolved jars differ from the list of digests: {', '.join(sorted({name for name, _ in wrong}))}"
        )


def _digest(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()
