"""The handle of a cluster and the messages of its supervisor survive encoding and decoding."""

from pathlib import Path
from typing import get_args

import pytest

from ackbench.infra.cluster.handle import ClusterHandle, LeaseHolder, read_handle
from ackbench.infra.cluster.supervisor_protocol import (
    CountsRequest,
    DestroyRequest,
    DiskRequest,
    HealRequest,
    ImpairRequest,
    LeaseRequest,
    NodeReport,
    NodeRequest,
    ReportRequest,
    SupervisorReply,
    SupervisorRequest,
    decode_reply,
    decode_request,
    encode,
)
from ackbench.infra.errors import SupervisorError, WaitTimeout
from ackbench.infra.kafka.spec import ClusterSpec, LaunchSpec, NodeStatus
from ackbench.infra.network.impairment import PacketDrop, RequestHold
from ackbench.infra.process.exits import ProcessExit
from ackbench.infra.process.processes import ProcessIdentity

EXIT = ProcessExit("node 1", 2, 3.5, "exited by SIGKILL", node_id=1, status=-9)
NODE = NodeStatus(1, "running", 10, 20, 1, 2, 3)


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


def test_a_handle_is_read_as_it_was_written(tmp_path: Path) -> None:
    """A process that reads it knows all that its writer knew."""
    handle = _handle(ProcessIdentity.own(), ProcessIdentity(1, 2))
    handle.write(tmp_path)
    assert read_handle(tmp_path) == handle


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}'])
def test_an_invalid_handle_file_is_an_error_with_its_folder(tmp_path: Path, text: str) -> None:
    """And not a traceback."""
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(SupervisorError, match="no cluster at"):
        read_handle(tmp_path)


def test_requests_and_replies_are_decoded_as_they_were_encoded() -> None:
    """Each is one line."""
    requests: tuple[SupervisorRequest, ...] = (
        ReportRequest(),
        NodeRequest("stop", 2, 7.5),
        ImpairRequest("cut", (PacketDrop(1, (2, 3)), RequestHold("EndTxn", "t-0"))),
        CountsRequest("cut"),
        HealRequest("cut"),
        DiskRequest("limit", (1, 2), 1000),
        LeaseRequest(pid=1, start_ticks=2, grace_s=0.5),
        DestroyRequest(),
    )
    reply = SupervisorReply(
        (NodeReport(NODE, 1.5, exited_unexpectedly=True, unexpected_exits=(EXIT,)),),
        NODE,
        "why\nnot",
        WaitTimeout.__name__,
        failures=(EXIT,),
    )
    assert [type(request) for request in requests] == list(get_args(SupervisorRequest))
    assert tuple(decode_request(encode(request)) for request in requests) == requests
    assert decode_reply(encode(reply)) == reply
    assert encode(reply).count(b"\n") == 1


@pytest.mark.parametrize("line", [b"", b"{}", b"half a"])
def test_a_supervisor_that_ends_before_it_replies_is_an_error(line: bytes) -> None:
    """The end of the connection is no reply."""
    with pytest.raises(SupervisorError, match="did not answer"):
        decode_reply(line)
