"""The commit of a file, in real repositories."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.infra.machine.git import commit_with
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    """Run git, without the settings of this machine; return what it prints."""
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com"}
    identity |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.com"}
    ran = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    """Return a file in the only commit of a repository, below its root."""
    path = tmp_path / "a folder" / "mine ü.yaml"
    path.parent.mkdir()
    path.write_text("name: mine\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return path


def test_a_committed_file_has_the_commit_that_is_checked_out(committed: Path) -> None:
    """Also through a link from elsewhere."""
    commit = git(committed.parent, "rev-parse", "HEAD")
    link = committed.parent.parent / "link.yaml"
    link.symlink_to(committed)

    assert commit_with(committed) == commit_with(link) == commit


def test_a_changed_file_has_no_commit_until_it_is_committed(committed: Path) -> None:
    """The commit has another content."""
    committed.write_text("name: other\n")
    assert commit_with(committed) is None
    git(committed.parent, "commit", "--quiet", "--all", "--message", "second")
    assert commit_with(committed) == git(committed.parent, "rev-parse", "HEAD")


def test_a_file_that_is_in_no_commit_has_none(committed: Path, tmp_path: Path) -> None:
    """Beside a committed one, and in a repository without a commit."""
    beside = committed.with_name("new.yaml")
    beside.write_text("")
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    first = tmp_path / "empty" / "first.yaml"
    first.write_text("")

    assert [commit_with(beside), commit_with(first)] == [None, None]


def test_without_git_there_is_no_commit(committed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no requirement."""
    monkeypatch.setenv("PATH", str(committed.parent))
    assert commit_with(committed) is None


def test_a_hook_of_git_does_not_lead_to_another_repository(
    committed: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Git calls hooks with GIT_DIR."""
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "--quiet")
    commit = git(committed.parent, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert commit_with(committed) == commit


EXPERIMENT = """\
name: mine
title: Mine
question: What is lost?
axes: {acks: 1, enable.idempotence: false, replication.factor: 1, partitions: 1, fault: none}
controls: false
"""


def test_a_new_sweep_names_the_commit_of_its_experiment(committed: Path) -> None:
    """It is the same for whoever looks at the sweep later."""
    committed.write_text(EXPERIMENT)
    git(committed.parent, "commit", "--quiet", "--all", "--message", "second")
    sweep = new_sweep(Home(committed.parent.parent / "home"), str(committed))

    assert sweep.plan().experiment_commit == git(committed.parent, "rev-parse", "HEAD")
