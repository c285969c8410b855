"""librdkafka of other versions: fetched once, tried out, recognized by its digest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.wheels import make_wheel, offer_installed, use_only

from ackbench.experiments.messages.errors import ClientLibraryError, ExperimentError
from ackbench.experiments.planning.clients.rules import librdkafka_rules
from ackbench.experiments.trial.clients.librdkafka import library, versions
from ackbench.infra.errors import MachineError

INSTALLED = library.version()
ANOTHER_LAYOUT = """
import ctypes
from ackbench.experiments.trial.clients.librdkafka import library
fields = dict(library.Message._fields_)
order = ["err", "rkt", "partition", "key", "key_len", "payload", "len", "offset", "_private"]
class Swapped(ctypes.Structure):
    _fields_ = [(name, fields[name]) for name in order]
library.Message = Swapped
library.require_layout = lambda _: None
from ackbench.experiments.trial.clients.librdkafka import version_probe
version_probe.main()
"""


def test_a_version_is_fetched_once_and_described_by_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time neither pip nor the library is started."""
    wheel = offer_installed(tmp_path / "wheels", INSTALLED, monkeypatch)
    assert not versions.is_fetched(tmp_path, INSTALLED)
    known = versions.library_version(tmp_path, INSTALLED)
    assert (known.version, known.wheel, known.lacks) == (INSTALLED, wheel.name, ())
    assert {row[0] for row in known.properties} >= {"acks", "enable.idempotence", "group.id"}
    wheel.unlink()
    assert versions.library_version(tmp_path, INSTALLED) == known


@pytest.mark.further
def test_a_library_that_was_changed_in_the_cache_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest is compared before each use."""
    offer_installed(tmp_path / "wheels", INSTALLED, monkeypatch)
    path = versions.library_path_of(tmp_path, INSTALLED)
    with path.open("ab") as file:
        file.write(b"changed")
    with pytest.raises(ClientLibraryError, match="is not the librdkafka that was fetched"):
        versions.library_version(tmp_path, INSTALLED)


@pytest.mark.further
def test_a_wheel_with_another_version_inside_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial would name a version that it did not run."""
    offer_installed(tmp_path / "wheels", "2.4.0", monkeypatch)
    with pytest.raises(ClientLibraryError, match=f"2.4.0 has librdkafka {INSTALLED}"):
        versions.library_version(tmp_path, "2.4.0")
    assert not versions.is_fetched(tmp_path, "2.4.0")


@pytest.mark.further
def test_a_wheel_without_the_library_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel that links against the system has none."""
    use_only(tmp_path / "wheels", monkeypatch)
    make_wheel(tmp_path / "wheels", "2.4.0", None)
    with pytest.raises(ClientLibraryError, match="has no librdkafka"):
        versions.library_version(tmp_path, "2.4.0")


@pytest.mark.further
def test_a_file_that_is_no_library_is_refused_with_the_loader_s_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line, from the process that tried it."""
    libraries = tmp_path / "libs"
    libraries.mkdir()
    (libraries / "librdkafka-1.so.1").write_bytes(b"no library")
    use_only(tmp_path / "wheels", monkeypatch)
    make_wheel(tmp_path / "wheels", "2.4.0", libraries / "librdkafka-1.so.1")
    with pytest.raises(ClientLibraryError, match=r"2.4.0 cannot be used: .*(file too short|ELF)"):
        versions.library_version(tmp_path, "2.4.0")


@pytest.mark.further
def test_a_version_without_a_wheel_names_those_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typo is corrected from them."""
    use_only(tmp_path / "wheels", monkeypatch)
    make_wheel(tmp_path / "wheels", "2.3.0", None)
    with pytest.raises(ExperimentError, match=r"client.version is 2.4.0; .* wheels of 2.3.0"):
        versions.library_version(tmp_path, "2.4.0")


def test_an_index_that_cannot_be_reached_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what would not need it."""
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(MachineError, match="index cannot be reached") as raised:
        versions.library_version(tmp_path, "2.4.0")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["2.4", "1.4.9", "latest", "2.4.0rc1", "../2.4.0", ""])
def test_a_version_that_is_no_release_is_refused(text: str) -> None:
    """Before anything is fetched; it is part of a path."""
    with pytest.raises(
        ExperimentError, match=r"client.version is .*allowed with client librdkafka"
    ):
        versions.parse_client_version(text)


def test_another_layout_of_a_message_is_found_before_a_trial_reads_it() -> None:
    """Key and value are swapped: the delivery report of the mock cluster shows it."""
    ran = subprocess.run(
        [sys.executable, "-c", ANOTHER_LAYOUT],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode != 0
    assert "its rd_kafka_message_t has another layout" in ran.stderr.splitlines()[-1]


def test_a_function_that_a_version_lacks_is_refused_by_name() -> None:
    """Instead of an AttributeError of ctypes."""
    with pytest.raises(ClientLibraryError, match=f"librdkafka {INSTALLED} has no rd_kafka_dance"):
        library._lacking("rd_kafka_dance")()


def test_until_a_version_is_fetched_the_installed_one_s_properties_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `explain`, which downloads nothing."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    rules = librdkafka_rules("2.4.0")
    assert rules.title == "librdkafka 2.4.0"
    assert rules.producer == librdkafka_rules().producer
