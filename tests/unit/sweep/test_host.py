"""The host that runs a trial."""

from pathlib import Path

import pytest

from ackbench.experiments.sweep.host import disk_of, processor_of, this_host
from ackbench.infra.machine.identity import MachineIdentity

MOUNTS = """\
22 28 0:20 / /proc rw,nosuid shared:5 - proc proc rw
28 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 28 0:27 / /home rw shared:9 - nfs4 store:/home rw
35 28 254:16 / /home/a\\040user/fast rw shared:9 - xfs /dev/vdb rw
36 28 0:44 / /run rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("folder", "disk"),
    [
        ("/var/lib", "ext4 on /dev/vda"),
        ("/home/a user/fast/not there yet", "xfs on /dev/vdb"),
        ("/homes", "ext4 on /dev/vda"),
        ("/run/home", "tmpfs"),
    ],
)
def test_the_disk_is_the_file_system_of_the_innermost_mount(folder: str, disk: str) -> None:
    """Not that of a folder whose name begins alike."""
    assert disk_of(MOUNTS, Path(folder)) == disk


def test_the_processor_is_the_model_of_the_first_one() -> None:
    """Kernels pad the name with spaces; on ARM they give none."""
    assert processor_of("processor : 0\nmodel name\t: AMD EPYC  7B13 \nmodel name\t: x\n") == (
        "AMD EPYC 7B13"
    )
    assert processor_of("processor : 0\nBogoMIPS : 50.00\n") == ""


def test_this_host_has_all_properties(tmp_path: Path) -> None:
    """None is empty or 0."""
    assert all(this_host(tmp_path).model_dump().values())


def test_a_pod_is_named_by_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own name is another one at each start."""
    monkeypatch.setenv("ACKBENCH_HOST", "node-7")
    MachineIdentity.own.cache_clear()
    try:
        assert MachineIdentity.own().host == "node-7"
    finally:
        MachineIdentity.own.cache_clear()
