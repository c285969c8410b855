"""The supervisor answers every request, also when the disk is full."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from ackbench.infra.cluster.supervisor import Supervisor
from ackbench.infra.cluster.supervisor_protocol import (
    NodeRequest,
    ReportRequest,
    SupervisorReply,
    SupervisorRequest,
    send_request,
    socket_address,
)
from ackbench.infra.errors import SupervisorError


class FailingSupervisor(Supervisor):
    """A supervisor without nodes, whose requests fail with an error."""

    def __init__(self, error: Exception) -> None:
        """Create nothing."""
        self._error, self._folder = error, Path("planted.001")

    async def _handle_request(self, request: SupervisorRequest) -> SupervisorReply:
        if isinstance(request, ReportRequest):
            return SupervisorReply()
        raise self._error

    async def answer_over_socket(self, folder: Path) -> SupervisorReply:
        """Serve the socket, and return the reply to a status after a failed request."""
        with socket_address(folder) as address:
            server = await asyncio.start_unix_server(self._serve_connection, address)
        try:
            with pytest.raises(SupervisorError) as failure:
                await asyncio.to_thread(send_request, folder, NodeRequest("resume", 1))
            self.answer = str(failure.value)
            return await asyncio.to_thread(send_request, folder, ReportRequest())
        finally:
            server.close()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "/clusters/cluster.json"),
        RuntimeError("No space left on device"),
    ],
)
def test_a_full_disk_is_the_answer_and_the_supervisor_goes_on(
    tmp_path: Path, error: Exception
) -> None:
    """The requester gets the error's text; the next request is answered as well."""
    supervisor = FailingSupervisor(error)
    assert asyncio.run(supervisor.answer_over_socket(tmp_path)).error is None
    assert "No space left on device" in supervisor.answer
