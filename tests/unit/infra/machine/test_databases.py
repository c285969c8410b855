"""A database appears complete or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ackbench.infra.machine.databases import copy_database, create_database, is_complete, move_aside

ROWS = 20_000


def make(database: Path) -> None:
    """Create a table of many pages, as Airflow and MLflow do with many tables."""
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("CREATE TABLE pools (name TEXT)")
        opened.executemany("INSERT INTO pools VALUES (?)", [(f"pool {n}",) for n in range(ROWS)])


def test_a_database_whose_creation_fails_does_not_exist(tmp_path: Path) -> None:
    """What is left under the temporary name does not disturb the next attempt."""
    database = tmp_path / "a.db"

    def killed(partial: Path) -> None:
        make(partial)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        create_database(database, killed)
    assert not database.exists()
    create_database(database, make)
    assert is_complete(database, "pools", check=True)
    assert list(tmp_path.iterdir()) == [database]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_database_is_incomplete(tmp_path: Path, share: float) -> None:
    """As a killed copy leaves it."""
    database = tmp_path / "a.db"
    make(database)
    content = database.read_bytes()
    database.write_bytes(content[: int(len(content) * share)])
    assert not is_complete(database, "pools", check=True)


def test_a_database_without_the_rows_that_come_last_is_incomplete(tmp_path: Path) -> None:
    """As a killed migration leaves it."""
    database = tmp_path / "a.db"
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("CREATE TABLE pools (name TEXT)")
    assert not is_complete(database, "pools")
    assert not is_complete(database, "experiments")


def test_an_incomplete_database_is_moved_aside_with_its_journal(tmp_path: Path) -> None:
    """SQLite would apply the journal to the new database of that name."""
    for name in ("a.db", "a.db-journal"):
        (tmp_path / name).write_text("half")
    move_aside(tmp_path / "a.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.db.incomplete",
        "a.db.incomplete-journal",
    ]


def test_a_copy_has_every_row(tmp_path: Path) -> None:
    """Also those that are still in the write-ahead log."""
    source = tmp_path / "a.db"
    make(source)
    with closing(sqlite3.connect(source)) as opened:
        opened.execute("PRAGMA journal_mode=WAL")
        with opened:
            opened.execute("INSERT INTO pools VALUES ('last')")
        copy_database(source, tmp_path / "b.db")
    with closing(sqlite3.connect(tmp_path / "b.db")) as opened:
        assert opened.execute("SELECT count(*) FROM pools").fetchone() == (ROWS + 1,)
