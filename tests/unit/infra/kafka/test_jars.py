"""The jars of a Kafka version: allowed versions, and when a folder of jars is complete."""

from pathlib import Path

import pytest

from ackbench.infra.errors import InputError
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
