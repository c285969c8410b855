"""The kept summaries of a home: one SQLite file, of which a list of sweeps needs a small part.

The file is a cache of the sweeps' folders, and of what is left of pruned sweeps. One that is
damaged, or has other tables, is rebuilt; where none can be written, summaries are kept in memory.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Any, Final, Self
from urllib.parse import quote

from pydantic import Field, TypeAdapter, ValidationError

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.results.history.summary import (
    CellFigures,
    CellIdentity,
    CellSummary,
    SweepSummary,
)
from ackbench.infra.machine.home import Home

STORE: Final = "summaries.db"
_VERSION: Final = 4
"""Of the tables, in the file's `PRAGMA user_version`."""
_LOCK_TIMEOUT_S: Final = 30.0
_TABLES: Final = f"""
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS summaries;
DROP TABLE IF EXISTS constants;
DROP TABLE IF EXISTS sizes;
CREATE TABLE summaries (
    sweep_id TEXT PRIMARY KEY, head TEXT NOT NULL, figures BLOB NOT NULL, constants TEXT NOT NULL
);
CREATE TABLE constants (digest TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE sizes (sweep_id TEXT PRIMARY KEY, stamp TEXT NOT NULL, bytes INTEGER NOT NULL);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_COMPRESSION: Final = 1
"""The details of a sweep take 30 kB, and an eighth of that compressed."""
_FIGURES: Final = TypeAdapter(tuple[CellFigures, ...])


class SummaryConstants(Frozen):
    """Settings and cells of summaries, without figures: kept once for all sweeps with the same."""

    settings: dict[str, str] = Field(default_factory=dict)
    cells: tuple[CellIdentity, ...] = ()


_DETAILS: Final = set(SummaryConstants.model_fields)
"""The fields of `SweepSummary` that a list of sweeps does not need."""


def without_details(summary: SweepSummary) -> SweepSummary:
    """Return a summary as a list of sweeps needs it."""
    return summary.model_copy(update=dict(SummaryConstants()))


def _joined(figures: CellFigures, identity: CellIdentity) -> CellSummary:
    """Return a cell from its valid parts, as pickle does: `model_construct` takes 15 us."""
    cell = CellSummary.__new__(CellSummary)
    cell.__setstate__(
        {
            "__dict__": {**figures.__dict__, **identity.__dict__, "key": identity.key},
            "__pydantic_fields_set__": figures.model_fields_set | identity.model_fields_set,
            "__pydantic_extra__": None,
            "__pydantic_private__": None,
        }
    )
    return cell


class SummaryStore:
    """A context manager around the kept summaries of a home; not for several threads."""

    def __init__(self, home: Home) -> None:
        """Open the file, which is made if there is none."""
        self._path = home.index / STORE
        self._constants: dict[str, SummaryConstants] = {}
        self._database = self._open()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
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
        query = "SELECT figures, constants FROM summaries WHERE sweep_id = ?"
        for content, digest in self._select(query, head.sweep_id):
            with suppress(ValueError, zlib.error):  # also of pydantic; or other numbers of cells
                constants = self._constants_of(digest)
                figures = _FIGURES.validate_json(zlib.decompress(content))
                cells = zip(figures, constants.cells, strict=True)
                return head.model_copy(
                    update={
                        "settings": constants.settings,
                        "cells": tuple(_joined(*parts) for parts in cells),
                    }
                )
        return None

    def _constants_of(self, digest: str) -> SummaryConstants:
        """Return what a digest names; equal settings of two sweeps are the same objects.

        Raises:
            ValueError: it is not kept, or damaged.
        """
        if digest not in self._constants:
            rows = self._select("SELECT content FROM constants WHERE digest = ?", digest)
            ((content,),) = rows
            self._constants[digest] = SummaryConstants.model_validate_json(zlib.decompress(content))
        return self._constants[digest]

    def keep(self, summary: SweepSummary) -> None:
        """Keep the summary of a sweep in place of an earlier one."""
        # Of each cell pydantic writes the fields of the declared class only.
        constants = SummaryConstants(
            settings=summary.settings, cells=summary.cells
        ).model_dump_json(exclude_defaults=True)
        digest = hashlib.sha256(constants.encode()).hexdigest()
        figures = _FIGURES.dump_json(summary.cells, exclude_defaults=True)
        self._change(
            "INSERT OR REPLACE INTO constants VALUES (?, ?)",
            digest,
            zlib.compress(constants.encode(), _COMPRESSION),
        )
        self._change(
            "INSERT OR REPLACE INTO summaries VALUES (?, ?, ?, ?)",
            summary.sweep_id,
            summary.model_dump_json(exclude=_DETAILS, exclude_defaults=True),
            zlib.compress(figures, _COMPRESSION),
            digest,
        )

    def forget(self, sweep_ids: Iterable[str]) -> None:
        """Forget the summaries and sizes of sweeps that are gone."""
        forgotten = tuple(sweep_ids)
        if not forgotten:
            return  # each list of sweeps calls this, and looking for unused constants takes time
        for sweep_id in forgotten:
            self._change("DELETE FROM summaries WHERE sweep_id = ?", sweep_id)
            self._change("DELETE FROM sizes WHERE sweep_id = ?", sweep_id)
        self._change("DELETE FROM constants WHERE digest NOT IN (SELECT constants FROM summaries)")

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
