"""Kafka's own VerifiableProducer as a producer under test.

It begins to send when it has read its settings and made its client, and says so by `startup_complete`: that is the schedule's begin, and its
throttler keeps to records / rate from there on. It cannot warm up but by sending, so its first seconds are a run-in (`java_value`): the trial's
schedule begins behind it, with the JVM, the client, its connections and its producer id as they are under load.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from experiments.clients.java.log import effective_settings, read_java_log, version_in
from experiments.clients.java.program import JavaProgram, OutputTail, parse_lines, trial_clock_ns
from experiments.clients.java.tables import JavaSchedule, java_attempts, trim_to_last_known
from experiments.clients.producer.job import ProducerJob
from experiments.clients.record.layout import (
    TextValueFormat,
    trial_tag,
    value_prefix,
    warm_up_records,
)
from experiments.events.clock import ahead_of_wall_ns
from experiments.events.journal import Event
from experiments.ledger.record import ProducerSummary
from experiments.ledger.schema import TRANSACTIONS
from infra.kafka.commands import client_command, config_option
from infra.process.waiting import wait_until

BEGIN_TIMEOUT_S: Final = 30.0
_EVERY_S: Final = 0.005
_REPORTS: Final = ("producer_send_success", "producer_send_error")


class JavaProducer(JavaProgram):
    """Implements `under_test.ProducerUnderTest`.

    Args:
        job: what it is to do; the settings by Java's names.
        version: of Kafka.
        cache: where its jars lie.
    """

    def __init__(self, job: ProducerJob, version: str, cache: Path) -> None:
        self.job, self._ahead_ns, self._acked = job, ahead_of_wall_ns(), 0
        self._started_ms, self._warm_up_records = 0, warm_up_records(job.rate_records_per_s)
        command = [*client_command(cache, version, "VerifiableProducer"), *_arguments(job)]
        super().__init__(
            f"producer {job.producer}",
            command,
            config_option(version, "VerifiableProducer"),
            job.given,
            job.folder,
        )
        self._tail = OutputTail(self.output, "startup_complete", "producer_send_success")

    def __enter__(self) -> Self:
        """Return the producer; it ends with the context for certain."""
        return self

    def wait_ready(self) -> None:
        """Return when its JVM is up and only its settings are missing.

        Raises:
            HarnessError: it ended before, or did not come so far in time.
        """
        self.wait_held()

    def begin(self, start_ns: int) -> None:
        """Let it run in: as soon as it has made its client, which it alone decides."""
        del start_ns
        self._ahead_ns = ahead_of_wall_ns()
        self.let_go()

    def began_ns(self) -> int:
        """Return when its run-in is over, by its own account and its rate; known as soon as that begins.

        Raises:
            HarnessError: it ended before.
        """
        wait_until(
            self._has_begun,
            awaiting=f"{self.name} to begin",
            timeout_s=BEGIN_TIMEOUT_S,
            every_s=_EVERY_S,
            seen=self.last_words,
        )
        return trial_clock_ns(self._started_ms, self._ahead_ns) + round(
            self._warm_up_records / self.job.rate_records_per_s * 1e9
        )

    def acked_records(self) -> int:
        """How many records it has reported as acknowledged, those of its run-in among them."""
        self._listen()
        return self._acked

    def wait_done(self, timeout_s: float) -> ProducerSummary:
        """Return when it has ended: it closes its client, which waits until every record is settled.

        Raises:
            HarnessError: it ended with an error, or was not done in time.
        """
        self.wait_ended(timeout_s)
        version = version_in(self._logged()) or "not known"
        return ProducerSummary(
            producer=self.job.producer,
            records=self.job.records,
            version=f"java {version}",
            lateness_us_p50=None,
            lateness_us_p99=None,
            lateness_us_max=None,
        )

    def complete_summary(self, summary: ProducerSummary, log: pa.Table) -> ProducerSummary:
        """Return its summary, with its lateness as far as the records in the log tell: by the millisecond."""
        attempts = self.attempts(log)
        late_us = (
            pc.subtract(attempts["sent_ns"], attempts["intended_ns"]).drop_null().to_numpy() / 1000
        )
        if not late_us.size:
            return summary
        p50, p99, highest = map(float, np.percentile(late_us, [50, 99, 100], method="inverted_cdf"))
        return summary.model_copy(
            update={"lateness_us_p50": p50, "lateness_us_p99": p99, "lateness_us_max": highest}
        )

    def events(self) -> Iterator[Event]:
        """Give what its log tells so far; see `java_log`."""
        return read_java_log(self._logged(), self.name, self.job.topic, self._ahead_ns)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings it says it runs with."""
        return {**self.job.settings, **effective_settings(self._logged())}

    def attempts(self, log: pa.Table) -> pa.Table:
        """Return what it attempted, alive or dead; see `java_tables`."""
        lines = parse_lines(self.output.read_bytes(), *_REPORTS)
        table = java_attempts(lines, log if self.job.create_time else None, self._schedule())
        return table if self.has_ended_well() else trim_to_last_known(table, log)

    @staticmethod
    def transactions(attempts: pa.Table) -> pa.Table:
        """Return none: VerifiableProducer sends in no transactions."""
        del attempts
        return TRANSACTIONS.empty_table()

    @staticmethod
    def sent() -> None:
        """Return nothing: VerifiableProducer does not report its records' fields."""

    @staticmethod
    def served() -> None:
        """Return nothing: VerifiableProducer does not report which broker acknowledged a record."""

    @property
    def restartable(self) -> None:
        """Nothing: the reports of a killed VerifiableProducer would be incomplete."""

    def delete_files(self) -> None:
        """Remove what it reported; its log stays."""
        self.output.unlink()

    def _schedule(self) -> JavaSchedule:
        job, text = self.job, TextValueFormat(trial_tag(self.job.token), self._warm_up_records)
        retries = int(self.effective_settings()["retries"])
        return JavaSchedule(
            job.producer,
            text,
            job.records,
            job.rate_records_per_s,
            job.keys,
            retries,
            self.began_ns(),
            self._ahead_ns,
        )

    def _has_begun(self) -> bool:
        self._listen()
        if not self._started_ms:
            self.require_alive()
        return self._started_ms > 0

    def _listen(self) -> None:
        for line in self._tail.more():
            if line["name"] == "startup_complete":
                self._started_ms = line["timestamp"]
            self._acked += line["name"] == "producer_send_success"

    def _logged(self) -> str:
        return self.log.read_text(errors="replace")


def _arguments(job: ProducerJob) -> list[str]:
    keys = ["--repeating-keys", str(job.keys)] if job.keys else []
    told = {
        "--bootstrap-server": job.bootstrap_servers,
        "--topic": job.topic,
        "--max-messages": job.records + warm_up_records(job.rate_records_per_s),
    }
    told |= {
        "--throughput": round(job.rate_records_per_s),
        "--value-prefix": value_prefix(job.token, job.producer),
    }
    return [*(str(word) for pair in told.items() for word in pair), *keys]
