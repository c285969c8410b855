"""Runs the shell steps of a composite action of GitHub, as far as such a runner needs no GitHub.

Expressions are evaluated, and what steps write to GITHUB_OUTPUT, GITHUB_ENV and GITHUB_PATH reaches
the later ones. A step that `uses` another action is not run; what it would get is kept.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

_EXPRESSION: Final = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_NAME: Final = re.compile(r"'[^']*'|\b[a-z]+(?:\.[\w-]+)+")
_SHELL: Final = ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail")
"""The meaning of `shell: bash` (docs.github.com, "Workflow syntax for GitHub Actions")."""


@dataclass(frozen=True)
class StepRun:
    """One step that was run."""

    name: str
    exit_code: int
    seconds: float
    output: str


@dataclass
class ActionRun:
    """One run of an action in a workspace."""

    action: Path
    """Its action.yml."""
    workspace: Path
    temporary: Path
    inputs: Mapping[str, str]
    pull_request_base: str = ""
    steps: list[StepRun] = field(default_factory=list)
    used: dict[str, dict[str, str]] = field(default_factory=dict)
    """What other actions would get, by their names."""
    outputs: dict[str, str] = field(default_factory=dict)
    """By `step.name`."""

    def run(self) -> None:
        """Run the steps whose conditions hold.

        Raises:
            ValueError: an input is not the action's.
        """
        action = yaml.safe_load(self.action.read_text())
        if unknown := self.inputs.keys() - action["inputs"].keys():
            raise ValueError(f"{', '.join(sorted(unknown))}: no input of {self.action}")
        defaults = {
            name: self._text(str(one.get("default", ""))) for name, one in action["inputs"].items()
        }
        self.inputs = {**defaults, **self.inputs}
        environment = self._environment()
        for number, step in enumerate(action["runs"]["steps"]):
            condition = str(step.get("if", "true"))
            failed = any(one.exit_code for one in self.steps)
            if (failed and "always()" not in condition) or not self._evaluate(condition):
                continue
            if "uses" in step:
                values = step.get("with", {})
                self.used[step["uses"]] = {key: self._text(str(values[key])) for key in values}
            else:
                self._run_step(step, number, environment)

    def _run_step(self, step: dict[str, Any], number: int, environment: dict[str, str]) -> None:
        files = {
            f"GITHUB_{kind}": self.temporary / f"{kind.lower()}-{number}"
            for kind in ("OUTPUT", "ENV", "PATH")
        }
        for path in files.values():
            path.touch()
        own = {name: self._text(str(value)) for name, value in step.get("env", {}).items()}
        script = self.temporary / f"step-{number}.sh"
        script.write_text(self._text(step["run"]))
        begin_s = time.monotonic()
        ran = subprocess.run(
            [*_SHELL, script],
            cwd=self.workspace,
            env={**environment, **own, **{name: str(path) for name, path in files.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        name = step.get("name") or step.get("id", str(number))
        self.steps.append(StepRun(name, ran.returncode, time.monotonic() - begin_s, ran.stdout))
        for key, value in _pairs(files["GITHUB_OUTPUT"]).items():
            self.outputs[f"{step.get('id')}.{key}"] = value
        environment.update(_pairs(files["GITHUB_ENV"]))
        for folder in files["GITHUB_PATH"].read_text().split():
            environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"

    def _environment(self) -> dict[str, str]:
        """Return the environment of the first step; `python` is this process's."""
        programs = self.temporary / "bin"
        programs.mkdir()
        (programs / "python").symlink_to(sys.executable)
        return {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.temporary),
            "GITHUB_ACTION_PATH": str(self.action.parent),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_STEP_SUMMARY": str(self.temporary / "step-summary.md"),
            "CI": "true",
        }

    def _text(self, template: str) -> str:
        return _EXPRESSION.sub(lambda match: str(self._evaluate(match[1])), template)

    def _evaluate(self, expression: str) -> object:
        """Return the value of an expression of the few forms that actions here have."""
        python = _NAME.sub(
            lambda match: match[0] if match[0][0] == "'" else repr(self._value(match[0])),
            expression,
        )
        python = python.replace("&&", " and ").replace("||", " or ")
        names = {"always": lambda: True, "true": True, "__builtins__": {}}
        return eval(python, names)  # noqa: S307 - an expression of this repository

    def _value(self, name: str) -> str:
        context, _, rest = name.partition(".")
        if context == "inputs":
            return self.inputs[rest]
        if context == "steps":
            step, _, key = rest.partition(".outputs.")
            return self.outputs.get(f"{step}.{key}", "")
        return {
            "github.event.pull_request.base.sha": self.pull_request_base,
            "runner.os": "Linux",
            "runner.arch": "X64",
        }[name]


def _pairs(path: Path) -> dict[str, str]:
    lines = path.read_text().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}
