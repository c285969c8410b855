"""A project with the component of GitLab CI, and gitlab-ci-local, which runs it without GitLab."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from ackbench.infra.machine.home import REPOSITORY

PACKAGE: Final = "gitlab-ci-local@4.61.0"
"""Later ones need Node.js 22."""


def gitlab_runner() -> Path:
    """Return the path of gitlab-ci-local; npm fetches it if it is not there.

    Raises:
        subprocess.CalledProcessError: npm cannot fetch it.
    """
    folder = REPOSITORY / ".venv" / "gitlab-ci-local"
    program = folder / "node_modules" / ".bin" / "gitlab-ci-local"
    if not program.exists():
        folder.mkdir(exist_ok=True)
        install = ("npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", folder)
        subprocess.run([*install, PACKAGE], check=True)
    return program


def component_in(project: Path, component: Path, inputs: Mapping[str, str]) -> None:
    """Write a `.gitlab-ci.yml` that includes a component with inputs, and commit all files."""
    template = project / "templates" / component.name
    template.parent.mkdir()
    shutil.copy2(component, template)
    include = {"local": f"templates/{component.name}", "inputs": dict(inputs)}
    (project / ".gitlab-ci.yml").write_text(yaml.safe_dump({"include": [include]}))
    commit_all(project)


def commit_all(project: Path) -> None:
    """Commit all files of a folder, which becomes a repository."""
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@example.com")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "files")):
        subprocess.run([*git, *command], cwd=project, check=True)
