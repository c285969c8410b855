"""Kafka's jars: resolved with PySpark's Ivy when a version is first needed, then cached.

`ivy/kafka.xml` declares the dependencies. A shipped version has a list of verified jars,
`ivy/kafka-<version>.sha256`, with one line `<sha256> <bytes> <name>` per jar; resolved jars are
compared with it. For any other version such a list is written next to the jars. It records which
jars were used, and that they were not verified.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.errors import HarnessError, MachineError
from ackbench.infra.jvm import runtime
from ackbench.infra.jvm.runtime import java_binary, java_environment
from ackbench.infra.kafka.versions import parse_client_version, parse_version, uses_log4j2
from ackbench.infra.machine.files import exclusive_lock, move_into_place, replace_file
from ackbench.infra.machine.home import INSTALL
from ackbench.infra.machine.scratch import JARS, scratch_folder

_IVY: Final = Path(__file__).with_name("ivy")
_RESOLVE_TIMEOUT_S: Final = 900.0
_MISSING: Final = re.compile(r"UNRESOLVED DEPENDENCIES|\bnot found$|\berror\b", re.IGNORECASE)


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
            (path.stem.removeprefix("kafka-") for path in _IVY.glob("kafka-*.sha256")),
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
    return _parse_list((_IVY / f"kafka-{version}.sha256").read_text())


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
        _run_ivy(cache, version, fetched)
        if recorded is None:
            _verify(fetched, locked_jars(version))
        else:
            replace_file(recorded, checksum_list(fetched))
        shutil.rmtree(target, ignore_errors=True)
        move_into_place(fetched, target)


def checksum_list(folder: Path) -> str:
    """Return the list of a folder's jars by name, in the format of `ivy/kafka-<version>.sha256`."""
    return "".join(
        f"{_digest(jar)} {jar.stat().st_size} {jar.name}\n" for jar in sorted(folder.iterdir())
    )


def _run_ivy(cache: Path, version: str, fetched: Path) -> None:
    """Run Ivy with the certificates that Python trusts."""
    store = fetched.parent / "trusted.jks"
    trusted = (
        [
            f"-Djavax.net.ssl.trustStore={store}",
            f"-Djavax.net.ssl.trustStorePassword={runtime.TRUST_STORE_PASSWORD}",
        ]
        if runtime.write_trust_store(store)
        else []
    )
    arguments = {
        "-cache": str(cache / "ivy"),
        "-ivy": str(_IVY / "kafka.xml"),
        "-confs": "log4j2" if uses_log4j2(version) else "log4j",
        "-retrieve": f"{fetched}/[artifact]-[revision].[ext]",  # a pattern of Ivy
    }
    options = [word for argument in arguments.items() for word in argument]
    command = [
        str(java_binary()),
        *trusted,
        f"-Dkafka.version={version}",
        "-jar",
        str(pyspark_jar("ivy")),
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
            f"cannot resolve the jars of Kafka {version}: {_ivy_error(ran.stdout)}; "
            f"check that the version exists and Maven Central is reachable; log: {log}"
        )


def _ivy_error(output: str) -> str:
    """Return the first line of Ivy's report that names what is missing."""
    lines = [line.strip(" :\t") for line in output.splitlines()]
    return next(
        (line for line in lines if _MISSING.search(line) and not line.startswith("UNRESOLVED")),
        "Ivy reported no reason",
    )[:300]


def pyspark_jar(name: str) -> Path:
    """Return a jar that PySpark brings, such as `ivy` or `janino`.

    Raises:
        HarnessError: PySpark has no such jar.
    """
    import pyspark

    jars = sorted(Path(pyspark.__file__).parent.glob(f"jars/{name}-[0-9]*.jar"))
    if not jars:
        raise HarnessError(f"PySpark has no jars/{name}-*.jar: {INSTALL} installs it")
    return jars[-1]


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
