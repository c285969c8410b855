"""The concurrent consumer: its job, its process as the parent sees it, and the records it received.

The consumer reads in parallel with the load. What runs in its process is `consumer.main`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
from pydantic import Field

from ackbench.experiments.ledger.schema import SERVED
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.sweep.workload import Identity
from ackbench.experiments.trial.clients.consumer.reads import (
    load_expired_records,
    load_reads,
    to_reads_table,
)
from ackbench.experiments.trial.clients.librdkafka.interceptor_tables import (
    CELLS,
    ServedCell,
    served_table,
)
from ackbench.experiments.trial.clients.librdkafka.log import read_client_log
from ackbench.experiments.trial.clients.librdkafka.versions import library_variables
from ackbench.experiments.trial.clients.process.client_job import ClientJob
from ackbench.experiments.trial.clients.process.client_process import DONE, FINISH, ClientProcess
from ackbench.experiments.trial.clients.process.fork_server import SpawnRequest
from ackbench.experiments.trial.clients.process.mapped_file import reserve
from ackbench.experiments.trial.events.journal import Event

_MARGIN_S: Final = 10.0
"""How long a process may take to report its result after its own time limit."""


class ConsumerJob(ClientJob):
    """The job description of a consumer."""

    consumer: Annotated[int, Field(ge=0)] = 0
    generation: Annotated[int, Field(ge=0)] = 0
    partitions: Annotated[int, Field(gt=0)]
    settings: dict[str, str]
    """The effective settings, as far as they matter for correctness.

    `enable.partition.eof` is set in addition: it shows that a partition has been fetched.
    """
    record_serving_brokers: bool = False
    """Whether to record which broker each record was fetched from."""
    warm_up_records: Annotated[int, Field(ge=0)] = 0
    """How many records each producer sent before its schedule began; see `record.layout`."""
    identity: Identity = "value"
    """Where the records have their identity."""

    @property
    def stem(self) -> str:
        """The beginning of the names of its files."""
        return f"consumer-{self.consumer}"

    @property
    def reads(self) -> Path:
        """The mapped file with the received records (`consumer.reads`)."""
        return self.file("reads")

    @property
    def serving(self) -> Path:
        """The mapped file with the brokers that records were fetched from, if recorded."""
        return self.file("serving")


class FinishRequest(Frozen):
    """The parent's request to finish: read to these offsets, exclusive, or until the timeout."""

    end_offsets: dict[int, int]
    timeout_s: float


class ConsumerResult(Frozen):
    """How far a consumer read."""

    records: int
    at_end: bool
    """Whether it read every partition to the requested end."""
    where: str
    """The position of each partition that it did not read to the end; empty if `at_end`."""


class ConsumerProcess(ClientProcess):
    """A consumer in its own process.

    It starts to read on its own. It is ready once a broker has answered a fetch of each partition.
    """

    def __init__(self, job: ConsumerJob) -> None:
        self.job = job
        if job.record_serving_brokers:
            reserve(job.serving, ServedCell, CELLS)
        path = job.folder / f"consumer-{job.consumer}.json"
        path.write_text(job.model_dump_json())
        super().__init__(
            f"consumer {job.consumer}",
            SpawnRequest(
                role="consumer", job=path, server_environment=library_variables(job.client_version)
            ),
            job.folder / f"consumer-{job.consumer}.errors",
        )

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> ConsumerResult:
        """Have the consumer read to these offsets, exclusive, and wait until it has exited.

        A consumer that does not get there in time is a result, not an error: see
        `ConsumerResult.at_end`.

        Raises:
            HarnessError: the process exited early.
        """
        request = FinishRequest(end_offsets=dict(end_offsets), timeout_s=timeout_s)
        self.send_line(f"{FINISH} {request.model_dump_json()}")
        result = ConsumerResult.model_validate_json(self.expect_line(DONE, timeout_s + _MARGIN_S))
        self.wait_for_exit(_MARGIN_S)
        return result

    def events(self) -> Iterator[Event]:
        """Yield the events in librdkafka's log so far; see `read_client_log`."""
        return read_client_log(self.job.log.read_text(errors="replace"), self.name, self.job.topic)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings in effect.

        Those of the job if all were passed; with the client's own defaults, all that it reports.
        """
        return (
            self.job.settings
            if self.job.passed is None
            else dict(json.loads(self.job.effective.read_text()))
        )

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return the received records; schema `READS`.

        Each record carries its own intended time, so `attempts` is not needed.
        """
        del attempts
        return reads_table(self.job)

    def expired_records(self, begin_offsets: Mapping[int, int]) -> pa.Table:
        """Return the received records below these offsets, where partitions begin; schema `LOG`."""
        return load_expired_records(self.job.reads, begin_offsets)

    def served(self) -> pa.Table:
        """Return which brokers the records were fetched from; schema `SERVED`.

        Empty if the job does not ask to record it.
        """
        return (
            served_table(self.job.serving, "consumer")
            if self.job.record_serving_brokers
            else SERVED.empty_table()
        )

    def delete_files(self) -> None:
        """Delete the mapped files."""
        self.job.serving.unlink(missing_ok=True)
        self.job.reads.unlink()


def reads_table(job: ConsumerJob) -> pa.Table:
    """Return the records that a consumer received before it exited or was killed; schema `READS`.

    Raises:
        HarnessError: it left no mapped file.
    """
    return to_reads_table(load_reads(job.reads), job.consumer, job.generation)
