"""Plans that this home has made, or permitted: each has a mark that only this home can write.

A plan from a store, or in a folder that was copied from elsewhere, has none: who can write there
could have changed the plan. The mark is an HMAC of `plan.json` (RFC 2104) with a key of the home.
"""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.sweep.documents import read_document, read_note
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.files import exclusive_lock, replace_file
from ackbench.infra.machine.home import PLAN_KEY, Home

MARK: Final = "planned-here.txt"
"""The file in a sweep's folder; it is not published."""
_KEY_BYTES: Final = 32
_PRIVATE: Final = 0o600


def mark_as_own(home: Home, sweep: SweepFolder) -> None:
    """Mark the plan that a sweep has now as one of this home's."""
    replace_file(sweep.root / MARK, f"{_mark_of(sweep, _key(home))}\n")


def is_own(home: Home, sweep: SweepFolder) -> bool:
    """Return whether this home has made, or permitted, the plan that a sweep has now."""
    try:
        key, found = read_note(home.root / PLAN_KEY), read_note(sweep.root / MARK)
        return bool(key and found) and hmac.compare_digest(
            str(found).encode(), _mark_of(sweep, str(key)).encode()
        )
    except LedgerError:
        return False


def _mark_of(sweep: SweepFolder, key: str) -> str:
    return hmac.digest(key.encode(), read_document(sweep.root / PLAN), "sha256").hex()


def _key(home: Home) -> str:
    path: Path = home.root / PLAN_KEY
    if not path.is_file():
        with exclusive_lock(path):
            if not path.is_file():
                replace_file(path, secrets.token_hex(_KEY_BYTES), mode=_PRIVATE)
    return path.read_text()
