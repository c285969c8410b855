"""The jobs in `docs/ci/` call ackbench with options that it has, and name its own version."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ackbench.experiments.commands.cli import cli
from ackbench.infra.machine.home import REPOSITORY

JOBS: Final = sorted((REPOSITORY / "docs" / "ci").glob("*.yml"))


def scripts(node: Any) -> list[str]:
    """Return the shell text of all `run:` and `script:` keys of a job."""
    if isinstance(node, dict):
        own = [node[key] for key in ("run", "script") if key in node]
        flat = [line for one in own for line in (one if isinstance(one, list) else [one])]
        return flat + [line for value in node.values() for line in scripts(value)]
    if isinstance(node, list):
        return [line for value in node for line in scripts(value)]
    return []


def calls(path: Path) -> list[list[str]]:
    """Return the arguments of each call of ackbench in a job."""
    text = "\n".join(scripts(yaml.safe_load(path.read_text()))).replace("\\\n", " ")
    lines = [shlex.split(line) for line in text.splitlines() if line.strip()]
    return [words[1:] for words in lines if words[0] == "ackbench"]


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_calls_ackbench_with_options_that_it_has(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parsed by the command line itself, without running anything.

    A command keeps the names of its help option that its first context has from the group's.
    """
    monkeypatch.chdir(tmp_path)
    found = calls(path)
    for name, *arguments in found:
        group = cli.make_context("ackbench", [name])
        with cli.commands[name].make_context(name, arguments, parent=group) as context:
            assert context.help_option_names == group.help_option_names

    assert [call[0] for call in found] == ["check", "setup", "run"]
    assert all("--junit" in call for call in found if call[0] != "setup")


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_a_job_installs_this_version(path: Path) -> None:
    """A copied job would otherwise look for a wheel that does not exist."""
    assert re.findall(r"ackbench-([\d.]+)-py3", path.read_text()) == [version("ackbench")]


def test_there_is_a_job_for_both_systems() -> None:
    """Linted by `make ci-jobs`, which needs a package registry."""
    assert [path.stem for path in JOBS] == ["github-actions", "gitlab-ci"]
