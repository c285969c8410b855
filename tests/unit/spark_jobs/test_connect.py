"""Sessions of Spark Connect, without a server."""

from __future__ import annotations

import pytest

from ackbench.spark_jobs.connect import why_incompatible


@pytest.mark.parametrize("server", ["4.0.0", "4.3.1", "4.10.2"])
def test_a_server_of_the_same_major_version_runs_the_job(server: str) -> None:
    """Spark Connect keeps its protocol within one."""
    assert why_incompatible(server, "4.3.0") is None


@pytest.mark.parametrize("server", ["3.5.6", "5.0.0"])
def test_a_server_of_another_major_version_is_named(server: str) -> None:
    """With the version of both."""
    reason = why_incompatible(server, "4.3.0")
    assert reason is not None
    assert server in reason
    assert "4.3.0" in reason
