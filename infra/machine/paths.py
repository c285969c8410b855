"""Paths that a user names: checked for what they are before they are opened.

A path may name a device, a pipe or a file of any size. Reading `/dev/zero` never ends, and opening
a pipe waits for its other end, so kind and size are asked first (fstat(2)).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from ackbench.infra.errors import InputError, MachineError

_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_REMEDIES: Final = {
    errno.ENOSPC: "delete files, or set ACKBENCH_HOME to a larger disk",
    errno.EDQUOT: "delete files, or set ACKBENCH_HOME to another disk",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`)",
    errno.EROFS: "set ACKBENCH_HOME to a writable folder",
    errno.EACCES: "give this user access to it, or set ACKBENCH_HOME to another folder",
    errno.EPERM: "give this user access to it, or set ACKBENCH_HOME to another folder",
    errno.ENOTDIR: "a file is where a folder is needed: move it away",
    errno.EISDIR: "a folder is where a file is needed: move it away",
    errno.EEXIST: "a file is where a folder is needed: move it away",
    errno.ENOENT: "it was removed, or never made",
    errno.ENAMETOOLONG: "use a shorter name",
    errno.ELOOP: "its links lead in a circle",
    errno.EMFILE: "raise the limit of open files (`ulimit -n 4096`)",
    errno.ENFILE: "close other programs: this machine has no open file left",
    errno.EIO: "the disk reports an error: see the kernel's log",
}
"""What to do, by the error of a system call on a file."""


def user_path(text: str) -> Path:
    """Return the path that a user wrote, with `~` and `~user` replaced.

    Raises:
        InputError: there is no such user, or no file can have this name.
    """
    if "\0" in text:
        raise InputError(f"{text!r}: a path cannot contain a null character")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        user = text.split("/", 1)[0]
        raise InputError(
            f"{text}: this machine has no home folder of the user {user[1:] or 'of this process'}: "
            f"write the folder out, or ./{text} for a file of that name"
        ) from error


def is_file(path: Path) -> bool:
    """Return whether a regular file has this path; false also if it cannot be looked up."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises on names that are too long


def read_small_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file.

    Raises:
        InputError: it is no regular file, or a larger one.
        OSError: it cannot be read.
    """
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path}: {_kind(status.st_mode)}; allowed: a regular file")
        if status.st_size > max_bytes:
            raise InputError(f"{path}: {status.st_size:,} bytes; allowed: at most {max_bytes:,}")
        with open(descriptor, "rb", closefd=False) as file:
            # The kernel's files (/proc) have no size.
            content: bytes | None = file.read(max_bytes + 1)
    finally:
        os.close(descriptor)
    if content is None:  # as /proc/kmsg, when the kernel has nothing to say
        raise InputError(f"{path}: has no data yet; allowed: a regular file")
    if len(content) > max_bytes:
        raise InputError(f"{path}: more than {max_bytes:,} bytes; allowed: at most that")
    return content


def require_writable_file(path: Path, name: str) -> None:
    """Check that a file can be written or replaced, without writing it.

    Args:
        path: the file; it need not exist.
        name: the option that names it, for the message.

    Raises:
        InputError: it cannot be written, or is no regular file.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        _require_writable_folder(path.absolute().parent, f"{name} {path}")
        return
    except OSError as error:
        raise InputError(f"{name} {path}: cannot be written ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{name} {path}: {_kind(status.st_mode)}; allowed: a regular file")
    if not os.access(path, os.W_OK):
        raise InputError(f"{name} {path}: cannot be written (Permission denied)")


def create_folder(path: Path, name: str) -> None:
    """Create a folder, unless it exists, and check that it is writable.

    Args:
        path: the folder.
        name: the option that names it, for the message.

    Raises:
        InputError: it cannot be created, or is not writable.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{name} {path}: cannot be created ({error.strerror})") from error
    _require_writable_folder(path, f"{name} {path}")


def _require_writable_folder(folder: Path, what: str) -> None:
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except OSError as error:
        raise InputError(f"{what}: cannot be written ({error.strerror})") from error
    if not is_folder:
        raise InputError(f"{what}: cannot be written ({folder} is no folder)")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{what}: cannot be written ({folder}: Permission denied)")


def machine_error_of(error: OSError, folder: Path) -> MachineError | None:
    """Return the error of a system call on a file as one line with the file and the remedy.

    Args:
        error: the error.
        folder: where files are written, for errors that name no file, as those of write(2).

    Returns:
        `None` for errors that are not about files of this machine, such as those of connections.
    """
    if error.errno is None and type(error) is OSError:  # Arrow's, which has the path in its text
        return MachineError(str(error))
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return None
    path = error.filename2 or error.filename or folder
    text = error.strerror or ""
    named = text if "/" in text else f"{os.fsdecode(path)}: {text}"
    return MachineError(f"{named}: {remedy}")


def _kind(mode: int) -> str:
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "no regular file")
