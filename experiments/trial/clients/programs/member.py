"""A client's program as a member of a consumer group, through all its generations.

It commits after each poll what it has reported, or its client commits by itself; one that copies
commits as its job says. A record counts as processed once the program has reported it in a complete
line, which outlives the process: of one that copies, once its copy is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from ackbench.experiments.ledger.schema import READS
from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.clients.group.generations import Generations
from ackbench.experiments.trial.clients.group.jobs import MemberJob
from ackbench.experiments.trial.clients.group.messages import (
    ASSIGNED,
    COMMIT_REFUSED,
    JOINED,
    LEFT,
    LOST,
    RELEASED,
    REVOKED,
    Breakpoint,
)
from ackbench.experiments.trial.clients.programs.consumer import subscription_arguments
from ackbench.experiments.trial.clients.programs.dialect import Dialect
from ackbench.experiments.trial.clients.programs.program import (
    OutputTail,
    VerifiableProgram,
    parse_lines,
    trial_clock_ns,
)
from ackbench.experiments.trial.clients.programs.tables import reported_reads
from ackbench.experiments.trial.clients.record.layout import TextValueFormat, trial_tag
from ackbench.experiments.trial.clients.settings.security import java_connection_settings
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import HarnessError
from ackbench.infra.process.waiting import wait_until

_EXIT_TIMEOUT_S: Final = 30.0
"""What it can take to leave a group whose coordinator was just elected."""
_POLL_INTERVAL_S: Final = 0.02
_NS_PER_MS: Final = 1_000_000
_REPORTS: Final = (
    "startup_complete",
    "partitions_assigned",
    "partitions_revoked",
    "records_consumed",
    "offsets_committed",
    "shutdown_complete",
)


class _Generation(VerifiableProgram):
    """One process of a member, and what it reported so far.

    Args:
        job: of this generation.
        dialect: starts the program, and reads what it reports.
    """

    def __init__(self, job: MemberJob, dialect: Dialect) -> None:
        self.job = job
        self.uncommitted_records = 0
        """Reported since the last commit that was reported as done."""
        self.in_group = False
        self._reported: list[Event] = []
        self._assignment_ms = 0
        self._is_started = False
        super().__init__(
            job.name,
            dialect,
            "consumer",
            [
                *subscription_arguments(
                    job.bootstrap_servers,
                    job.topic,
                    job.settings["group.id"],
                    job.settings,
                    overrides=dialect.overrides_settings,
                ),
                *_copy_arguments(job),
            ],
            {**job.settings, **_producer_settings(job)},
            java_connection_settings(job.bootstrap_servers),
            job.folder,
        )
        self._tail = OutputTail(self.output, *_REPORTS)

    def start_client(self) -> None:
        """Give the program its settings, once; it then joins the group on its own.

        Raises:
            HarnessError: the process has exited.
        """
        if not self._is_started:
            self.wait_started()
            self.send_settings()
            self._is_started = True

    def wait_in_group(self, timeout_s: float) -> None:
        """Wait until the group has assigned partitions to the member, or none."""
        self.start_client()
        wait_until(
            self._is_in_group,
            awaiting=f"{self.name} to be accepted by its group",
            timeout_s=timeout_s,
            every_s=_POLL_INTERVAL_S,
            seen=self.log_excerpt,
        )

    def leave(self) -> None:
        """Have the program leave its group and exit.

        Raises:
            HarnessError: it does not exit.
        """
        self.require_alive()
        self.request_exit()
        if not self.wait(_EXIT_TIMEOUT_S):
            raise HarnessError(
                f"{self.name} did not leave its group within {_EXIT_TIMEOUT_S:g} s of SIGTERM; "
                f"{self.log_excerpt()}"
            )

    def reported_events(self) -> list[Event]:
        """Return the events that the program has reported so far, in their order."""
        self._read_reports()
        return self._reported

    def log_events(self) -> Iterator[Event]:
        """Yield the events in the client's log so far."""
        return self._dialect.events(self._read_log(), self.name, self.job.topic, self._ahead_ns)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the client reports, or that it was given."""
        return self._dialect.effective_settings(
            self._read_log(), self._started, self.job.settings, self.job.settings
        )

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the records that this generation processed; schema `READS`."""
        return reported_reads(
            parse_lines(self.output.read_bytes(), "record_data"),
            attempts,
            self.job.consumer,
            TextValueFormat(trial_tag(self.job.token), self.job.warm_up_records),
            self._ahead_ns,
            self.job.generation,
        )

    def _is_in_group(self) -> bool:
        self.require_alive()
        self._read_reports()
        return self.in_group

    def _read_reports(self) -> None:
        self._read_new(self._tail, lambda line: self._reported.extend(self._read_report(line)))

    def _read_report(self, line: Mapping[str, Any]) -> list[Event]:
        if line["name"] == "records_consumed":
            self.uncommitted_records += int(line["count"])
            return []
        if line["name"] == "offsets_committed":
            return self._read_commit(line)
        if line["name"] == "shutdown_complete":
            return [self._event(line, LEFT)]
        numbers = sorted(partition["partition"] for partition in line["partitions"])
        if line["name"] == "partitions_assigned":
            first = [] if self.in_group else [self._event(line, JOINED)]
            self.in_group, self._assignment_ms = True, int(line["timestamp"])
            assigned = [self._event(line, ASSIGNED, partition=number) for number in numbers]
            return first + (assigned or [self._event(line, ASSIGNED, "none")])
        removed = self._dialect.was_removed(self._read_log(), self._assignment_ms)
        how = LOST if removed else RELEASED
        return [self._event(line, REVOKED, how, partition=number) for number in numbers]

    def _read_commit(self, line: Mapping[str, Any]) -> list[Event]:
        if line["success"]:
            self.uncommitted_records = 0
            return []
        error = str(line.get("error"))[:200]
        return [
            self._event(
                line, COMMIT_REFUSED, error, partition=place["partition"], offset=place["offset"]
            )
            for place in line["offsets"]
        ]

    def _event(
        self,
        line: Mapping[str, Any],
        kind: str,
        detail: str = "",
        *,
        partition: int | None = None,
        offset: int | None = None,
    ) -> Event:
        return Event(
            trial_clock_ns(int(line["timestamp"]), self._ahead_ns) + _NS_PER_MS,
            kind,
            Source.CLIENT,
            _NS_PER_MS + abs(self._ahead_ns),
            partition=partition,
            offset=offset,
            detail=f"{self.name}: {detail}".removesuffix(": "),
        )


