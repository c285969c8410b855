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

CI: Final = REPOSITORY / "docs" / "ci"
JOBS: Final = sorted(CI.glob("*.yml"))
ACTION: Final = CI / "action" / "action.yml"
COMPONENT: Final = CI / "gitlab" / "templates" / "gate.yml"


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


def action() -> dict[str, Any]:
    """Return the action."""
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return found


def component() -> list[dict[str, Any]]:
    """Return the header of the component, and its jobs."""
    return list(yaml.safe_load_all(COMPONENT.read_text()))


def test_the_action_and_the_component_have_the_same_inputs_and_defaults() -> None:
    """Whoever knows one knows the other; what only one system has is not shared."""
    of_action, of_component = action()["inputs"], component()[0]["spec"]["inputs"]
    both = of_action.keys() & of_component.keys() - {"package"}
    differing = [name for name in both if of_action[name] != of_component[name]]
    assert differing == []
    assert of_action.keys() - both == {"base", "package", "artifact"}
    assert of_component.keys() - both == {"changes", "package", "image", "stage"}


def test_the_action_and_the_component_call_ackbench_with_options_that_it_has() -> None:
    """What they pass on from their inputs is checked by the command line."""
    for text in (scripts(action()), scripts(component())):
        lines = "\n".join(text).replace("\\\n", " ").splitlines()
        found = {}
        for line in lines:
            if call := re.search(r"ackbench\"? (check|run|setup)\b(.*)", line):
                found[call[1]] = set(re.findall(r"(?<=\s)--[a-z-]+", call[2]))
        known = {
            name: {option for one in cli.commands[name].params for option in one.opts}
            for name in found
        }
        assert {name: options - known[name] for name, options in found.items()} == {
            "check": set(),
            "setup": set(),
            "run": set(),
        }


def test_no_text_of_a_user_is_part_of_a_script() -> None:
    """It would be run: inputs reach a script as variables."""
    texts = [*scripts(action()), *scripts(component())]
    assert texts
    assert [text for text in texts if "${{" in text or "$[[" in text] == []


def test_there_is_a_job_for_both_systems() -> None:
    """Linted by `make ci-jobs`, which needs a package registry."""
    assert [path.stem for path in JOBS] == ["github-actions", "gitlab-ci"]
