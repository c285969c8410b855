"""Documents of a sweep's folder: what is no regular file of a sensible size is not read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from ackbench.experiments.ledger.digests import InvalidLedger, digest_file
from ackbench.experiments.ledger.location import LocationError, open_location
from ackbench.experiments.ledger.trial_manifest import TrialManifest
from ackbench.experiments.ledger.validation import validate_trial
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.sweep.documents import read_document, read_note, read_trial_manifest


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 42)


PLACED = pytest.mark.parametrize("make", [_pipe, Path.mkdir, _device, _huge])


@pytest.mark.timeout(20)
@PLACED
def test_what_is_no_regular_file_of_a_sensible_size_is_not_read(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """The reason and the path are in one line, and no descriptor is left open."""
    path = tmp_path / "plan.json"
    make(path)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(LedgerError, match=rf"{path}: .*; allowed: "):
        read_document(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


@pytest.mark.timeout(20)
@PLACED
def test_a_record_that_is_no_file_is_an_invalid_ledger(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """From the folder, and through the file system of a ledger."""
    trial = tmp_path / "000-aaaaaa"
    trial.mkdir()
    make(trial / "trial.json")
    with pytest.raises(InvalidLedger, match="trial 000-aaaaaa: "):
        read_trial_manifest(trial)
    with pytest.raises(InvalidLedger, match="trial 000-aaaaaa: "):
        validate_trial(pafs.LocalFileSystem(), str(trial))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", [_pipe, Path.mkdir, _device])
def test_what_is_no_file_has_no_digest(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A pipe would be waited for, and a device has no end."""
    make(tmp_path / "log.parquet")
    with pytest.raises(OSError, match=r"log\.parquet"):
        digest_file(pafs.LocalFileSystem(), str(tmp_path / "log.parquet"))


@pytest.mark.timeout(20)
@PLACED
def test_a_store_in_a_folder_is_read_as_one(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Another user may have put anything there."""
    make(tmp_path / "plan.json")
    with pytest.raises(LocationError, match=r"plan\.json"):
        open_location(str(tmp_path)).read("plan.json")


def test_a_missing_document_is_missing(tmp_path: Path) -> None:
    """That is not damage."""
    with pytest.raises(FileNotFoundError):
        read_document(tmp_path / "plan.json")
    assert read_note(tmp_path / "stopped.txt") is None


def test_a_note_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    """It is for people."""
    (tmp_path / "stopped.txt").write_bytes(b"by me\xff \n")
    assert read_note(tmp_path / "stopped.txt") == "by me\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("name", ["../../../../dev/zero", "/dev/zero", "clients/../../../x"])
def test_a_record_names_no_files_outside_of_its_trial(name: str) -> None:
    """They would be read to compare their digests."""
    with pytest.raises(ValueError, match="no file of the trial"):
        TrialManifest._require_own_files({name: None})  # type: ignore[dict-item]
