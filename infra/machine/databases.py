"""SQLite databases that Airflow and MLflow create: appear complete, or are made again.

Creating one takes seconds and hundreds of statements. A process that is killed in between leaves a
file that its program neither completes nor accepts. So a database is created under another name
and renamed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ackbench.infra.machine.files import move_into_place

_SIDE_FILES: Final = ("", "-journal", "-wal", "-shm")
"""Suffixes of the files of a database: https://www.sqlite.org/tempfiles.html."""
_LOCKS: Final = Path("/proc/locks")


def create_database(database: Path, create: Callable[[Path], None]) -> None:
    """Create a database under a temporary name, and rename it once it is complete and on disk.

    Args:
        database: the final name. The caller holds its lock (`exclusive_lock`).
        create: creates a database of another name, and closes it.
    """
    partial = database.with_name(f".{database.name}.partial")
    for suffix in _SIDE_FILES:
        Path(f"{partial}{suffix}").unlink(missing_ok=True)
    create(partial)
    move_into_place(partial, database)


def copy_database(source: Path, target: Path) -> None:
    """Copy a database as of its last transaction (https://www.sqlite.org/backup.html)."""
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
        read.backup(written)


def is_complete(database: Path, table: str, *, check: bool = False) -> bool:
    """Return whether a database has rows in the table that its creation fills last.

    A database that another process has locked counts as complete, because it is in use.

    Args:
        database: an existing file.
        table: the name.
        check: also check that no page is missing or damaged; it reads the entire file.
    """
    try:
        with closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True)) as opened:
            filled = opened.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() is not None  # noqa: S608 - a constant
            sound = not check or opened.execute("PRAGMA quick_check").fetchone() == ("ok",)
    except sqlite3.DatabaseError as error:
        return "locked" in str(error)
    return filled and sound


def lock_holder(database: Path) -> str:
    """Return the name of a process that has locked a database (fcntl(2)), for messages.

    The kernel lists locks by inode, with the pid in this namespace (proc_locks(5)).
    """
    inode = str(database.stat().st_ino)
    for line in _LOCKS.read_text().splitlines():
        _, kind, _, access, pid, file, *_ = line.replace("->", "").split()
        is_of_file = kind == "POSIX" and file.rpartition(":")[2] == inode
        if is_of_file and access == "WRITE" and int(pid) > 0:
            return f"process {pid}"
    return "another process"


def move_aside(database: Path) -> Path:
    """Rename an incomplete database, with its journal, and return its new name."""
    aside = database.with_name(f"{database.name}.incomplete")
    for suffix in _SIDE_FILES:
        path = Path(f"{database}{suffix}")
        if path.exists():
            path.replace(f"{aside}{suffix}")
    return aside


def shrink_database(database: Path) -> bool:
    """Give the space of deleted rows back to the disk (https://www.sqlite.org/lang_vacuum.html).

    Returns:
        Whether it was done; not while another process uses the database.
    """
    try:
        with closing(sqlite3.connect(database, timeout=5.0)) as opened:
            opened.execute("VACUUM")
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError:
        return False
    return True
