"""Kafka's own VerifiableConsumer as the reader along: a group of one, which reads every partition from its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

from experiments.clients.consumer.process import ConsumerJob, ConsumerResult
from experiments.clients.java.log import effective_settings, read_java_log
from experiments.clients.java.program import JavaProgram, OutputTail, parse_lines
from experiments.clients.java.tables import java_reads
from experiments.clients.record.layout import TextValueFormat, trial_tag
from experiments.events.clock import ahead_of_wall_ns
from experiments.events.journal import Event
from experiments.ledger.schema import LOG
from infra.errors import WaitTimeout
from infra.kafka.commands import client_command, config_option
from infra.process.waiting import wait_until

ASSIGN_TIMEOUT_S: Final = 60.0
_EVERY_S: Final = 0.02


class JavaConsumer(JavaProgram):
    """Implements `under_test.ReaderUnderTest`.

    Args:
        job: what it is to do; the settings by Java's names.
        version: of Kafka.
        cache: where its jars lie.
    """

    def __init__(self, job: ConsumerJob, version: str, cache: Path) -> None:
        self.job, self._ahead_ns = job, ahead_of_wall_ns()
        self._assigned: set[int] = set()
        self._next_offset: dict[int, int] = {}
        command = [*client_command(cache, version, "VerifiableConsumer"), *_arguments(job)]
        super().__init__(
            f"reader {job.consumer}",
            command,
            config_option(version, "VerifiableConsumer"),
            job.given,
            job.folder,
        )
        self._tail = OutputTail(
            self.output, "partitions_assigned", "partitions_revoked", "records_consumed"
        )

    def __enter__(self) -> Self:
        """Return the reader; it ends with the context for certain."""
        return self

    def wait_ready(self) -> None:
        """Return when its group has assigned it every partition; it then reads from their starts.

        Raises:
            HarnessError: it ended before, or the group did not come to it in time.
        """
        self.wait_held()
        self.let_go()
        wait_until(
            self._has_all,
            awaiting=f"{self.name} to be assigned {self.job.partitions} partitions",
            timeout_s=ASSIGN_TIMEOUT_S,
            every_s=_EVERY_S,
            seen=self._seen,
        )

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> ConsumerResult:
        """Let it read on to these offsets, exclusive, for so long at most; end it cleanly.

        That it did not come so far is a finding, not an error: see `Ending`.
        """
        try:
            wait_until(
                lambda: self._is_at(end_offsets),
                awaiting=f"{self.name} to come to the end",
                timeout_s=timeout_s,
                every_s=_EVERY_S,
            )
            at_end = True
        except WaitTimeout:
            at_end = False
        self.terminate()
        return ConsumerResult(
            records=len(self._lines()),
            at_end=at_end,
            where="" if at_end else self._where(end_offsets),
        )

    def events(self) -> Iterator[Event]:
        """Give what its log tells so far; see `java_log`."""
        return read_java_log(self._logged(), self.name, self.job.topic, self._ahead_ns)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings it says it runs with."""
        return {**self.job.settings, **effective_settings(self._logged())}

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return what it read; see `java_tables`."""
        return java_reads(
            self._lines(),
            attempts,
            self.job.consumer,
            TextValueFormat(trial_tag(self.job.token), self.job.warm_up_records),
            self._ahead_ns,
        )

    @staticmethod
    def served() -> None:
        """Return nothing: VerifiableConsumer does not report which broker it fetched from."""

    def delete_files(self) -> None:
        """Remove what it reported; its log stays."""
        self.output.unlink()

    def _lines(self) -> pa.Table:
        return parse_lines(self.output.read_bytes(), "record_data")

    @staticmethod
    def expired_records(begin_offsets: Mapping[int, int]) -> pa.Table:
        """Return nothing: VerifiableConsumer does not tell a record's timestamp."""
        del begin_offsets
        return LOG.empty_table()

    def _has_all(self) -> bool:
        self.require_alive()
        self._listen()
        return len(self._assigned) == self.job.partitions

    def _is_at(self, end_offsets: Mapping[int, int]) -> bool:
        """A program that has ended gets no further."""
        ended = self.has_ended()
        self._listen()
        there = all(self._next_offset.get(number, 0) >= end for number, end in end_offsets.items())
        if ended and not there:
            raise WaitTimeout(f"{self.name} ended early; {self.last_words()}")
        return there

    def _listen(self) -> None:
        for line in self._tail.more():
            numbers = {told["partition"] for told in line["partitions"]}
            if line["name"] == "partitions_assigned":
                self._assigned |= numbers
            elif line["name"] == "partitions_revoked":
                self._assigned -= numbers
            else:
                self._next_offset |= {
                    told["partition"]: told["maxOffset"] + 1 for told in line["partitions"]
                }

    def _where(self, end_offsets: Mapping[int, int]) -> str:
        behind = {
            number: end
            for number, end in end_offsets.items()
            if self._next_offset.get(number, 0) < end
        }
        places = "; ".join(
            f"partition {number} is at offset {self._next_offset.get(number, 0)} of {end}"
            for number, end in behind.items()
        )
        return f"{places}; {self.last_words()}" if self.has_ended() else places

    def _seen(self) -> str:
        return f"{len(self._assigned)} assigned; {self.last_words()}"

    def _logged(self) -> str:
        return self.log.read_text(errors="replace")


def _arguments(job: ConsumerJob) -> list[str]:
    """What the command line says wins over the file of settings, so what the program would set by itself is said there."""
    given, words = (
        job.given,
        [
            "--verbose",
            "--bootstrap-server",
            job.bootstrap_servers,
            "--topic",
            job.topic,
            "--group-id",
            f"ackbench-{job.topic}",
        ],
    )
    if given.get("enable.auto.commit", "true") == "true":
        words.append("--enable-autocommit")
    said = {"--session-timeout": "session.timeout.ms", "--group-protocol": "group.protocol"}
    return words + [
        word for argument, name in said.items() if name in given for word in (argument, given[name])
    ]
