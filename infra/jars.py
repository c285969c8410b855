"""Kafka's jars: resolved once by the Ivy that PySpark brings, held against a list of digests, and kept in the cache.

`infra/ivy/kafka-<version>.xml` says what is wanted, `kafka-<version>.sha256` what that came to, one `<sha256> <bytes> <name>` a line.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra import trust
from infra.errors import HarnessError, MachineError
from infra.exclusive import exclusively
from infra.jvm import java, java_environment

_IVY: Final = Path(__file__).with_name("ivy")
_RESOLVE_TIMEOUT_S: Final = 900.0


@dataclass(frozen=True)
class LockedJar:
    """One jar as the list has it."""

    sha256: str
    size_bytes: int
    name: str


def kafka_versions() -> tuple[str, ...]:
    """Return the Kafka versions that have a list of jars."""
    return tuple(sorted(path.stem.removeprefix("kafka-") for path in _IVY.glob("kafka-*.sha256")))


def locked_jars(version: str) -> tuple[LockedJar, ...]:
    """Return the jars that the version needs.

    Raises:
        MachineError: there is no list for it.
    """
    try:
        lines = (_IVY / f"kafka-{version}.sha256").read_text().splitlines()
    except FileNotFoundError as error:
        raise MachineError(f"no jars are listed for Kafka {version}: known are {', '.join(kafka_versions())}") from error
    return tuple(LockedJar(sha256, int(size), name) for sha256, size, name in (line.split() for line in lines))


def jars_folder(cache: Path, version: str) -> Path:
    """Where the version's jars lie, once they are there."""
    return cache / "jars" / version


def kafka_jars(cache: Path, version: str) -> tuple[Path, ...]:
    """Return the version's jars; resolve them first when they are not all there, which needs the network.

    Raises:
        MachineError: the version is not known, or its jars cannot be had from here.
    """
    locked, folder = locked_jars(version), jars_folder(cache, version)
    if not _are_there(folder, locked):
        with exclusively(folder):
            if not _are_there(folder, locked):
                _resolve(cache, version, locked)
    return tuple(folder / jar.name for jar in locked)


def are_kafka_jars_there(cache: Path, version: str) -> bool:
    """Whether every jar of the version lies in the cache at its full size; asks no network."""
    return _are_there(jars_folder(cache, version), locked_jars(version))


def _are_there(folder: Path, locked: tuple[LockedJar, ...]) -> bool:
    """The digests were held against when the folder was made; afterwards names and sizes do, at no cost."""
    paths = [(folder / jar.name, jar.size_bytes) for jar in locked]
    return all(path.is_file() and path.stat().st_size == size_bytes for path, size_bytes in paths)


def _resolve(cache: Path, version: str, locked: tuple[LockedJar, ...]) -> None:
    """Fetch into a partial folder, verify, and only then give it the name that is looked for."""
    target = jars_folder(cache, version)
    with tempfile.TemporaryDirectory(prefix=f".{version}-", dir=target.parent) as partial:
        fetched = Path(partial, "jars")
        _run_ivy(cache, _IVY / f"kafka-{version}.xml", fetched)
        _verify(fetched, locked)
        shutil.rmtree(target, ignore_errors=True)
        fetched.replace(target)


def _run_ivy(cache: Path, ivy_file: Path, fetched: Path) -> None:
    """Run Ivy with the certificates that Python trusts; its pattern's brackets are Ivy's own."""
    store = fetched.parent / "trusted.jks"
    trusted = [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={trust.PASSWORD}"] if trust.write_trust_store(store) else []
    pattern = f"{fetched}/[artifact]-[revision].[ext]"
    command = [
        str(java()),
        *trusted,
        "-jar",
        str(_ivy_jar()),
        "-cache",
        str(cache / "ivy"),
        "-ivy",
        str(ivy_file),
        "-types",
        "jar",
        "bundle",
        "-retrieve",
        pattern,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_RESOLVE_TIMEOUT_S, check=False, env=java_environment())
    if ran.returncode != 0 or not fetched.is_dir():
        log = cache / "ivy.log"
        log.write_text(ran.stdout + ran.stderr)
        raise MachineError(f"{ivy_file.stem}: its jars cannot be resolved from here ({_reason(ran.stdout)}): is Maven Central within reach? See {log}")


def _reason(output: str) -> str:
    """The first line of Ivy's report that names an error."""
    lines = [line.strip() for line in output.splitlines()]
    return next((line for line in lines if "error" in line.lower() and "::::" not in line), "no reason was given")[:300]


def _ivy_jar() -> Path:
    import pyspark

    found = sorted(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise HarnessError("PySpark's package holds no jars/ivy-*.jar: run `make setup` again")
    return found[-1]


def _verify(folder: Path, locked: tuple[LockedJar, ...]) -> None:
    there = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    wrong = sorted(there.items() ^ {(jar.name, jar.sha256) for jar in locked})
    if wrong:
        raise MachineError(f"resolved jars differ from the list of digests: {', '.join(sorted({name for name, _ in wrong}))}")
