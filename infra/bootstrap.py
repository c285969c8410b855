"""Sets up what is missing: the virtual environment from the hashed lock, then the jars and start-up caches.

Runs on the plain interpreter that `make` finds, so it imports the standard library only, and a second call must
cost next to nothing and need no network: what was done is told by a stamp of all that it depended on.
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
    """Make the environment if its stamp is not today's, then let ackbench finish the set-up."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return _refuse(
            f"Python 3.11, 3.12 or 3.13 is needed, this is {sys.version.split()[0]}: try `make PYTHON=python3.12 setup`"
        )
    stamp = _stamp()
    if not STAMP.is_file() or STAMP.read_text() != stamp:
        try:
            _install()
        except subprocess.CalledProcessError as error:
            return _refuse(
                f"`{' '.join(map(str, error.cmd[1:4]))} ...` failed, see above: are the package registries within reach?"
            )
        STAMP.write_text(stamp)
    return subprocess.run(
        [PYTHON, "-m", "experiments.commands.setup"], cwd=CLONE, check=False
    ).returncode


def _stamp() -> str:
    """Everything the environment depends on; the clone's path too, for a virtual environment cannot be moved."""
    parts = [path.read_bytes() for path in (*LOCKS, CLONE / "pyproject.toml")]
    return hashlib.sha256(
        b"\0".join([sys.version.encode(), str(CLONE).encode(), *parts])
    ).hexdigest()


def _install() -> None:
    began = time.monotonic()
    _say(
        f"making {VENV.name} with Python {sys.version.split()[0]} and the locked packages (once; a few minutes, ~1 GB)"
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
    # without bytecode each import of Airflow would compile it again where Python is told to write none
    _run(*uv, "--compile-bytecode", "--require-hashes", "-r", LOCKS[1], env=_index_environment())
    _run(*uv, "--no-deps", "--no-build-isolation", "--offline", "-e", ".")
    _say(f"the packages are there ({time.monotonic() - began:.0f} s)")


def _index_environment() -> dict[str, str]:
    """What pip was told of indexes and certificates, said again in uv's words, which does not read pip's files."""
    listed = subprocess.run(
        [PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    told = {
        name.split(".")[-1]: value.strip("'")
        for name, _, value in (line.partition("=") for line in listed.splitlines())
    }
    words = {
        "UV_DEFAULT_INDEX": told.get("index-url"),
        "UV_INDEX": told.get("extra-index-url"),
        "SSL_CERT_FILE": told.get("cert"),
    }
    return {name: value for name, value in words.items() if value and name not in os.environ}


def _run(*command: object, env: dict[str, str] | None = None) -> None:
    subprocess.run(
        [str(word) for word in command], cwd=CLONE, env={**os.environ, **(env or {})}, check=True
    )


def _say(text: str) -> None:
    print(f"setup: {text}", flush=True)  # noqa: T201 - there is no rich yet


def _refuse(text: str) -> int:
    print(f"setup: {text}", file=sys.stderr)  # noqa: T201 - there is no rich yet
    return 2


if __name__ == "__main__":
    sys.exit(main())
