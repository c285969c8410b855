"""A user's program that copies: it reads the input topic and writes the output topic.

ackbench starts and ends it, and judges what it did by the output topic and by the offsets that its
group committed. What the program itself believes is unknown: it reports nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

import pyarrow as pa

from ackbench.experiments.ledger.schema import READS
from ackbench.experiments.trial.clients.group.generations import Generations
from ackbench.experiments.trial.clients.group.jobs import GroupJob, GroupResult
from ackbench.experiments.trial.clients.group.offsets import committed_offsets, wait_until_committed
from ackbench.experiments.trial.clients.process.session_process import SessionProcess
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.waiting import wait_until

JOIN_TIMEOUT_S: Final = 120.0
_STABLE: Final = "STABLE"
_EXIT_TIMEOUT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.1


def application_values(job: GroupJob, instance: int) -> dict[str, str]:
    """Return the values of an instance, by the names that its command may have in braces."""
    if job.output is None:
        raise ValueError("an application without an output topic")
    return {
        "bootstrap": job.bootstrap_servers,
        "input": job.topic,
        "output": job.output.topic,
        "group": job.group,
        "instance": str(instance),
    }


def application_command(words: tuple[str, ...], values: Mapping[str, str]) -> list[str]:
    """Return a command with the values in the places of their names: `{input}`."""

    def filled(word: str) -> str:
        for name, text in values.items():
            word = word.replace(f"{{{name}}}", text)
        return word

    return [filled(word) for word in words]


def application_variables(values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an instance: `ACKBENCH_BOOTSTRAP`, `ACKBENCH_INPUT`, ..."""
    return {f"ACKBENCH_{name.upper()}": text for name, text in values.items()}


class ApplicationProcess(Generations[SessionProcess]):
    """An instance of the program through all its generations, as a context manager.

    Args:
        job: of the group.
        instance: its number, from 1 on.

    Raises:
        OSError: the program could not be started.
    """

    def __init__(self, job: GroupJob, instance: int) -> None:
        self._job, self._instance = job, instance
        super().__init__(f"application {instance}")

    def _start(self, generation: int) -> SessionProcess:
        values = application_values(self._job, self._instance)
        name = f"{self.name}.{generation}"
        return SessionProcess(
            name,
            application_command(self._job.command, values),
            {**os.environ, **application_variables(values)},
            self._job.folder / f"{name.replace(' ', '-')}.log",
        )

    def finish(self) -> None:
        """Have the program end; kill it if it does not within 30 s of SIGTERM."""
        self._now.terminate(_EXIT_TIMEOUT_S)


class ApplicationGroup:
    """The instances of the program; the group is that of their committed offsets.

    Args:
        job: of the group.
        members: the instances.
    """

    def __init__(self, job: GroupJob, members: tuple[ApplicationProcess, ...]) -> None:
        self.job, self.members = job, members

    @classmethod
    @contextmanager
    def running(cls, job: GroupJob) -> Iterator[ApplicationGroup]:
        """Start the instances; they end with the context.

        Raises:
            HarnessError: the program could not be started.
        """
        with ExitStack() as running:
            try:
                members = tuple(
                    running.enter_context(ApplicationProcess(job, number + 1))
                    for number in range(job.load.members)
                )
            except OSError as error:
                raise HarnessError(f"the application could not be started: {error}") from error
            yield cls(job, members)

    def wait_ready(self) -> None:
        """Wait until Kafka reports the group as stable, with a member of each instance.

        Raises:
            HarnessError: an instance exited before.
            WaitTimeout: the group was not stable in time.
        """
        states: list[str] = []
        wait_until(
            lambda: self._is_stable(states),
            awaiting=f"group {self.job.group} of the application to be stable",
            timeout_s=JOIN_TIMEOUT_S,
            every_s=_POLL_INTERVAL_S,
            seen=lambda: (
                f"{states[-1:]}; the application commits offsets as the group that it is given"
            ),
        )

    def _is_stable(self, states: list[str]) -> bool:
        # Faults know this module, and the light installation has no librdkafka.
        from ackbench.experiments.trial.clients.librdkafka import topics

        for member in self.members:
            member.require_alive()
        client = topics.admin_client(self.job.bootstrap_servers)
        described = client.describe_consumer_groups([self.job.group], request_timeout=5.0)
        try:
            group = described[self.job.group].result(timeout=10)
        except Exception as error:  # noqa: BLE001 - of librdkafka; no coordinator yet
            states.append(str(error))
            return False
        states.append(f"{group.state.name}, {len(group.members)} members")
        return bool(group.state.name == _STABLE and len(group.members) >= len(self.members))

    def unthrottle(self) -> None:
        """Do nothing: an application has its own speed."""

    def owner_of(self, partition: int) -> None:
        """Return `None`: which instance owns a partition is not asked."""
        del partition

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> GroupResult:
        """Wait until the group has committed up to these offsets, exclusive; end the instances.

        Raises:
            HarnessError: an instance has exited early, or no coordinator answers.
        """
        at_end = wait_until_committed(self.job, self.members, end_offsets, timeout_s)
        for member in self.members:
            member.finish()
        return GroupResult(
            committed=committed_offsets(self.job, end_offsets), at_end=at_end, group=self.job.number
        )

    @staticmethod
    def effective_settings() -> dict[str, str]:
        """Return nothing: the application's settings are its own."""
        return {}

    @staticmethod
    def reads(attempts: pa.Table) -> pa.Table:
        """Return an empty table: what the application read is not reported."""
        del attempts
        return READS.empty_table()

    def events(self) -> Iterator[Event]:
        """Yield the crashes of the instances."""
        for member in self.members:
            yield from member.events()

    def delete_files(self) -> None:
        """Delete nothing: the logs stay."""
