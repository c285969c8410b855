"""Tests of the JVM in use, its environment, and the wrapper for Spark."""

import subprocess
from pathlib import Path

import pytest

from ackbench.infra.errors import MachineError
from ackbench.infra.jvm.runtime import (
    java_binary,
    java_environment,
    java_home,
    java_version,
    spark_java_home,
    supports_startup_caches,
)


def _fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def test_bundled_java_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes from a Python package and supports start-up caches."""
    monkeypatch.delenv("ACKBENCH_JAVA_HOME", raising=False)
    assert java_binary().is_file()
    assert supports_startup_caches(java_home())


def test_configured_java_home_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An older Java works, without start-up caches."""
    home = _fake_java(tmp_path / "my java", "17.0.9")
    monkeypatch.setenv("ACKBENCH_JAVA_HOME", str(home))
    assert (java_home(), java_version(home), supports_startup_caches(home)) == (
        home,
        "17.0.9",
        False,
    )


def test_wrong_java_home_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One line names the variable, its value and what is allowed."""
    monkeypatch.setenv("ACKBENCH_JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match=r"ACKBENCH_JAVA_HOME=.* has no executable bin/java"):
        java_binary()


def test_wrapper_for_spark_drops_one_flag_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It also works in a folder with spaces, and with arguments that contain some."""
    monkeypatch.setenv("ACKBENCH_JAVA_HOME", str(_fake_java(tmp_path / "my java", "25")))
    wrapper = spark_java_home(tmp_path / "my cache") / "bin" / "java"
    result = subprocess.run(
        [wrapper, "-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=x", ""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "-cp|a b|--add-modules=x||"


def test_environment_has_no_variables_that_add_jvm_flags() -> None:
    """They would change the recorded flags."""
    assert java_environment({"JAVA_TOOL_OPTIONS": "-Xmx1g", "CLASSPATH": "x", "HOME": "/h"}) == {
        "HOME": "/h",
        "LC_ALL": "C.UTF-8",
    }
