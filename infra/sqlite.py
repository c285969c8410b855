"""SQLite files as SQLAlchemy's URLs name them."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

LOCK_TIMEOUT_S: Final = 60
"""How long to wait for another process's write, instead of failing after 5 s (`sqlite3.connect`'s default)."""


def sqlite_url(database: Path) -> str:
    """Return the URL of a file; SQLAlchemy 2.1 unquotes the path, so a `%` or `?` in it must be quoted."""
    return f"sqlite:///{quote(str(database), safe='/ ')}?timeout={LOCK_TIMEOUT_S}"
