"""`make ci-jobs`: programs of others read what ackbench writes for CI systems.

The jobs in `docs/ci/` are compared with the schemas of GitHub and GitLab (check-jsonschema), and a
JUnit file is read by junitparser. Both are installed in an environment of their own, so that the
lock file has nothing that only this check needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from ackbench.infra.machine.home import REPOSITORY

PACKAGES: Final = ("check-jsonschema", "junitparser")
JOBS: Final = REPOSITORY / "docs" / "ci"
_COUNT: Final = """
import json, sys
from junitparser import JUnitXml
xml = JUnitXml.fromfile(sys.argv[1])
kinds = [type(result).__name__ for suite in xml for case in suite for result in case.result]
print(json.dumps({"tests": sum(1 for suite in xml for _ in suite),
                  "Failure": kinds.count("Failure"), "Skipped": kinds.count("Skipped"),
                  "Error": kinds.count("Error"),
                  "suites": [[suite.tests, suite.failures, suite.errors, suite.skipped]
                             for suite in xml]}))
"""


def main() -> int:
    """Install the programs, lint the jobs, read a JUnit file; return 1 if anything differs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder, with_pip=True)
        tools = folder / "bin"
        subprocess.run([tools / "pip", "install", "--quiet", *PACKAGES], check=True)
        github, gitlab = JOBS / "github-actions.yml", JOBS / "gitlab-ci.yml"
        schema: list[str | Path] = [tools / "check-jsonschema", "--builtin-schema"]
        commands: tuple[list[str | Path], ...] = (
            [*schema, "vendor.github-workflows", github],
            [*schema, "vendor.gitlab-ci", "--data-transform", "gitlab-ci", gitlab],
        )
        codes = [subprocess.run(command, check=False).returncode for command in commands]
        return 1 if any(codes) or not _junit_is_read(tools / "python", folder) else 0


def _junit_is_read(python: Path, folder: Path) -> bool:
    """Return whether junitparser counts in a JUnit file what the file's own totals say."""
    properties, path = folder / "producer.properties", folder / "check.xml"
    properties.write_text("acks=1\n")
    program = [sys.executable, "-m", "ackbench"]
    command = [*program, "check", "--replication-factor", "3"]
    subprocess.run(
        [*command, "--producer", properties, "--junit", path],
        check=True,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
    )
    read = subprocess.run(
        [python, "-c", _COUNT, path], check=True, capture_output=True, text=True
    ).stdout
    counts = json.loads(read)
    tests, failures, errors, skipped = (
        sum(column) for column in zip(*counts["suites"], strict=True)
    )
    sys.stdout.write(f"junitparser: {read}")
    found = [counts[name] for name in ("tests", "Failure", "Error", "Skipped")]
    return found == [tests, failures, errors, skipped] and failures > 0


if __name__ == "__main__":
    sys.exit(main())
