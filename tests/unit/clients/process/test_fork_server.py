"""Clients are copies of one process: quick to start, alone with their streams, and gone when they are told."""

from pathlib import Path

import pytest
from support.fakes.mock_brokers import MockBrokers

from experiments.clients.consumer.process import ConsumerJob, ConsumerProcess
from experiments.clients.process.client_process import ClientProcess
from experiments.clients.process.fork_server import SpawnRequest, open_fork_server
from experiments.clients.settings.librdkafka import consumer_settings
from infra.errors import HarnessError


def test_a_role_nobody_knows_is_the_childs_failure(tmp_path: Path) -> None:
    """It says so in its errors, and the nursery lives on."""
    child = ClientProcess(
        "stranger 1", SpawnRequest(role="stranger", job=tmp_path / "job"), tmp_path / "errors"
    )
    with pytest.raises(HarnessError, match="KeyError: 'stranger'"):
        child.expect_line("ready", 60)
    child.kill()
    assert open_fork_server().is_usable()


def test_a_job_that_cannot_be_read_is_the_childs_failure(tmp_path: Path) -> None:
    """The parent is told which file."""
    child = ClientProcess(
        "producer 1", SpawnRequest(role="producer", job=tmp_path / "no job"), tmp_path / "errors"
    )
    with pytest.raises(HarnessError, match="no job"):
        child.expect_line("ready", 60)
    child.kill()


def test_a_killed_client_is_gone(tmp_path: Path) -> None:
    """Killing it twice is killing it once."""
    with MockBrokers(1) as brokers:
        brokers.create_topic("trial", 1)
        job = ConsumerJob(
            bootstrap_servers=brokers.bootstrap_servers,
            topic="trial",
            partitions=1,
            settings=consumer_settings({}),
            token=1,
            folder=tmp_path,
        )
        with ConsumerProcess(job) as reader:
            reader.wait_ready()
            reader.kill()
            reader.kill()
            with pytest.raises(HarnessError):
                reader.finish({0: 0}, 1)
