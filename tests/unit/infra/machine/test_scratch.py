"""Scratch folders are removed by their owner, or by others once it has ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ackbench.infra.machine.scratch import SPARK, TRAINING, remove_abandoned, scratch_folder

OWNER = """
import sys
from pathlib import Path
from ackbench.infra.machine.scratch import SPARK, scratch_folder
with scratch_folder(Path(sys.argv[1]), SPARK) as folder:
    (folder / "file").touch()
    print(folder.name, flush=True)
    sys.stdin.read()
"""


def test_a_scratch_folder_is_removed_with_its_context(tmp_path: Path) -> None:
    """With its content; only the owner may read it meanwhile."""
    with scratch_folder(tmp_path / "cache", SPARK) as folder:
        (folder / "file").touch()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert remove_abandoned(tmp_path / "cache", SPARK) == ()
    assert not folder.exists()


def test_the_scratch_folder_of_a_killed_process_is_removed_by_another(tmp_path: Path) -> None:
    """And not before: the folder is locked, whatever the pid of its owner."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout
        name = owner.stdout.readline().strip()
        assert remove_abandoned(tmp_path, SPARK) == ()
        owner.kill()
    assert remove_abandoned(tmp_path, SPARK) == (name,)
    assert remove_abandoned(tmp_path, SPARK) == ()


def test_links_and_other_folders_are_kept(tmp_path: Path) -> None:
    """Only folders with the prefix are removed, and nothing through a link."""
    cache, thesis = tmp_path / "cache", tmp_path / "thesis"
    for folder in (cache / "jars", cache / f"{SPARK}left", thesis):
        folder.mkdir(parents=True)
    (cache / f"{SPARK}link").symlink_to(thesis)
    assert remove_abandoned(cache, SPARK) == (f"{SPARK}left",)
    assert {path.name for path in cache.iterdir()} == {".scratch.lock", "jars", f"{SPARK}link"}
    assert thesis.is_dir()


def test_a_folder_of_the_users_with_a_prefix_is_kept(tmp_path: Path) -> None:
    """The cache may be a folder that others write to, and `training-` is an ordinary name."""
    (tmp_path / "training-plan" / "week-1").mkdir(parents=True)
    (tmp_path / "training-x" / "smallest").mkdir(parents=True)
    assert remove_abandoned(tmp_path, TRAINING) == ("training-x",)
