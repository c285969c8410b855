"""Tests of start-up caches: their file names, training and options."""

import os
from pathlib import Path

import pytest

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.jvm.startup_cache import StartupCache, quote_java_options, startup_cache


def test_jars_and_flags_determine_the_file(tmp_path: Path) -> None:
    """The JVM would silently ignore a cache of other jars or flags, and start slowly."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    first = startup_cache(tmp_path, "broker", [jar], ["-Xmx256m"])
    assert startup_cache(tmp_path, "broker", [jar], ["-Xmx256m"]) == first
    assert startup_cache(tmp_path, "broker", [jar], ["-Xmx512m"]).file != first.file
    jar.write_bytes(b"22")
    assert startup_cache(tmp_path, "broker", [jar], ["-Xmx256m"]).file != first.file


def test_a_jar_from_the_archive_of_an_image_has_the_same_cache(tmp_path: Path) -> None:
    """Archives keep the entire seconds of a file's time, and the JVM compares these."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    os.utime(jar, ns=(0, 1_700_000_000_123_456_789))
    first = startup_cache(tmp_path, "broker", [jar], [])
    os.utime(jar, ns=(0, 1_700_000_000_000_000_000))
    assert startup_cache(tmp_path, "broker", [jar], []) == first
    os.utime(jar, ns=(0, 1_700_000_001_000_000_000))
    assert startup_cache(tmp_path, "broker", [jar], []) != first


def test_cache_is_used_after_training_and_replaces_outdated_ones(tmp_path: Path) -> None:
    """The file gets its name only when it is complete."""
    outdated = tmp_path / "broker-old.aot"
    outdated.touch()
    cache = StartupCache("broker", tmp_path / "broker-new.aot", supported=True)
    assert (cache.is_ready, cache.options) == (False, ())
    with cache.training() as (option,):
        Path(option.removeprefix("-XX:AOTCacheOutput=")).write_bytes(b"classes")
    assert (cache.is_ready, cache.options, outdated.exists()) == (
        True,
        (f"-XX:AOTCache={cache.file}",),
        False,
    )


def test_training_that_wrote_no_cache_is_an_error(tmp_path: Path) -> None:
    """This happens when the program is killed instead of stopped."""
    cache = StartupCache("broker", tmp_path / "broker-new.aot", supported=True)
    with (
        pytest.raises(WaitTimeout, match="the start-up cache of broker"),
        cache.training(write_timeout_s=0),
    ):
        pass
    assert not cache.is_ready


def test_java_without_cache_support_is_always_ready(tmp_path: Path) -> None:
    """It gets no option that it does not know, not even for training."""
    cache = StartupCache("broker", tmp_path / "broker.aot", supported=False)
    with cache.training() as options:
        assert options == ()
    assert (cache.is_ready, cache.options) == (True, ())


def test_options_with_spaces_are_quoted_for_spark() -> None:
    """Spark's launcher splits its option text at spaces outside of quotes."""
    assert quote_java_options(["-Xmx1g", "-XX:AOTCache=/a b/c"]) == '"-Xmx1g" "-XX:AOTCache=/a b/c"'
