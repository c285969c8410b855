"""`make setup`: set up the virtual environment from the lock files, then call `ackbench setup`.

This script runs on the Python interpreter that `make` finds, so it imports only the standard
library. One that is too old reads it too, and says so: annotations that it cannot evaluate are
quoted. A second call must be nearly free and need no network, so a stamp file records the state of
everything that the environment depends on.
"""

import hashlib
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

CLONE = Path(__file__).resolve().parents[1]
VENV = CLONE / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = (CLONE / "requirements" / "bootstrap.txt", CLONE / "requirements" / "lock.txt")
STAMP = VENV / "ackbench-stamp"
OLDEST, NEWEST = (3, 11), (3, 13)


def main() -> int:
    """Install the environment if its stamp is outdated, then let ackbench finish the set-up."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return _fail(
            f"Python 3.11, 3.12 or 3.13 is required, this is {sys.version.split()[0]}: "
            "try `make PYTHON=python3.12 setup`"
        )
    stamp = _stamp()
    if not STAMP.is_file() or STAMP.read_text() != stamp:
        try:
            _install()
        except subprocess.CalledProcessError as error:
            return _fail(
                f"`{' '.join(map(str, error.cmd[1:4]))} ...` failed, see above: "
                "are the package registries reachable?"
            )
        STAMP.write_text(stamp)
    return subprocess.run([VENV / "bin" / "ackbench", "setup"], check=False).returncode


def _stamp() -> str:
    """Return a digest of everything that the environment depends on.

    This includes the path of the clone, because a virtual environment cannot be moved.
    """
    parts = [path.read_bytes() for path in (*LOCKS, CLONE / "pyproject.toml")]
    return hashlib.sha256(
        b"\0".join([sys.version.encode(), str(CLONE).encode(), *parts])
    ).hexdigest()


def _install() -> None:
    began = time.monotonic()
    _print(
        f"creating {VENV.name} with Python {sys.version.split()[0]} and the locked packages "
        "(once; a few minutes, about 1 GB)"
    )
    venv.create(VENV, with_pip=True, clear=True)
    _run(
        PYTHON,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--require-hashes",
        "-r",
        LOCKS[0],
    )
    uv = [VENV / "bin" / "uv", "pip", "install", "--quiet", "--python", PYTHON]
    # Without compiled bytecode, each import of Airflow would compile it again in environments with
    # PYTHONDONTWRITEBYTECODE.
    _run(*uv, "--compile-bytecode", "--require-hashes", "-r", LOCKS[1], env=_index_environment())
    _run(*uv, "--no-deps", "--no-build-isolation", "--offline", "-e", ".")
    _print(f"installed the packages ({time.monotonic() - began:.0f} s)")


def _index_environment() -> "dict[str, str]":
    """Return pip's configuration of indexes and certificates as uv's environment variables.

    uv does not read pip's configuration files.
    """
    output = subprocess.run(
        [PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    config = {
        name.split(".")[-1]: value.strip("'")
        for name, _, value in (line.partition("=") for line in output.splitlines())
    }
    variables = {
        "UV_DEFAULT_INDEX": config.get("index-url"),
        "UV_INDEX": config.get("extra-index-url"),
        "SSL_CERT_FILE": config.get("cert"),
    }
    return {name: value for name, value in variables.items() if value and name not in os.environ}


def _run(*command: object, env: "dict[str, str] | None" = None) -> None:
    subprocess.run(
        [str(argument) for argument in command],
        cwd=CLONE,
        env={**os.environ, **(env or {})},
        check=True,
    )


def _print(text: str) -> None:
    print(f"setup: {text}", flush=True)  # noqa: T201 - rich is not installed yet


def _fail(text: str) -> int:
    print(f"setup: {text}", file=sys.stderr)  # noqa: T201 - rich is not installed yet
    return 2


if __name__ == "__main__":
    sys.exit(main())
