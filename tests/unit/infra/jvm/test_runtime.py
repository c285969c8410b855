"""The JVM in use, the shim for Spark, the certificates and the start-up caches."""

import ssl
import subprocess
from pathlib import Path

import pytest

from infra.errors import MachineError, WaitTimeout
from infra.jvm import trust_store
from infra.jvm.runtime import (
    java,
    java_environment,
    java_home,
    java_version,
    makes_startup_caches,
    spark_java_home,
)
from infra.jvm.startup_cache import StartupCache, option_text, startup_cache


def _fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def test_the_bundled_java_needs_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from a Python package, and makes start-up caches."""
    monkeypatch.delenv("ACKBENCH_JAVA_HOME", raising=False)
    assert java().is_file()
    assert makes_startup_caches(java_home())


def test_another_java_is_taken_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An older one works, without start-up caches."""
    home = _fake_java(tmp_path / "my java", "17.0.9")
    monkeypatch.setenv("ACKBENCH_JAVA_HOME", str(home))
    assert (java_home(), java_version(home), makes_startup_caches(home)) == (home, "17.0.9", False)


def test_a_wrong_java_home_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line that names the variable, its value and what would be right."""
    monkeypatch.setenv("ACKBENCH_JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match=r"ACKBENCH_JAVA_HOME=.* has no bin/java"):
        java()


def test_the_shim_for_spark_drops_one_flag_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also from a folder with spaces, and with arguments that hold some."""
    monkeypatch.setenv("ACKBENCH_JAVA_HOME", str(_fake_java(tmp_path / "my java", "25")))
    shim = spark_java_home(tmp_path / "my cache") / "bin" / "java"
    said = subprocess.run(
        [shim, "-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=x", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "-cp|a b|--add-modules=x||"


def test_java_is_not_told_anything_behind_our_back() -> None:
    """Flags in the environment would change what is recorded."""
    assert java_environment({"JAVA_TOOL_OPTIONS": "-Xmx1g", "CLASSPATH": "x", "HOME": "/h"}) == {
        "HOME": "/h",
        "LC_ALL": "C.UTF-8",
    }


def test_java_reads_the_trust_store(tmp_path: Path) -> None:
    """As many certificates as Python trusts, held against the store's own digest."""
    if not trust_store.write_trust_store(tmp_path / "trusted.jks"):
        pytest.skip("Python trusts no certificate on this machine")
    keytool = [
        str(java_home() / "bin" / "keytool"),
        "-list",
        "-keystore",
        str(tmp_path / "trusted.jks"),
        "-storepass",
        trust_store.PASSWORD,
    ]
    listed = subprocess.run(keytool, capture_output=True, text=True, check=True).stdout
    assert listed.count("trustedCertEntry") == len(ssl.create_default_context().get_ca_certs())


def test_a_startup_cache_is_another_one_when_jars_or_flags_change(tmp_path: Path) -> None:
    """The JVM would not use it, and start slowly without a word."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    first = startup_cache(tmp_path, "broker", [jar], ["-Xmx256m"])
    assert startup_cache(tmp_path, "broker", [jar], ["-Xmx256m"]) == first
    assert startup_cache(tmp_path, "broker", [jar], ["-Xmx512m"]).file != first.file
    jar.write_bytes(b"22")
    assert startup_cache(tmp_path, "broker", [jar], ["-Xmx256m"]).file != first.file


def test_a_startup_cache_is_used_once_it_was_learned_and_replaces_the_former(
    tmp_path: Path,
) -> None:
    """The file gets its name only when it is whole."""
    former = tmp_path / "broker-old.aot"
    former.touch()
    cache = StartupCache("broker", tmp_path / "broker-new.aot", supported=True)
    assert (cache.fresh, cache.options) == (False, ())
    with cache.training() as (option,):
        Path(option.removeprefix("-XX:AOTCacheOutput=")).write_bytes(b"classes")
    assert (cache.fresh, cache.options, former.exists()) == (
        True,
        (f"-XX:AOTCache={cache.file}",),
        False,
    )


def test_a_training_run_that_wrote_nothing_is_told(tmp_path: Path) -> None:
    """As when the program was killed instead of stopped."""
    cache = StartupCache("broker", tmp_path / "broker-new.aot", supported=True)
    with (
        pytest.raises(WaitTimeout, match="the start-up cache of broker"),
        cache.training(dump_timeout_s=0),
    ):
        pass
    assert not cache.fresh


def test_a_java_without_startup_caches_is_always_ready(tmp_path: Path) -> None:
    """It gets no option that it does not know, not even to learn."""
    cache = StartupCache("broker", tmp_path / "broker.aot", supported=False)
    with cache.training() as options:
        assert options == ()
    assert (cache.fresh, cache.options) == (True, ())


def test_options_with_spaces_reach_spark_whole() -> None:
    """Spark's launcher parts its option string at spaces outside of quotes."""
    assert option_text(["-Xmx1g", "-XX:AOTCache=/a b/c"]) == '"-Xmx1g" "-XX:AOTCache=/a b/c"'
