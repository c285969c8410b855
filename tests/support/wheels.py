"""Wheels of confluent-kafka that a test makes, for pip to find without an index."""

from __future__ import annotations

import platform
import zipfile
from pathlib import Path

import pytest

from ackbench.experiments.trial.clients.librdkafka.library_file import installed_library_path


def make_wheel(folder: Path, version: str, library: Path | None) -> Path:
    """Write a wheel of that version; return its path.

    Args:
        folder: where pip looks for wheels.
        version: in the wheel's name and metadata.
        library: librdkafka's file, which is packed with the libraries beside it; `None`: none.
    """
    folder.mkdir(exist_ok=True)
    tag = f"cp39-cp39-manylinux_2_28_{platform.machine()}"
    wheel = folder / f"confluent_kafka-{version}-{tag}.whl"
    info = f"confluent_kafka-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in library.parent.iterdir() if library else ():
            archive.write(path, f"confluent_kafka.libs/{path.name}")
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: confluent-kafka\nVersion: {version}\n",
        )
        archive.writestr(
            f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def use_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip find the wheels of a folder, and nothing else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())


def offer_installed(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Offer the installed library as a wheel of a version; return the wheel."""
    use_only(folder, monkeypatch)
    return make_wheel(folder, version, installed_library_path())
