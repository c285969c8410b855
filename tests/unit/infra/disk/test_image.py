"""Disk images: power cuts, full disks, write limits and complete removal. Needs root."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import tally

from ackbench.infra.cluster.capabilities import Capability, missing_capability
from ackbench.infra.disk import damage, mounts
from ackbench.infra.disk.damage import fill_disk, free_bytes, free_disk
from ackbench.infra.disk.image import IMAGE, ImageDisk
from ackbench.infra.disk.mounts import loop_devices_below, mounts_below, release_below
from ackbench.infra.disk.write_throttle import require_write_throttle
from ackbench.infra.errors import HarnessError

_MISSING = missing_capability(Capability.DISK_IMAGES)
pytestmark = pytest.mark.skipif(
    _MISSING is not None, reason=f"no disk images: {_MISSING.reason if _MISSING else ''}"
)
SIZE_BYTES = 256 << 20
HALF = 50_000
WRITTEN = {
    "synced": "synced",
    "half": "synced after its first half was written",
    "unsynced": "not synced",
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """A node's folder with special characters in its path; whatever a test leaves is released."""
    folder = tmp_path / "a node's folder, mit Umläut"
    folder.mkdir()
    yield folder
    release_below(folder)


def write(path: Path, content: bytes, *, synced: bool) -> None:
    """Append to a file."""
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        if synced:
            os.fsync(file.fileno())


def is_released(folder: Path) -> bool:
    """Return whether no mount and no loop device is below the folder."""
    return not list(mounts_below(folder)) and not list(loop_devices_below(folder))


def test_exactly_the_synced_data_survive_a_power_cut(node: Path) -> None:
    """A synced file is complete, a half-synced one has its first half, an unsynced one is lost."""
    disk, data = ImageDisk(SIZE_BYTES), ImageDisk(SIZE_BYTES).make(node)
    write(data / "synced", b"a" * 2 * HALF, synced=True)
    write(data / "half", b"b" * HALF, synced=True)
    write(data / "half", b"c" * HALF, synced=False)
    write(data / "unsynced", b"d" * 2 * HALF, synced=False)
    disk.shut_down(node)
    disk.bring_back(node)
    left = {path.name: path.stat().st_size for path in data.iterdir()}
    for name in ("synced", "half", "unsynced"):
        tally.count(
            f"of {2 * HALF} bytes of a file that was {WRITTEN[name]} survived a power cut",
            left.get(name, 0),
        )
    assert (left.get("synced"), left.get("half"), left.get("unsynced", 0)) == (2 * HALF, HALF, 0)


def test_a_clean_unmount_is_no_power_cut(node: Path) -> None:
    """The canary survives it, and is lost in a power cut."""
    disk, data = ImageDisk(SIZE_BYTES), ImageDisk(SIZE_BYTES).make(node)
    canary = damage.write_canary(data)
    disk.bring_back(node)
    assert not damage.canary_lost(data, canary)
    canary = damage.write_canary(data)
    disk.shut_down(node)
    disk.bring_back(node)
    assert damage.canary_lost(data, canary)
    assert list(data.iterdir()) == []


def test_a_disk_is_filled_to_its_last_block_and_freed_again(node: Path) -> None:
    """Not one more block can be written, and the image does not grow."""
    data = ImageDisk(SIZE_BYTES).make(node)
    before_bytes = free_bytes(data)
    assert fill_disk(data) == 0
    with pytest.raises(OSError, match="No space left"):
        write(data / "more", b"x" * 4096, synced=True)
    (data / "more").unlink()
    free_disk(data)
    free_disk(data)
    assert free_bytes(data) == before_bytes
    assert (node / IMAGE).stat().st_blocks * 512 < SIZE_BYTES // 2


def test_a_disk_is_removed_completely_and_a_second_call_has_no_effect(node: Path) -> None:
    """No mount, loop device, image or folder is left."""
    disk = ImageDisk(SIZE_BYTES)
    disk.make(node)
    disk.remove(node)
    disk.remove(node)
    assert is_released(node)
    assert list(node.iterdir()) == []


def test_the_disk_of_a_killed_process_is_found_by_its_folder(node: Path) -> None:
    """The process that mounted it gets SIGKILL. A second release has no effect."""
    maker = (
        "import os, signal; from pathlib import Path\n"
        "from ackbench.infra.disk.image import ImageDisk; "
        f"ImageDisk({SIZE_BYTES}).make(Path({str(node)!r})); "
    )
    killed = subprocess.run(
        [sys.executable, "-c", maker + "os.kill(os.getpid(), signal.SIGKILL)"], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert not is_released(node)
    assert release_below(node)
    assert is_released(node)
    assert release_below(node) == ()


def test_a_disk_in_use_is_unmounted_and_the_error_names_its_user(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unmounted at once; the loop device is detached when its last user exits."""
    monkeypatch.setattr(mounts, "_BUSY_TIMEOUT_S", 0.1)
    monkeypatch.setattr(mounts, "_DETACH_TIMEOUT_S", 0.1)
    data = ImageDisk(SIZE_BYTES).make(node)
    write(data / "log", b"x", synced=True)
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; log = open(sys.argv[1]); print('opened', flush=True); sys.stdin.read()",
            str(data / "log"),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as user:
        assert user.stdout
        assert user.stdout.readline() == b"opened\n"
        with pytest.raises(HarnessError, match=f"still in use by {user.pid};"):
            release_below(node)
        assert not list(mounts_below(node))
    monkeypatch.setattr(mounts, "_DETACH_TIMEOUT_S", 10.0)
    release_below(node)
    assert is_released(node)


@pytest.mark.skipif(
    missing_capability(Capability.SLOW_DEVICES) is not None,
    reason="the kernel offers no write limits to this process",
)
def test_the_write_limit_of_a_disk_is_removed_with_it(node: Path) -> None:
    """The next disk on the same loop device would inherit it."""
    disk = ImageDisk(SIZE_BYTES)
    disk.make(node)
    disk.limit(node, 1 << 30)
    (loop,) = loop_devices_below(node)
    number = Path("/sys/block", loop, "dev").read_text().strip()
    limits = require_write_throttle().path
    assert number in limits.read_text().split()
    release_below(node)
    assert number not in limits.read_text().split()
