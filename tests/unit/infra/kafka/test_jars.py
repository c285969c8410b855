"""The jars of a Kafka version: allowed versions, and when a folder of jars is complete."""

import os
import ssl
import sys
from pathlib import Path

import pytest

from ackbench.infra.errors import InputError, MachineError
from ackbench.infra.kafka import jars


@pytest.mark.parametrize("version", ["2.7.2", "4.3", "newest", "4.3.1-rc0", ""])
def test_a_version_before_2_8_or_an_invalid_one_is_refused(tmp_path: Path, version: str) -> None:
    """Nothing is fetched."""
    with pytest.raises(InputError, match=r"allowed: a released version from 2\.8\.0 on"):
        jars.kafka_jars(tmp_path, version)


def test_an_unverified_version_uses_the_checksums_that_were_recorded(tmp_path: Path) -> None:
    """They are stored next to the jars, and show later which jars they were."""
    folder = jars.jars_folder(tmp_path, "4.9.9")
    folder.mkdir(parents=True)
    (folder / "kafka.jar").write_bytes(b"jar")
    checksums = jars.unverified_checksums(tmp_path, "4.9.9")
    assert checksums is not None
    assert not jars.has_cached_jars(tmp_path, "4.9.9")
    checksums.write_text(jars.checksum_list(folder))
    assert jars.kafka_jars(tmp_path, "4.9.9") == (folder / "kafka.jar",)


def test_a_shipped_version_has_a_verified_list_of_jars() -> None:
    """Each list has a broker, its tools and one binding for the log."""
    for version in jars.shipped_versions():
        names = {jar.name for jar in jars.locked_jars(version)}
        assert {f"kafka_2.13-{version}.jar", f"kafka-tools-{version}.jar"} <= names
        assert (
            len([name for name in names if name.startswith(("slf4j-reload4j", "log4j-slf4j"))]) == 1
        )


def test_a_folder_with_a_truncated_jar_is_incomplete(tmp_path: Path) -> None:
    """The size of each jar is compared with the list."""
    folder = jars.jars_folder(tmp_path, "4.3.1")
    folder.mkdir(parents=True)
    for jar in jars.locked_jars("4.3.1"):
        (folder / jar.name).open("wb").truncate(jar.size_bytes)
    assert jars.has_cached_jars(tmp_path, "4.3.1")
    next(folder.iterdir()).open("wb").close()
    assert not jars.has_cached_jars(tmp_path, "4.3.1")


def test_the_certificates_that_python_trusts_are_those_that_are_asked(tmp_path: Path) -> None:
    """Behind a company's proxy its own is among them."""
    certificates = tmp_path / "trusted.pem"
    trusted = ssl.create_default_context().get_ca_certs(binary_form=True)
    if not jars._write_trusted_certificates(certificates):
        assert trusted == []
        return
    again = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    again.load_verify_locations(certificates)

    assert sorted(again.get_ca_certs(binary_form=True)) == sorted({*trusted})


def ending_with(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have a Python program run in place of the resolver."""
    monkeypatch.setattr(jars, "module_command", lambda *_: [sys.executable, "-c", program])


def test_what_cannot_be_fetched_is_one_line_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has all of it, and no folder of jars is left."""
    ending_with(monkeypatch, "import sys; print('a warning', file=sys.stderr); sys.exit('gone')")

    with pytest.raises(MachineError, match=r"jars of Kafka 4\.3\.1: gone; check that") as raised:
        jars.kafka_jars(tmp_path, "4.3.1")

    assert "\n" not in str(raised.value)
    assert (tmp_path / "jars.log").read_text() == "a warning\ngone\n"
    assert not jars.jars_folder(tmp_path, "4.3.1").exists()


def test_a_download_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process, too."""
    pid = tmp_path / "pid"
    program = f"import os, pathlib, time; pathlib.Path({str(pid)!r}).write_text(str(os.getpid())); "
    ending_with(monkeypatch, f"{program}time.sleep(600)")
    monkeypatch.setattr(jars, "_RESOLVE_TIMEOUT_S", 5.0)

    with pytest.raises(MachineError, match="no end after 5 s"):
        jars.kafka_jars(tmp_path, "4.3.1")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_jar_that_differs_from_the_verified_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of what was fetched is kept."""
    fetched = "import pathlib, sys; folder = pathlib.Path(sys.argv[1]); folder.mkdir(); "
    program = f"{fetched}(folder / 'kafka-clients-4.3.1.jar').write_text('other')"
    monkeypatch.setattr(
        jars, "module_command", lambda *words: [sys.executable, "-c", program, words[2]]
    )

    with pytest.raises(MachineError, match=r"differ from the verified list.*kafka-clients-4\.3\.1"):
        jars.kafka_jars(tmp_path, "4.3.1")
    assert not jars.jars_folder(tmp_path, "4.3.1").exists()
