"""Reads the documents of a sweep's folder, which may be damaged, or have been a stranger's.

A document is a regular file of limited size: a pipe in its place would be waited for, and a device
never ends. JSON is parsed by `pydantic_core`, which limits how deep it is nested; the parser of the
standard library exhausts the stack.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.trial_manifest import (
    TRIAL_MANIFEST,
    TrialManifest,
    parse_trial_manifest,
)
from ackbench.experiments.messages.errors import LedgerError
from ackbench.infra.errors import InputError
from ackbench.infra.machine.paths import read_small_file

MOST_BYTES: Final = 64 << 20
"""The plan of the largest sweep, of 1,024 trials, takes a tenth of that."""
_MOST_TEXT_BYTES: Final = 1 << 20


def read_document(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a file of a sweep.

    Raises:
        FileNotFoundError: there is none.
        LedgerError: it is no regular file, too large, or cannot be read.
    """
    try:
        return read_small_file(path, most_bytes)
    except FileNotFoundError:
        raise
    except InputError as error:
        raise LedgerError(f"{error}: restore it from a copy") from error
    except OSError as error:
        raise LedgerError(f"{path} cannot be read ({error.strerror})") from error


def read_note(path: Path) -> str | None:
    """Return a text that a sweep keeps for people, in one piece; `None`: there is none.

    Raises:
        LedgerError: as `read_document`.
    """
    try:
        return read_document(path, _MOST_TEXT_BYTES).decode(errors="replace").strip()
    except FileNotFoundError:
        return None


def read_trial_manifest(trial_folder: Path) -> TrialManifest:
    """Read `trial.json` from a trial's folder.

    Raises:
        InvalidLedger: it is missing or cannot be read, or as in `parse_trial_manifest`.
    """
    return parse_trial_manifest(read_trial_manifest_file(trial_folder), trial_folder.name)


def read_trial_manifest_file(trial_folder: Path) -> bytes:
    """Return the content of a trial's `trial.json`.

    Raises:
        InvalidLedger: it is missing or cannot be read.
    """
    try:
        return read_document(trial_folder / TRIAL_MANIFEST)
    except FileNotFoundError as error:
        raise InvalidLedger(f"trial {trial_folder.name}: {TRIAL_MANIFEST} is missing") from error
    except LedgerError as error:
        raise InvalidLedger(f"trial {trial_folder.name}: {error}") from error
