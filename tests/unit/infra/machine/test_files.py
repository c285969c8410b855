"""Shared files are replaced atomically, and made by one process at a time."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ackbench.infra.machine.files import exclusive_lock, folder_bytes, move_into_place, replace_file


@pytest.mark.parametrize(
    ("content", "stored"), [("nämlich\n", "nämlich\n".encode()), (b"\x00\xff", b"\x00\xff")]
)
def test_a_file_is_replaced_by_text_or_bytes(
    tmp_path: Path, content: str | bytes, stored: bytes
) -> None:
    """Text is UTF-8; no temporary file remains."""
    path = tmp_path / "file"
    path.write_text("old")
    replace_file(path, content)
    assert path.read_bytes() == stored
    assert list(tmp_path.iterdir()) == [path]


def test_a_reader_sees_the_old_content_or_the_new_content(tmp_path: Path) -> None:
    """Never an empty file or a part, while a writer replaces it again and again."""
    path, contents = tmp_path / "file", {"a" * 100_000, "b" * 50_000}
    replace_file(path, "a" * 100_000)
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            for content in sorted(contents):
                replace_file(path, content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = {path.read_text() for _ in range(500)}
    finally:
        ended.set()
        writer.join()
    assert seen
    assert seen <= contents


def test_a_failed_write_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And removes its temporary file."""
    path = tmp_path / "file"
    path.write_text("old")

    def refuse(_path: Path, _target: Path) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="no space left"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_permissions_of_a_replaced_file_can_be_given(tmp_path: Path) -> None:
    """A program must be executable from the moment it can be seen."""
    replace_file(tmp_path / "program", "#!/bin/sh\n", mode=0o755)
    assert (tmp_path / "program").stat().st_mode & 0o777 == 0o755


def test_a_lock_can_be_taken_again_after_its_release(tmp_path: Path) -> None:
    """Its folder is created where it is missing."""
    for _ in range(2):
        with exclusive_lock(tmp_path / "folder" / "thing"):
            assert (tmp_path / "folder").is_dir()


@pytest.fixture(name="synced")
def recorded_synced_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files and folders that are synced to disk, in order, and renames."""
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def record_sync(descriptor: int) -> None:
        done.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        fsync(descriptor)

    def record_rename(path: Path, target: Path) -> Path:
        done.append(f"rename to {target.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(Path, "replace", record_rename)
    return done


def test_a_file_is_on_disk_before_its_name_and_the_name_before_the_return(
    tmp_path: Path, synced: list[str]
) -> None:
    """A power failure leaves the old content or the new content."""
    replace_file(tmp_path / "plan.json", "{}")
    partial, *others = synced
    assert partial.startswith(".plan.json.")
    assert others == ["rename to plan.json", tmp_path.name]


def test_a_folder_is_on_disk_with_all_of_its_files_before_its_name(
    tmp_path: Path, synced: list[str]
) -> None:
    """Also files of its folders."""
    (tmp_path / "partial" / "below").mkdir(parents=True)
    (tmp_path / "partial" / "below" / "file").write_text("content")
    move_into_place(tmp_path / "partial", tmp_path / "final")
    assert synced[:3] == ["below", "file", "partial"]
    assert synced[3:] == ["rename to final", tmp_path.name]


def test_what_describes_processes_is_not_synced(tmp_path: Path, synced: list[str]) -> None:
    """fsync(2) would wait for what brokers write while they are measured."""
    replace_file(tmp_path / "progress.json", "{}", durable=False)
    assert synced == ["rename to progress.json"]


def test_the_size_of_a_folder_counts_files_and_not_what_links_lead_to(tmp_path: Path) -> None:
    """A cache may be a link to that of another home."""
    (tmp_path / "outside").write_bytes(b"1" * 1_000_000)
    (tmp_path / "home" / "cache").mkdir(parents=True)
    (tmp_path / "home" / "cache" / "jar").write_bytes(b"1" * 10)
    (tmp_path / "home" / "link").symlink_to(tmp_path)

    assert 10 <= folder_bytes(tmp_path / "home") < 1_000_000
