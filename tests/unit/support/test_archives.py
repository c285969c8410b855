"""Archives are unpacked by Python 3.11.2 too, whose tarfile has no filters."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from support.archives import unpack_archive


@pytest.mark.parametrize("has_filters", [True, False])
def test_an_archive_is_unpacked_with_and_without_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_filters: bool
) -> None:
    """Its members are named and read in both."""
    (tmp_path / "file.txt").write_text("content")
    with tarfile.open(tmp_path / "archive.tar", "w") as tar:
        tar.add(tmp_path / "file.txt", "folder/file.txt")
    if not has_filters:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    assert unpack_archive(tmp_path / "archive.tar", tmp_path / "into") == ["folder/file.txt"]
    assert (tmp_path / "into" / "folder" / "file.txt").read_text() == "content"