def _copy_arguments(job: MemberJob) -> list[str]:
    """Return the further arguments of a program that copies; empty: the member does not copy."""
    if job.output is None:
        return []
    options = {
        "--output-topic": job.output.topic,
        "--output-partitions": job.output.partitions,
        "--commit": job.commit,
    }
    return [str(argument) for option in options.items() for argument in option]


def _producer_settings(job: MemberJob) -> dict[str, str]:
    """Return the properties of a copier's producer, each with a prefix; empty: it has none."""
    settings = job.output.settings if job.output else {}
    return {f"producer.{name}": text for name, text in settings.items()}


class ProgramMember(Generations[_Generation]):
    """Implements `group.members.Member` with a program, as a context manager.

    Args:
        job: of its first generation.
        dialect: starts the program, and reads what it reports.
    """

    def __init__(self, job: MemberJob, dialect: Dialect) -> None:
        self._first, self._dialect = job, dialect
        super().__init__(job.member_name)

    def _start(self, generation: int) -> _Generation:
        job = self._first.model_copy(update={"generation": generation})
        return _Generation(job, self._dialect)

    @property
    def job(self) -> MemberJob:
        """The job of the current or last generation."""
        return self._now.job

    def start_client(self) -> None:
        """Let the program start its client, which joins the group; see `_Generation`."""
        self._now.start_client()

    def wait_in_group(self, timeout_s: float) -> None:
        """Wait until the group has accepted the member; see `group.members.Member`."""
        self._now.wait_in_group(timeout_s)

    def unthrottle(self) -> None:
        """Do nothing: such members are never slow."""

    def finish(self) -> None:
        """Have the program leave its group and exit; it has committed what it reported."""
        self._now.leave()

    def leave(self) -> None:
        """Have the program leave its group and exit; `restart` brings it back."""
        self.finish()

    def restart(self) -> None:
        """Start the next generation, and let its client start.

        Raises:
            HarnessError: it could not be started.
        """
        super().restart()
        self.start_client()

    @staticmethod
    def hold_at(point: Breakpoint) -> None:
        """Return `None`: the program does not wait where the trial wants it to."""
        del point

    def release(self) -> None:
        """Do nothing: the program was not held."""

    def uncommitted_records(self) -> int | None:
        """Return how many records it has reported since its last commit.

        `None`: its client commits by itself, and does not report it.
        """
        if self.job.commit == "auto":
            return None
        self._now.reported_events()
        return self._now.uncommitted_records

    def own_events(self) -> Iterator[Event]:
        """Yield the events that the program reported, in all generations."""
        for generation in self._generations:
            yield from generation.reported_events()

    def events(self) -> Iterator[Event]:
        """Yield all events: crashes, the reported ones, and those in the client's logs."""
        yield from super().events()
        yield from self.own_events()
        for generation in self._generations:
            yield from generation.log_events()

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the records that all generations processed; schema `READS`."""
        tables = (generation.reads(attempts) for generation in self._generations)
        return pa.concat_tables([READS.empty_table(), *tables])

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the client reports, or that it was given."""
        return self._now.effective_settings()

    def delete_files(self) -> None:
        """Delete the reports; the logs stay."""
        for generation in self._generations:
            generation.delete_files()
