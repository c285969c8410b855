"""A client's program as a producer under test (`docs/clients.md`).

It starts to send once it has read its settings and created its client, and reports this with
`startup_complete`. From then on it follows the schedule, records / rate.

It can only warm up by sending. So its first records are warm-up records (`record.layout`), and the
trial's schedule begins after them: the process, the connections and the producer id are then as
they are under load.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.planned import UNKNOWN_VERSION, recorded_client
from ackbench.experiments.ledger.schema import TRANSACTIONS
from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.programs.dialect import Dialect
from ackbench.experiments.trial.clients.programs.program import (
    OutputTail,
    VerifiableProgram,
    parse_lines,
    trial_clock_ns,
)
from ackbench.experiments.trial.clients.programs.silence import silence_events
from ackbench.experiments.trial.clients.programs.tables import (
    ERROR,
    SUCCESS,
    ProgramSchedule,
    report_problem,
    reported_attempts,
    trim_to_last_known,
)
from ackbench.experiments.trial.clients.record.layout import (
    TextValueFormat,
    trial_tag,
    value_prefix,
    warm_up_records,
)
from ackbench.experiments.trial.clients.settings.security import java_connection_settings
from ackbench.experiments.trial.events.clock import ahead_of_wall_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.process.waiting import wait_until

BEGIN_TIMEOUT_S: Final = 30.0
SILENT_S: Final = 60.0
"""After its last record was due, and the fault is healed, a client settles one more often."""
_POLL_INTERVAL_S: Final = 0.005
_REFUSED: Final = "AuthorizationException"
"""Ends the names of Kafka's exceptions for a missing permission."""
_RETRIES: Final = 2**31 - 1
"""Java's default of `retries`, for a program that does not name the setting."""
_REPORTS: Final = (SUCCESS, ERROR)


