"""Sessions of Spark Connect, without a server."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.errors import PySparkException

from ackbench.experiments.ledger.spark_settings import SparkSetupError
from ackbench.spark_jobs import connect
from ackbench.spark_jobs.configuration import SparkJobError
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


def test_what_a_server_of_another_minor_version_cannot_do_is_one_line_with_both_versions() -> None:
    """PySpark's own text is a Java trace."""
    error = PySparkException("[SQL_CONF_NOT_FOUND] no such config\n\nJVM stacktrace:\nJava\n\tat x")
    line = (
        f"the server sc://host is Spark 4.0.5, and PySpark {pyspark.__version__} cannot run the "
        "job there ([SQL_CONF_NOT_FOUND] no such config): use a server of PySpark's version"
    )
    with pytest.raises(SparkSetupError) as refused, connect._failures("sc://host", "4.0.5"):
        raise error
    assert str(refused.value) == line
    with (
        pytest.raises(SparkJobError, match=r"^\[SQL_CONF_NOT_FOUND\]"),
        connect._failures("sc://h"),
    ):
        raise error
