"""Files that processes share: replaced atomically, locked, and opened as SQLite databases."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

_SQLITE_LOCK_TIMEOUT_S: Final = 60
"""How long to wait for another process's write; `sqlite3.connect` gives up after 5 s by default."""


def replace_file(
    path: Path, content: str | bytes, *, mode: int | None = None, durable: bool = True
) -> None:
    """Write a file so that every reader sees the old content or the new content, never a part.

    The content is written to a hidden file in the same folder, which then gets the final name
    (rename(2) is atomic within a file system). A failed write leaves the old file as it was.

    Args:
        path: the file; its folder must exist.
        content: text is encoded as UTF-8.
        mode: permission bits, for example 0o700; by default those of any new file.
        durable: wait until the new content is on disk, so that a power failure leaves the old or
            the new content too. False for files that describe running processes: they mean nothing
            after a power failure, and fsync(2) would wait for what brokers write meanwhile.

    Raises:
        OSError: the file cannot be written, for example because the disk is full.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_native_id()}")
    try:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            partial.chmod(mode)
        if durable:
            move_into_place(partial, path)
        else:
            partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def move_into_place(partial: Path, target: Path) -> None:
    """Give a complete file or folder its final name, once all of its content is on disk.

    Without fsync(2) a power failure can leave the new name with empty files: file systems may
    write a rename before the data. The new name itself is on disk on return.

    Args:
        partial: in the same file system as the target.
        target: an existing file, or empty folder, is replaced.

    Raises:
        OSError: the content cannot be written, for example because the disk is full.
    """
    for path in (*(partial.rglob("*") if partial.is_dir() else ()), partial):
        if path.is_file() or path.is_dir():
            sync(path)
    partial.replace(target)
    sync(target.parent)


def folder_bytes(folder: Path) -> int:
    """Return the space that the files of a folder take on the disk, links not followed."""
    total, folders = 0, [os.fspath(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def exclusive_lock(target: Path) -> Iterator[None]:
    """Hold the lock of a file or folder that is about to be made; wait for the current holder.

    Two processes that set up the same thing make it once: the second one waits, and then finds
    it made. The kernel releases the lock when its holder exits (flock(2)).

    Args:
        target: what is made; the lock is the file `.<name>.lock` in the same folder, which is
            created with its parents where it is missing.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def try_lock(path: Path, *, shared: bool = False) -> IO[str] | None:
    """Take the lock of a file at once; return the open file, or `None`: another process has it.

    The lock lasts until the file is closed, here and in every process that inherits it, and at the
    latest until these processes have ended, however they end (flock(2)).

    Args:
        path: the file; it is created if it does not exist.
        shared: let others take it shared too; else nobody else.

    Raises:
        OSError: the file cannot be opened.
    """
    file = path.open("a+")
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except BaseException:
        file.close()
        raise
    return file


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file; false if there is no such file."""
    if not path.is_file():
        return False
    file = try_lock(path)
    if file:
        file.close()
    return file is None


def sqlite_url(database: Path) -> str:
    """Return the SQLAlchemy URL of an SQLite file.

    SQLAlchemy 2.1 unquotes the path of a URL, so a `%` or `?` in it must be quoted.
    """
    return f"sqlite:///{quote(str(database), safe='/ ')}?timeout={_SQLITE_LOCK_TIMEOUT_S}"
