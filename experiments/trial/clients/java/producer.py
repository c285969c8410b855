"""Kafka's VerifiableProducer as a producer under test.

It starts to send once it has read its settings and created its client, and reports this with
`startup_complete`. From then on its throttler follows records / rate.

It can only warm up by sending. So its first records are warm-up records (`record.layout`), and the
trial's schedule begins after them: the JVM, the connections and the producer id are then as they
are under load.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackbench.experiments.ledger.schema import TRANSACTIONS
from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.trial.clients.java.log import (
    effective_settings,
    read_java_log,
    version_in,
)
from ackbench.experiments.trial.clients.java.program import (
    JavaProgram,
    OutputTail,
    parse_lines,
    trial_clock_ns,
)
from ackbench.experiments.trial.clients.java.tables import (
    JavaSchedule,
    java_attempts,
    trim_to_last_known,
)
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.record.layout import (
    TextValueFormat,
    trial_tag,
    value_prefix,
    warm_up_records,
)
from ackbench.experiments.trial.clients.settings.security import java_connection_settings
from ackbench.experiments.trial.events.clock import ahead_of_wall_ns
from ackbench.experiments.trial.events.journal import Event
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.commands import client_command, config_option
from ackbench.infra.process.waiting import wait_until

BEGIN_TIMEOUT_S: Final = 30.0
_POLL_INTERVAL_S: Final = 0.005
_REFUSED: Final = "AuthorizationException"
"""Ends the names of Kafka's exceptions for a missing permission."""
_REPORTS: Final = ("producer_send_success", "producer_send_error")


class JavaProducer(JavaProgram):
    """Implements `interface.Producer` with VerifiableProducer.

    Args:
        job: the job description, with Java's names of settings.
        version: Kafka's version.
        cache: the cache folder with the jars of that version.
    """

    def __init__(self, job: ProducerJob, version: str, cache: Path) -> None:
        self.job, self._ahead_ns, self._acked = job, ahead_of_wall_ns(), 0
        self._started_ms, self._warm_up_records = 0, warm_up_records(job.rate_records_per_s)
        super().__init__(
            f"producer {job.producer}",
            self._command(job, version, cache),
            self._config_option(version),
            job.passed_settings,
            java_connection_settings(job.bootstrap_servers),
            job.folder,
        )
        self._tail = OutputTail(self.output, "startup_complete", *_REPORTS)

    def __enter__(self) -> Self:
        """Return the producer; leaving the context kills it."""
        return self

    def wait_ready(self) -> None:
        """Wait until the JVM is up and blocks on its settings.

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
        return trial_clock_ns(self._started_ms, self._ahead_ns) + round(
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

        Raises:
            HarnessError: it exited with an error, or not in time.
        """
        self.wait_for_exit(timeout_s)
        version = version_in(self._read_log()) or "unknown"
        return ProducerSummary(
            producer=self.job.producer,
            records=self.job.records,
            version=f"java {version}",
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
        """Yield the events in the client's log so far (`java.log`)."""
        return read_java_log(self._read_log(), self.name, self.job.topic, self._ahead_ns)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings that the client reports in its log."""
        return effective_settings(self._read_log(), self.job.settings)

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return the attempts (`java.tables`); valid after a crash too."""
        lines = parse_lines(self.output.read_bytes(), *_REPORTS)
        table = java_attempts(lines, log if self.job.create_time else None, self._schedule())
        return table if self.has_succeeded() else trim_to_last_known(table, log)

    def transactions(self, attempts: pa.Table) -> pa.Table:
        """Return an empty table: VerifiableProducer has no transactions."""
        del attempts
        return TRANSACTIONS.empty_table()

    @staticmethod
    def sent() -> None:
        """Return `None`: VerifiableProducer does not report its records' fields."""

    @staticmethod
    def served() -> None:
        """Return `None`: VerifiableProducer does not report the broker of an acknowledgement."""

    @property
    def restartable(self) -> None:
        """`None`: the reports of a killed VerifiableProducer would be incomplete."""

    def delete_files(self) -> None:
        """Delete the reports; the log stays."""
        self.output.unlink()

    @staticmethod
    def _command(job: ProducerJob, version: str, cache: Path) -> list[str]:
        return [*client_command(cache, version, "VerifiableProducer"), *arguments(job)]

    @staticmethod
    def _config_option(version: str) -> str:
        return config_option(version, "VerifiableProducer")

    def _schedule(self) -> JavaSchedule:
        job, text = self.job, TextValueFormat(trial_tag(self.job.token), self._warm_up_records)
        retries = int(self.effective_settings()["retries"])
        return JavaSchedule(
            job.producer,
            text,
            job.records,
            job.rate_records_per_s,
            job.keys.count,
            retries,
            self.began_ns(),
            self._ahead_ns,
        )

    def _has_begun(self) -> bool:
        self._read_reports()
        if not self._started_ms:
            self.require_alive()
        return self._started_ms > 0

    def _read_reports(self) -> None:
        for line in self._tail.new_lines():
            if line["name"] == "startup_complete":
                self._started_ms = line["timestamp"]
            self._acked += line["name"] == "producer_send_success"
            if not self._acked and _REFUSED in str(line.get("exception")):
                raise HarnessError(
                    f"{self.name} was refused: {line['exception']}: {line.get('message')}"
                )

    def _read_log(self) -> str:
        return self.log.read_text(errors="replace")


def arguments(job: ProducerJob) -> list[str]:
    """Return VerifiableProducer's arguments, without its properties file."""
    keys = ["--repeating-keys", str(job.keys.count)] if job.keys.count else []
    options = {
        "--bootstrap-server": job.bootstrap_servers,
        "--topic": job.topic,
        "--max-messages": job.records + warm_up_records(job.rate_records_per_s),
        "--throughput": round(job.rate_records_per_s),
        "--value-prefix": value_prefix(job.token, job.producer),
    }
    return [*(str(argument) for option in options.items() for argument in option), *keys]
