"""A client's program as the concurrent consumer: the only member of its group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from ackbench.experiments.ledger.schema import LOG
from ackbench.experiments.trial.clients.consumer.process import ConsumerJob, ConsumerResult
from ackbench.experiments.trial.clients.programs.dialect import Dialect
from ackbench.experiments.trial.clients.programs.program import (
    OutputTail,
    VerifiableProgram,
    parse_lines,
)
from ackbench.experiments.trial.clients.programs.tables import reported_reads
from ackbench.experiments.trial.clients.record.layout import TextValueFormat, trial_tag
from ackbench.experiments.trial.clients.settings.security import java_connection_settings
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.process.waiting import wait_until

ASSIGN_TIMEOUT_S: Final = 60.0
_POLL_INTERVAL_S: Final = 0.02


class VerifiableConsumer(VerifiableProgram):
    """Implements `interface.ConcurrentConsumer` with a program.

    Args:
        job: the job description, with Java's names of settings.
        dialect: starts the program, and reads what it reports.
    """

    def __init__(self, job: ConsumerJob, dialect: Dialect) -> None:
        self.job = job
        self._assigned: set[int] = set()
        self._next_offset: dict[int, int] = {}
        super().__init__(
            f"consumer {job.consumer}",
            dialect,
            "consumer",
            subscription_arguments(
                job.bootstrap_servers,
                job.topic,
                f"{job.topic}-consumer",
                job.passed_settings,
                overrides=dialect.overrides_settings,
            ),
            job.passed_settings,
            java_connection_settings(job.bootstrap_servers),
            job.folder,
        )
        self._tail = OutputTail(
            self.output,
            "startup_complete",
            "partitions_assigned",
            "partitions_revoked",
            "records_consumed",
        )

    def wait_ready(self) -> None:
        """Wait until the group has assigned every partition; it reads them from the beginning.

        Raises:
            HarnessError: the process exited, or the assignment took too long.
        """
        self.wait_started()
        self.send_settings()
        wait_until(
            self._has_all_partitions,
            awaiting=f"{self.name} to be assigned {self.job.partitions} partitions",
            timeout_s=ASSIGN_TIMEOUT_S,
            every_s=_POLL_INTERVAL_S,
            seen=self._describe_assignment,
        )

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> ConsumerResult:
        """Have the consumer read to these offsets, exclusive; then shut it down cleanly.

        Not reaching them within the timeout is a result, not an error; see `ConsumerResult`. So is
        a program that gives up with an error of its client: it exits with code 0.

        Raises:
            HarnessError: the process has died.
        """
        try:
            wait_until(
                lambda: self._is_at(end_offsets),
                awaiting=f"{self.name} to reach the end offsets",
                timeout_s=timeout_s,
                every_s=_POLL_INTERVAL_S,
            )
            at_end = True
        except WaitTimeout:
            at_end = False
        self.require_not_died()
        self.terminate()
        return ConsumerResult(
            records=len(self._lines()),
            at_end=at_end,
            where="" if at_end else self._describe_lag(end_offsets),
        )

    def events(self) -> Iterator[Event]:
        """Yield the events in the client's log so far."""
        return self._dialect.events(self._read_log(), self.name, self.job.topic, self._ahead_ns)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the client reports, or that it was given."""
        return self._dialect.effective_settings(
            self._read_log(), self._started, self.job.settings, self.job.passed_settings
        )

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the received records (`programs.tables`)."""
        return reported_reads(
            self._lines(),
            attempts,
            self.job.consumer,
            TextValueFormat(trial_tag(self.job.token), self.job.warm_up_records),
            self._ahead_ns,
        )

    @staticmethod
    def served() -> None:
        """Return `None`: such programs do not report which broker it fetched from."""

    def _lines(self) -> pa.Table:
        return parse_lines(self.output.read_bytes(), "record_data")

    @staticmethod
    def expired_records(begin_offsets: Mapping[int, int]) -> pa.Table:
        """Return an empty table: such programs do not report a record's timestamp."""
        del begin_offsets
        return LOG.empty_table()

    def _has_all_partitions(self) -> bool:
        self.require_alive()
        self._read_reports()
        return len(self._assigned) == self.job.partitions

    def _is_at(self, end_offsets: Mapping[int, int]) -> bool:
        """Whether all offsets are reached; stop waiting if the process has exited.

        Check for the exit before reading: the reports of an exited process are complete.
        """
        has_exited = self.has_exited()
        self._read_reports()
        is_at_end = all(
            self._next_offset.get(number, 0) >= end for number, end in end_offsets.items()
        )
        if has_exited and not is_at_end:
            raise WaitTimeout(f"{self.describe_exit()}; {self.log_excerpt()}")
        return is_at_end

    def _read_reports(self) -> None:
        self._read_new(self._tail, self._read_partitions)

    def _read_partitions(self, line: Mapping[str, Any]) -> None:
        numbers = {partition["partition"] for partition in line["partitions"]}
        if line["name"] == "partitions_assigned":
            self._assigned |= numbers
        elif line["name"] == "partitions_revoked":
            self._assigned -= numbers
        else:
            self._next_offset |= {
                partition["partition"]: partition["maxOffset"] + 1
                for partition in line["partitions"]
            }

    def _describe_lag(self, end_offsets: Mapping[int, int]) -> str:
        behind = {
            number: end
            for number, end in end_offsets.items()
            if self._next_offset.get(number, 0) < end
        }
        offsets = "; ".join(
            f"partition {number} is at offset {self._next_offset.get(number, 0)} of {end}"
            for number, end in behind.items()
        )
        return f"{offsets}; {self.log_excerpt()}" if self.has_exited() else offsets

    def _describe_assignment(self) -> str:
        return f"{len(self._assigned)} assigned; {self.log_excerpt()}"


ASSIGNMENT_STRATEGY: Final = "partition.assignment.strategy"
_ASSIGNORS: Final = "org.apache.kafka.clients.consumer."
_ASSIGNOR_CLASSES: Final = {
    "range": f"{_ASSIGNORS}RangeAssignor",
    "roundrobin": f"{_ASSIGNORS}RoundRobinAssignor",
    "cooperative-sticky": f"{_ASSIGNORS}CooperativeStickyAssignor",
}
"""Kafka's classes by librdkafka's names of them."""
_PROGRAM_DEFAULTS: Final = {"auto.offset.reset": "earliest", "group.protocol": "classic"}
"""The values that Kafka's program has without an option; older ones do not have the option."""


def subscription_arguments(
    servers: str, topic: str, group: str, given: Mapping[str, str], *, overrides: bool
) -> list[str]:
    """Return the arguments of a program that reads a topic as a member of a group.

    Args:
        servers: the bootstrap servers.
        topic: the topic.
        group: the `group.id`.
        given: the settings that the program is passed in its properties file.
        overrides: whether it sets some of them itself unless arguments do
            (`Dialect.overrides_settings`).
    """
    arguments = ["--verbose", "--bootstrap-server", servers, "--topic", topic, "--group-id", group]
    if given.get("enable.auto.commit", "true") == "true":
        arguments.append("--enable-autocommit")
    options = {
        "--session-timeout": "session.timeout.ms",
        "--group-protocol": "group.protocol",
        "--reset-policy": "auto.offset.reset",
        "--assignment-strategy": ASSIGNMENT_STRATEGY,
    }
    for option, name in options.items() if overrides else ():
        if name in given and given[name] != _PROGRAM_DEFAULTS.get(name):
            arguments += [option, _ASSIGNOR_CLASSES.get(given[name], given[name])]
    return arguments
