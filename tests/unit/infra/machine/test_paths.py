"""Files and homes that a user names: devices, pipes, sizes, users, folders in place of files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ackbench.infra.errors import InputError, MachineError
from ackbench.infra.machine.home import MAX_ROOT_BYTES, Home
from ackbench.infra.machine.paths import (
    create_folder,
    is_file,
    machine_error_of,
    read_small_file,
    require_writable_file,
    user_path,
)


def test_an_unknown_user_is_named() -> None:
    """`~nobody-there` has no home folder."""
    with pytest.raises(InputError, match="no home folder of the user nobody-there"):
        user_path("~nobody-there/x.yaml")


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/full"])
def test_a_device_is_not_read(device: str) -> None:
    """Reading it would never end."""
    with pytest.raises(InputError, match=f"{device}: a device; allowed: a regular file"):
        read_small_file(Path(device), 100)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody writes to it."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="a pipe; allowed: a regular file"):
        read_small_file(tmp_path / "pipe", 100)


def test_a_file_that_has_no_data_yet_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/proc/kmsg` is such a file. Here it is a pipe with a writer, which seems to be a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    monkeypatch.setattr("stat.S_ISREG", lambda _: True)
    with pytest.raises(InputError, match="has no data yet; allowed: a regular file"):
        read_small_file(pipe, 100)
    os.close(writer)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    """Its size is asked first: this one would not fit into memory."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InputError, match="1,099,511,627,776 bytes; allowed: at most 100"):
        read_small_file(tmp_path / "large", 100)


def test_a_file_without_a_size_is_read_up_to_the_limit() -> None:
    """Files of the kernel have the size 0."""
    with pytest.raises(InputError, match="more than 10 bytes"):
        read_small_file(Path("/proc/self/status"), 10)


def test_a_name_that_no_file_can_have_is_no_file() -> None:
    """It is too long, or has a null character."""
    assert not is_file(Path("x" * 300))
    assert not is_file(Path("x\0"))


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_pipe, "a pipe; allowed: a regular file"),
        (Path.mkdir, "a folder; allowed: a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "a device; allowed: a regular file"),
    ],
)
def test_only_a_regular_file_is_replaced(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    """Writing to a pipe would wait for a reader."""
    make(tmp_path / "page")
    with pytest.raises(InputError, match=words):
        require_writable_file(tmp_path / "page", "--html")


def test_a_file_that_does_not_exist_needs_its_folder(tmp_path: Path) -> None:
    """The folder is not created."""
    require_writable_file(tmp_path / "page", "--html")
    with pytest.raises(InputError, match=r"cannot be written \(No such file or directory\)"):
        require_writable_file(tmp_path / "absent" / "page", "--html")


def test_a_folder_is_created_below_a_folder_only(tmp_path: Path) -> None:
    """A file, a name that is too long and a folder of the kernel are refused."""
    (tmp_path / "file").touch()
    create_folder(tmp_path / "a" / "b", "--chapters")
    assert (tmp_path / "a" / "b").is_dir()
    for path in (
        tmp_path / "file",
        tmp_path / "file" / "b",
        tmp_path / ("x" * 300),
        Path("/proc/x"),
    ):
        with pytest.raises(InputError, match="--chapters"):
            create_folder(path, "--chapters")


def test_a_full_disk_is_named_with_the_remedy(tmp_path: Path) -> None:
    """write(2) does not name the file: the home is named."""
    error = machine_error_of(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), tmp_path)
    assert str(error).startswith(f"{tmp_path}: No space left on device: delete files")


def test_an_error_of_a_connection_is_no_error_of_a_file(tmp_path: Path) -> None:
    """It stays as it is."""
    assert machine_error_of(ConnectionRefusedError(errno.ECONNREFUSED, ""), tmp_path) is None


def _home(monkeypatch: pytest.MonkeyPatch, path: str | Path) -> Home:
    monkeypatch.setenv("ACKBENCH_HOME", str(path))
    return Home.from_environment()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("~nobody-there/x", "no home folder of the user nobody-there"),
        ("/dev/null", "is no folder"),
        ("/dev/null/home", "Not a directory"),
        (f"/tmp/{'x' * 300}", "File name too long"),  # noqa: S108 - nothing is made there
        (f"/tmp{'/x' * 3000}", f"6,004 bytes; allowed: at most {MAX_ROOT_BYTES:,}"),  # noqa: S108
    ],
)
def test_a_home_that_is_no_folder_is_refused_by_every_command(
    monkeypatch: pytest.MonkeyPatch, path: str, words: str
) -> None:
    """All of them begin with `Home.from_environment`."""
    with pytest.raises(InputError, match=words):
        _home(monkeypatch, path)


def test_a_file_in_place_of_a_folder_of_the_home_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written."""
    (tmp_path / "clusters").touch()
    with pytest.raises(MachineError, match="clusters is no folder: move it away"):
        _home(monkeypatch, tmp_path)