class VerifiableProducer(VerifiableProgram):
    """Implements `interface.Producer` with a program.

    Args:
        job: the job description, with Java's names of settings.
        dialect: starts the program, and reads what it reports.
    """

    def __init__(self, job: ProducerJob, dialect: Dialect) -> None:
        self.job, self._acked = job, 0
        self.hung: str | None = None
        self._warm_up_records = warm_up_records(job.rate_records_per_s)
        super().__init__(
            f"producer {job.producer}",
            dialect,
            "producer",
            self._arguments(),
            job.passed_settings,
            java_connection_settings(job.bootstrap_servers),
            job.folder,
        )
        self._tail = OutputTail(self.output, "startup_complete", *_REPORTS)

    def wait_ready(self) -> None:
        """Wait until the program is up and blocks on its settings.

        Raises:
            HarnessError: the process exited, or was not ready in time.
        """
        self.wait_started()

    def begin(self, start_ns: int) -> None:
        """Have the program create its client and send its warm-up records.

        The program decides itself when it starts, so the argument is ignored; see `began_ns`.
        """
        del start_ns
        self._ahead_ns = ahead_of_wall_ns()
        self.send_settings()

    def began_ns(self) -> int:
        """Return when the warm-up ends, from the reported start and the rate.

        Wait until the program has reported its start.

        Raises:
            HarnessError: the process exited before.
        """
        wait_until(
            self._has_begun,
            awaiting=f"{self.name} to report startup_complete",
            timeout_s=BEGIN_TIMEOUT_S,
            every_s=_POLL_INTERVAL_S,
            seen=self.log_excerpt,
        )
        return trial_clock_ns(self._started["timestamp"], self._ahead_ns) + round(
            self._warm_up_records / self.job.rate_records_per_s * 1e9
        )

    def acked_records(self) -> int:
        """Return how many records were reported as acknowledged, warm-up records included.

        Raises:
            HarnessError: the cluster refuses the first record, as a permission is missing.
        """
        self._read_reports()
        return self._acked

    def wait_done(self, timeout_s: float) -> ProducerSummary:
        """Wait until the process has exited; it first waits until every record is settled.

        One that then has reported nothing for `SILENT_S` hangs: it is killed, and what it has not
        reported is unknown.

        Raises:
            HarnessError: it exited with an error, reports what cannot be, or was late with reports.
        """
        try:
            self.wait_for_exit(timeout_s)
        except WaitTimeout:
            silent_s = time.time() - self.output.stat().st_mtime
            if silent_s < SILENT_S:
                raise
            self.kill()
            self.hung = (
                f"{self.name}: {timeout_s:.0f} s after its last record was due it had not exited, "
                f"and had reported no record for {silent_s:.0f} s"
            )
        if self._dialect.reports_once:
            lines = parse_lines(self.output.read_bytes(), *_REPORTS)
            if problem := report_problem(lines, self._schedule()):
                raise HarnessError(f"{self.name} cannot be trusted: {problem}")
        version = self._dialect.version(self._read_log(), self._started) or UNKNOWN_VERSION
        return ProducerSummary(
            producer=self.job.producer,
            records=self.job.records,
            version=recorded_client(self._dialect.kind, version),
            lateness_us_p50=None,
            lateness_us_p99=None,
            lateness_us_max=None,
        )

    def complete_summary(self, summary: ProducerSummary, log: pa.Table) -> ProducerSummary:
        """Return the summary with the lateness of the records in the log, in whole milliseconds."""
        attempts = self._by_schedule(self.attempts(log))
        late_us = (
            pc.subtract(attempts["sent_ns"], attempts["intended_ns"]).drop_null().to_numpy() / 1000
        )
        if not late_us.size:
            return summary
        p50, p99, highest = map(float, np.percentile(late_us, [50, 99, 100], method="inverted_cdf"))
        return summary.model_copy(
            update={"lateness_us_p50": p50, "lateness_us_p99": p99, "lateness_us_max": highest}
        )

    def _by_schedule(self, attempts: pa.Table) -> pa.Table:
        """Return the attempts that only the program itself can have delayed: all of them."""
        return attempts

    def events(self) -> Iterator[Event]:
        """Yield the events in the client's log so far; without time-outs there, its silences."""
        yield from self._dialect.events(self._read_log(), self.name, self.job.topic, self._ahead_ns)
        if self._dialect.logs_time_outs:
            return
        acked = parse_lines(self.output.read_bytes(), SUCCESS)
        acked_ns = (trial_clock_ns(ms, self._ahead_ns) for ms in acked["timestamp"].to_pylist())
        yield from silence_events(acked_ns, self.name)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the client reports, or that it was given."""
        return self._dialect.effective_settings(
            self._read_log(), self._started, self.job.settings, self.job.passed_settings
        )

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return the attempts (`programs.tables`); valid after a crash too."""
        lines = parse_lines(self.output.read_bytes(), *_REPORTS)
        table = reported_attempts(lines, log if self.job.create_time else None, self._schedule())
        return table if self.has_succeeded() else trim_to_last_known(table, log)

    def transactions(self, attempts: pa.Table) -> pa.Table:
        """Return an empty table: such programs have no transactions."""
        del attempts
        return TRANSACTIONS.empty_table()

    @staticmethod
    def sent() -> None:
        """Return `None`: such programs do not report its records' fields."""

    @staticmethod
    def served() -> None:
        """Return `None`: such programs do not report the broker of an acknowledgement."""

    @property
    def restartable(self) -> None:
        """`None`: the reports of a killed program would be incomplete."""

    def _arguments(self) -> list[str]:
        """Return the program's arguments, without its properties file."""
        job = self.job
        keys = ["--repeating-keys", str(job.keys.count)] if job.keys.count else []
        options = {
            "--bootstrap-server": job.bootstrap_servers,
            "--topic": job.topic,
            "--max-messages": job.records + self._warm_up_records,
            "--throughput": round(job.rate_records_per_s),
            "--value-prefix": value_prefix(job.token, job.producer),
        }
        return [*(str(argument) for option in options.items() for argument in option), *keys]

    def _schedule(self) -> ProgramSchedule:
        job, text = self.job, TextValueFormat(trial_tag(self.job.token), self._warm_up_records)
        retries = int(self.effective_settings().get("retries", _RETRIES))
        return ProgramSchedule(
            job.producer,
            text,
            job.records,
            job.rate_records_per_s,
            job.keys.count,
            partial(self._dialect.classify, retries=retries),
            self.began_ns(),
            self._ahead_ns,
        )

    def _has_begun(self) -> bool:
        self._read_reports()
        if not self._started:
            self.require_alive()
        return bool(self._started)

    def _read_reports(self) -> None:
        for line in self._tail.new_lines():
            if line["name"] == "startup_complete":
                self._note_start(line)
            self._acked += line["name"] == SUCCESS
            if not self._acked and _REFUSED in str(line.get("exception")):
                raise HarnessError(
                    f"{self.name} was refused: {line['exception']}: {line.get('message')}"
                )
