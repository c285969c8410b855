"""What a cluster keeps on disk and says over its socket comes back as it was; ports and ids are its own."""

from pathlib import Path

import pytest

from infra.cluster.cleaning import CleanReport, clean
from infra.cluster.handle import ClusterHandle, LeaseHolder, read_handle
from infra.cluster.supervisor_protocol import (
    NodeReport,
    SupervisorReply,
    SupervisorRequest,
    decode_reply,
    decode_request,
    encode,
)
from infra.errors import HarnessError, InputError, SupervisorError, WaitTimeout
from infra.kafka import jars
from infra.kafka.spec import ClusterSpec, LaunchSpec, NodeStatus
from infra.kafka.storage import copy_formatted, replace_ids
from infra.network.reservations import reserve_ports
from infra.process.processes import ProcessIdentity

NODE = NodeStatus(1, "running", 10, 20, 1, 2, 3)
META = "#\n#Sat Nov 21 08:38:19 UTC 2026\ncluster.id=c\ndirectory.id=d\nnode.id=1\nversion=1\n"


def _handle(holder: ProcessIdentity, supervisor: ProcessIdentity | None = None) -> ClusterHandle:
    launch = LaunchSpec(("java", "-cp", "a b"), "/formatted")
    return ClusterHandle(
        "c",
        "id",
        ClusterSpec(broker={"k": "v"}),
        launch,
        {"k": "v"},
        (LeaseHolder(holder, 1.5),),
        supervisor,
        (NODE,),
    )


def test_a_handle_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Whoever reads it knows all that its writer knew."""
    handle = _handle(ProcessIdentity.own(), ProcessIdentity(1, 2))
    handle.write(tmp_path)
    assert read_handle(tmp_path) == handle


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}'])
def test_a_file_that_is_no_handle_is_told(tmp_path: Path, text: str) -> None:
    """With its folder's name, and not as a traceback."""
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(SupervisorError, match="no cluster at"):
        read_handle(tmp_path)


def test_messages_come_back_as_they_were_sent() -> None:
    """Requests and replies are one line each."""
    request = SupervisorRequest("lease", pid=1, start_ticks=2, grace_s=0.5)
    reply = SupervisorReply(
        (NodeReport(NODE, 1.5, exited_unexpectedly=True, exit_status=-9),),
        NODE,
        "why\nnot",
        WaitTimeout.__name__,
    )
    assert decode_request(encode(request)) == request
    assert decode_reply(encode(reply)) == reply
    assert encode(reply).count(b"\n") == 1


@pytest.mark.parametrize("line", [b"", b"{}", b"half a"])
def test_a_supervisor_that_ended_over_a_request_is_told(line: bytes) -> None:
    """The connection's end is no answer."""
    with pytest.raises(SupervisorError, match="did not answer"):
        decode_reply(line)


def test_reserved_ports_are_given_once() -> None:
    """Two clusters that look at the same time find different ones, until the first lets go."""
    first, second = reserve_ports(9), reserve_ports(9)
    assert len({*first.ports, *second.ports}) == 18
    first.release()
    second.release()


def test_a_formatted_folder_gets_ids_of_its_own(tmp_path: Path) -> None:
    """Cluster, node and directory; the rest is as the storage tool wrote it."""
    formatted = tmp_path / "formatted"
    formatted.mkdir()
    (formatted / "meta.properties").write_text(META)
    (formatted / "bootstrap.checkpoint").write_bytes(b"features")
    (tmp_path / "data").mkdir()
    copy_formatted(formatted, tmp_path / "data", 3, "other")
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    assert {"cluster.id=other", "node.id=3", "version=1"} <= set(lines)
    assert "directory.id=d" not in lines
    assert (tmp_path / "data" / "bootstrap.checkpoint").read_bytes() == b"features"


def test_a_format_that_is_not_known_is_told() -> None:
    """A copy with two nodes' ids would be refused by the broker in words that nobody expects."""
    with pytest.raises(HarnessError, match=r"0 lines for node\.id"):
        replace_ids("version=2\n", {"node.id": "1"})


@pytest.mark.parametrize("version", ["3.8.1", "4.3", "newest", "4.3.1-rc0", ""])
def test_what_is_no_version_from_3_9_on_is_refused(tmp_path: Path, version: str) -> None:
    """Nothing is fetched."""
    with pytest.raises(InputError, match=r"allowed: a released version from 3\.9\.0 on"):
        jars.kafka_jars(tmp_path, version)


def test_the_jars_of_a_version_that_nobody_listed_are_those_that_were_written_down(
    tmp_path: Path,
) -> None:
    """Their digests are kept beside them: nobody verified them, and it can be told later what they were."""
    folder = jars.jars_folder(tmp_path, "4.9.9")
    folder.mkdir(parents=True)
    (folder / "kafka.jar").write_bytes(b"jar")
    written = jars.unverified_checksums(tmp_path, "4.9.9")
    assert written is not None
    assert not jars.has_cached_jars(tmp_path, "4.9.9")
    written.write_text(jars.checksum_list(folder))
    assert jars.kafka_jars(tmp_path, "4.9.9") == (folder / "kafka.jar",)


def test_the_jars_of_a_version_that_we_ship_have_a_verified_list() -> None:
    """Each holds a broker, its tools and one binding for the log."""
    for version in jars.shipped_versions():
        names = {jar.name for jar in jars.locked_jars(version)}
        assert {f"kafka_2.13-{version}.jar", f"kafka-tools-{version}.jar"} <= names
        assert (
            len([name for name in names if name.startswith(("slf4j-reload4j", "log4j-slf4j"))]) == 1
        )


def test_a_folder_that_lacks_a_jar_is_not_whole(tmp_path: Path) -> None:
    """Neither is one whose jar was cut short."""
    folder = jars.jars_folder(tmp_path, "4.3.1")
    folder.mkdir(parents=True)
    for jar in jars.locked_jars("4.3.1"):
        (folder / jar.name).open("wb").truncate(jar.size_bytes)
    assert jars.has_cached_jars(tmp_path, "4.3.1")
    next(folder.iterdir()).open("wb").close()
    assert not jars.has_cached_jars(tmp_path, "4.3.1")


def test_a_cluster_under_way_is_kept_by_cleaning(tmp_path: Path) -> None:
    """It has a living holder, though no supervisor yet."""
    (tmp_path / "new").mkdir()
    _handle(ProcessIdentity.own(), ProcessIdentity(2**22, 1)).write(tmp_path / "new")
    assert clean(tmp_path) == CleanReport(kept=("new",))


def test_a_cluster_whose_holder_is_gone_is_removed(tmp_path: Path) -> None:
    """The pids in its handle may be others' by now: start times tell, and nobody is killed."""
    (tmp_path / "old" / "nodes" / "1" / "data").mkdir(parents=True)
    _handle(ProcessIdentity(2**22, 1)).write(tmp_path / "old")
    assert clean(tmp_path) == CleanReport(removed=("old",))
    assert list(tmp_path.iterdir()) == []
