"""`make gates`: run the action and the component of `docs/ci/` for real, and print their seconds.

The steps of `docs/ci/action/action.yml` are run by `support.composite_action`. Those of the
component `docs/ci/gitlab/templates/gate.yml` are run by gitlab-ci-local, which a folder of its own
in `.venv` gets from npm, with GitLab's inputs and rules. Both check a file that is weak and one
that is not, and run a sweep of one cell on real brokers, once with an expectation that it meets and
once with one that it cannot meet. The first sweep has neither packages nor a home: what it fetches
comes from the registries, or from a cache of this machine's own.

    make gates                     both
    make gates GATE=action         the action
    make gates GATE=component      the component
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.composite_action import ActionRun
from support.gitlab_runner import commit_all, component_in, gitlab_runner
from support.needed_programs import missing

from ackbench.infra.machine.home import REPOSITORY

ACTION: Final = REPOSITORY / "docs" / "ci" / "action" / "action.yml"
COMPONENT: Final = REPOSITORY / "docs" / "ci" / "gitlab" / "templates" / "gate.yml"
ONE_CELL: Final = (
    "--acks all --enable.idempotence true --replication-factor 3 --partitions 1 "
    "--fault leader-crash-behind --broker.session.timeout.ms 1500 --no-controls"
)
FILES: Final = {
    "weak.properties": "acks=1\n",
    "safe-producer.properties": "acks=all\n",
    "safe-topic.properties": "min.insync.replicas=2\n",
}
CHECK: Final = {
    "check-options": "--replication-factor 3",
    "fail-on": "no-acked-loss:leader-crash-behind",
}
SWEEP: Final = {"experiment": "quick", "run-options": ONE_CELL}
CASES: Final[Mapping[str, tuple[Mapping[str, str], int]]] = {
    "check, weak": ({"files": "weak.properties", **CHECK}, 3),
    "check, safe": ({"files": "safe-producer.properties safe-topic.properties", **CHECK}, 0),
    "check and sweep": ({"files": "safe-*.properties", **CHECK, **SWEEP, "expect": "lost=0"}, 0),
    "sweep, unmet": ({**SWEEP, "expect": "lost=0\nunavailable_ms<1ms"}, 3),
}
"""Inputs, and the exit code of the last step that was run."""


@dataclass(frozen=True)
class _Ran:
    """What a case did."""

    exit_code: int
    output: str
    results: Path
    """Where check.xml and sweep.xml are, or below it."""


def main() -> int:
    """Run the cases; print each with its seconds; return 1 if one is not as it should be."""
    parser = argparse.ArgumentParser(prog="make gates")
    parser.add_argument("gate", nargs="?", choices=("action", "component"))
    chosen = parser.parse_args().gate
    if absent := missing(("git",) if chosen == "action" else ("git", "npm", "rsync")):
        sys.stderr.write(f"gates: {absent}\n")
        return 2
    failed = False
    with tempfile.TemporaryDirectory(prefix="ackbench-gates-") as name:
        runs: dict[str, Callable[[Path, Path, Mapping[str, str]], _Ran]] = {
            "action": _run_action,
            "component": _run_component,
        }
        for gate, run in runs.items():
            if chosen in {None, gate}:
                shared = Path(name) / gate
                shared.mkdir()
                good = [_as_expected(gate, case, shared, run) for case in CASES]
                failed |= not all(good)
    return int(failed)


def _as_expected(
    gate: str, case: str, shared: Path, run: Callable[[Path, Path, Mapping[str, str]], _Ran]
) -> bool:
    inputs, exit_code = CASES[case]
    with _project() as project:
        begin_s = time.monotonic()
        ran = run(project, shared, inputs)
        seconds = time.monotonic() - begin_s
        failures = {
            path.name: _failures(path)
            for file in ("check.xml", "sweep.xml")
            for path in ran.results.rglob(file)
        }
    good = ran.exit_code == exit_code and failures_fit(failures, exit_code)
    sys.stdout.write(f"{gate}: {case}: {seconds:.0f} s, exit code {ran.exit_code}, {failures}\n")
    sys.stdout.flush()
    if not good:
        sys.stdout.write(f"{ran.output}\nexpected: exit code {exit_code}\n")
    return good


def failures_fit(failures: Mapping[str, int], exit_code: int) -> bool:
    """Return whether JUnit's files have a failure exactly if the gate failed."""
    return bool(failures) and any(failures.values()) == (exit_code != 0)


def _failures(path: Path) -> int:
    return len(ET.parse(path).findall(".//failure"))  # noqa: S314 - as ackbench wrote it


@contextmanager
def _project() -> Iterator[Path]:
    """Yield a repository with files that have settings."""
    with tempfile.TemporaryDirectory(prefix="ackbench-project-") as name:
        for file, text in FILES.items():
            Path(name, file).write_text(text)
        commit_all(Path(name))
        yield Path(name)


def _run_action(project: Path, shared: Path, inputs: Mapping[str, str]) -> _Ran:
    """Run the action; the home's cache and the packages of an earlier run are there again."""
    temporary = shared / "runner"
    shutil.rmtree(temporary / "bin", ignore_errors=True)
    shutil.rmtree(temporary / "ackbench" / "results", ignore_errors=True)
    temporary.mkdir(exist_ok=True)
    run = ActionRun(ACTION, project, temporary, inputs)
    run.run()
    for step in run.steps:
        sys.stdout.write(f"  {step.name}: {step.seconds:.1f} s\n")
    codes = [step.exit_code for step in run.steps if step.exit_code]
    output = "\n".join(step.output for step in run.steps)
    return _Ran(codes[0] if codes else 0, output, Path(run.outputs["prepare.results"]))


def _run_component(project: Path, shared: Path, inputs: Mapping[str, str]) -> _Ran:
    """Run the component's jobs as GitLab would for a push, in the machine's own shell."""
    wheel = _wheel(shared)
    shutil.copy2(wheel, project)
    component_in(project, COMPONENT, {**inputs, "package": wheel.name})
    ran = subprocess.run(
        [gitlab_runner(), "--force-shell-executor", "--no-color", "--shell-isolation"],
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    failed = re.search(r"finished in .* FAIL (\d+)", ran.stdout)  # it exits with 1 itself
    return _Ran(int(failed[1]) if failed else ran.returncode, ran.stdout, project)


def _wheel(shared: Path) -> Path:
    """Build the wheel that a project would keep, once."""
    if not (found := list(shared.glob("*.whl"))):
        build = ("-m", "hatchling", "build", "-t", "wheel", "-d", str(shared))
        subprocess.run([sys.executable, *build], cwd=REPOSITORY, check=True, capture_output=True)
        found = list(shared.glob("*.whl"))
    return found[0]


if __name__ == "__main__":
    sys.exit(main())
