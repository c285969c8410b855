"""Errors of forked clients reach the parent, and a client can be killed."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.fakes.mock_brokers import MockBrokers

from ackbench.experiments.trial.clients.consumer.process import ConsumerJob, ConsumerProcess
from ackbench.experiments.trial.clients.process.client_process import ClientProcess
from ackbench.experiments.trial.clients.process.fork_server import SpawnRequest, open_fork_server
from ackbench.experiments.trial.clients.settings.librdkafka import consumer_settings
from ackbench.infra.errors import HarnessError


def test_an_unknown_role_is_an_error_of_the_client(tmp_path: Path) -> None:
    """The client's stderr has the error, and the fork server stays usable."""
    child = ClientProcess(
        "unknown 1", SpawnRequest(role="unknown", job=tmp_path / "job"), tmp_path / "errors"
    )
    with pytest.raises(HarnessError, match="KeyError: 'unknown'"):
        child.expect_line("ready", 60)
    child.kill()
    assert open_fork_server().is_usable()


def test_an_unreadable_job_is_an_error_of_the_client(tmp_path: Path) -> None:
    """The error names the file."""
    child = ClientProcess(
        "producer 1", SpawnRequest(role="producer", job=tmp_path / "no job"), tmp_path / "errors"
    )
    with pytest.raises(HarnessError, match="no job"):
        child.expect_line("ready", 60)
    child.kill()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[ConsumerJob]:
    """Return the job of a consumer of a topic with one partition."""
    with MockBrokers(1) as brokers:
        brokers.create_topic("trial", 1)
        yield ConsumerJob(
            bootstrap_servers=brokers.bootstrap_servers,
            topic="trial",
            partitions=1,
            settings=consumer_settings({}),
            token=1,
            folder=tmp_path,
        )


@pytest.fixture
def consumer(job: ConsumerJob) -> Iterator[ConsumerProcess]:
    """Return a consumer that waits for its first record."""
    with ConsumerProcess(job) as consumer:
        consumer.wait_ready()
        yield consumer


def test_a_client_can_be_killed_twice(consumer: ConsumerProcess) -> None:
    """The second kill does nothing, and later requests are errors."""
    consumer.kill()
    consumer.kill()
    with pytest.raises(HarnessError):
        consumer.finish({0: 0}, 1)


def test_a_client_has_the_variables_of_the_moment_it_is_started(
    job: ConsumerJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server keeps those of its own start, which a run may change before the next client."""
    open_fork_server()
    monkeypatch.setenv("ACKBENCH_TEST_LATER", "secret")
    settings = {**job.settings, "sasl.password": "$ACKBENCH_TEST_LATER"}
    job = job.model_copy(update={"settings": settings})
    with ConsumerProcess(job) as consumer:
        consumer.wait_ready()
    monkeypatch.delenv("ACKBENCH_TEST_LATER")
    with ConsumerProcess(job) as consumer, pytest.raises(HarnessError, match="is not set"):
        consumer.wait_ready()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_client_that_was_killed_by_another_program_is_an_error_with_the_signal(
    consumer: ConsumerProcess, number: signal.Signals
) -> None:
    """Only the fork server, its parent, gets the status from the kernel."""
    assert consumer.unexpected_exit() is None
    consumer.send_signal(number)
    with pytest.raises(HarnessError, match=f"consumer 0 exited by {number.name}; "):
        consumer.expect_line("done", 10)
    assert consumer.unexpected_exit() == f"consumer 0 exited by {number.name}"
    with pytest.raises(HarnessError, match=f"consumer 0 exited by {number.name}; "):
        consumer.crash()


def test_a_client_that_was_killed_by_its_parent_has_not_exited_unexpectedly(
    consumer: ConsumerProcess,
) -> None:
    """A fault, or the end of the trial, has killed it."""
    consumer.crash()
    assert consumer.unexpected_exit() is None


def test_a_client_that_is_done_has_not_exited_unexpectedly(consumer: ConsumerProcess) -> None:
    """It has reported its result."""
    assert consumer.finish({0: 0}, 10).at_end
    assert consumer.unexpected_exit() is None


def test_a_client_that_exited_with_its_fork_server_names_the_server(
    consumer: ConsumerProcess,
) -> None:
    """The kernel kills all clients with it, and nobody gets their statuses."""
    parent = psutil.Process(consumer.pid).parent()
    assert parent is not None
    parent.kill()
    with pytest.raises(
        HarnessError,
        match="consumer 0 exited with the clients' fork server, which exited by SIGKILL; ",
    ):
        consumer.expect_line("done", 10)
    assert open_fork_server().is_usable()
