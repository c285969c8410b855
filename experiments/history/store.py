"""The kept summaries of a home: one SQLite file, of which a list of sweeps needs a small part.

The file is a cache of the sweeps' folders, and of what is left of pruned sweeps. One that is
damaged, or has other tables, is rebuilt; where none can be written, summaries are kept in memory.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing, suppress
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

from pydantic import Field, ValidationError

from experiments.history.summary import CellSummary, SweepSummary
from experiments.ledger.record import Frozen
from infra.machine.home import Home

STORE: Final = "summaries.db"
_VERSION: Final = 1
"""Of the tables, in the file's `PRAGMA user_version`."""
_LOCK_TIMEOUT_S: Final = 30.0
_TABLES: Final = f"""
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS summaries;
DROP TABLE IF EXISTS sizes;
CREATE TABLE summaries (sweep_id TEXT PRIMARY KEY, head TEXT NOT NULL, details BLOB NOT NULL);
CREATE TABLE sizes (sweep_id TEXT PRIMARY KEY, stamp TEXT NOT NULL, bytes INTEGER NOT NULL);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_COMPRESSION: Final = 1
"""The details of a sweep take 30 kB, and an eighth of that compressed."""


class SummaryDetails(Frozen):
    """The fields of `SweepSummary` that a list of sweeps does not need."""

    settings: dict[str, str] = Field(default_factory=dict)
    cells: tuple[CellSummary, ...] = ()


_DETAILS: Final = set(SummaryDetails.model_fields)


def without_details(summary: SweepSummary) -> SweepSummary:
    """Return a summary as a list of sweeps needs it."""
    return summary.model_copy(update=dict(SummaryDetails()))


class SummaryStore:
    """A context manager around the kept summaries of a home; not for several threads."""

    def __init__(self, home: Home) -> None:
        """Open the file, which is made if there is none."""
        self._path = home.index / STORE
        self._database = self._open()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self._database.close()

    def heads(self) -> dict[str, SweepSummary]:
        """Return all kept summaries by sweep, without their details."""
        found = {}
        for sweep_id, head in self._select("SELECT sweep_id, head FROM summaries"):
            with suppress(ValidationError):
                found[sweep_id] = SweepSummary.model_validate_json(head)
        return found

    def complete(self, head: SweepSummary) -> SweepSummary | None:
        """Return a kept summary with its details; `None`: they are not kept, or damaged."""
        query = "SELECT details FROM summaries WHERE sweep_id = ?"
        for (details,) in self._select(query, head.sweep_id):
            with suppress(ValidationError, zlib.error):
                return head.model_copy(
                    update=dict(SummaryDetails.model_validate_json(zlib.decompress(details)))
                )
        return None

    def keep(self, summary: SweepSummary) -> None:
        """Keep the summary of a sweep in place of an earlier one."""
        details = summary.model_dump_json(include=_DETAILS, exclude_defaults=True)
        self._change(
            "INSERT OR REPLACE INTO summaries VALUES (?, ?, ?)",
            summary.sweep_id,
            summary.model_dump_json(exclude=_DETAILS, exclude_defaults=True),
            zlib.compress(details.encode(), _COMPRESSION),
        )

    def forget(self, sweep_ids: Iterable[str]) -> None:
        """Forget the summaries and sizes of sweeps that are gone."""
        for sweep_id in sweep_ids:
            self._change("DELETE FROM summaries WHERE sweep_id = ?", sweep_id)
            self._change("DELETE FROM sizes WHERE sweep_id = ?", sweep_id)

    def sizes(self) -> dict[str, tuple[str, int]]:
        """Return the stamp and the size in bytes of the folders of sweeps."""
        rows = self._select("SELECT sweep_id, stamp, bytes FROM sizes")
        return {sweep_id: (stamp, size_bytes) for sweep_id, stamp, size_bytes in rows}

    def keep_size(self, sweep_id: str, stamp: str, size_bytes: int) -> None:
        """Keep the size of a sweep's folder, for as long as it has this stamp."""
        self._change("INSERT OR REPLACE INTO sizes VALUES (?, ?, ?)", sweep_id, stamp, size_bytes)

    def _select(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        """Return the rows; none if the file is damaged, which then is replaced."""
        try:
            return self._database.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            self._replace(error)
            return []

    def _change(self, statement: str, *values: str | int | bytes) -> None:
        try:
            self._database.execute(statement, values)
        except sqlite3.DatabaseError as error:
            self._replace(error)
            self._database.execute(statement, values)

    def _open(self) -> sqlite3.Connection:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not os.access(self._path if self._path.exists() else self._path.parent, os.W_OK):
                return self._copy()
            return self._prepared()
        except sqlite3.OperationalError:  # a folder is in its place; another process has the lock
            return _in_memory()
        except sqlite3.DatabaseError:
            return self._rebuilt()
        except OSError:
            return _in_memory()

    def _prepared(self) -> sqlite3.Connection:
        """Return the database with its tables; earlier versions kept a file per sweep."""
        opened = sqlite3.connect(self._path, _LOCK_TIMEOUT_S, isolation_level=None)
        try:
            opened.execute("PRAGMA synchronous = OFF")  # it can be rebuilt
            if opened.execute("PRAGMA user_version").fetchone() != (_VERSION,):
                opened.executescript(_TABLES)
                for path in self._path.parent.glob("*.json"):
                    path.unlink(missing_ok=True)
        except BaseException:
            opened.close()
            raise
        return opened

    def _replace(self, error: sqlite3.DatabaseError) -> None:
        """Go on with an empty store: in a new file, or in memory if it cannot be written."""
        self._database.close()
        is_damaged = not isinstance(error, sqlite3.OperationalError)
        self._database = self._rebuilt() if is_damaged else _in_memory()

    def _rebuilt(self) -> sqlite3.Connection:
        try:
            self._path.unlink(missing_ok=True)
            return self._prepared()
        except (OSError, sqlite3.DatabaseError):
            return _in_memory()

    def _copy(self) -> sqlite3.Connection:
        """Return a copy in memory of a file that can only be read."""
        copied = _in_memory()
        with (
            suppress(sqlite3.DatabaseError),
            closing(sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True)) as kept,
        ):
            if kept.execute("PRAGMA user_version").fetchone() == (_VERSION,):
                kept.backup(copied)
        return copied


def _in_memory() -> sqlite3.Connection:
    opened = sqlite3.connect(":memory:", isolation_level=None)
    opened.executescript(_TABLES)
    return opened
