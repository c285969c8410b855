"""Readers: one that reads along while a trial runs, in a process of its own, and the final read of the whole log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
from pydantic import Field

from experiments.clients.consumer.expiry import read_before
from experiments.clients.consumer.final_read import read_log
from experiments.clients.librdkafka.log import read_client_log
from experiments.clients.librdkafka.noted import CELLS, Served, served_table
from experiments.clients.process.child import DONE, FINISH, Child
from experiments.clients.process.fork_server import SpawnRequest
from experiments.clients.process.mapped_file import reserve
from experiments.events.clock import anchor_ns
from experiments.events.journal import Event
from experiments.ledger.record import Frozen
from experiments.ledger.schema import SERVED

__all__ = [
    "ConsumerEnd",
    "ConsumerJob",
    "ConsumerProcess",
    "ReadPosition",
    "read_log",
    "reads_table",
]

_MARGIN_S: Final = 10.0
"""What a process may need to say so after its own time is up."""


class ConsumerJob(Frozen):
    """All that one reader is to do."""

    consumer: Annotated[int, Field(ge=0)] = 0
    generation: Annotated[int, Field(ge=0)] = 0
    bootstrap_servers: str
    topic: str
    partitions: Annotated[int, Field(gt=0)]
    settings: dict[str, str]
    """Those that hold, as far as they bear on correctness; `enable.partition.eof` is set on top, it tells what was fetched."""
    passed: dict[str, str] | None = None
    """What of them is passed, where the client is to keep its own defaults; `None`: all."""
    token: Annotated[int, Field(ge=0, lt=2**63)]
    folder: Path
    """Where its rows, log and errors are written."""
    record_serving_brokers: bool = False
    """Whether it is noted which broker its records were fetched from, see `serving`."""
    run_in_records: Annotated[int, Field(ge=0)] = 0
    """What each producer sent before its schedule began; see `java_value`."""
    anchor_ns: int = Field(default_factory=anchor_ns)
    """The parent's: all processes of a trial count time from one anchor."""

    @property
    def given(self) -> dict[str, str]:
        """What the client is given, the addresses apart."""
        return self.settings if self.passed is None else self.passed

    @property
    def effective(self) -> Path:
        """All that the client says of its settings, as JSON."""
        return self.folder / f"reader-{self.consumer}.effective.json"

    @property
    def reads(self) -> Path:
        """The mapping; see `reads`."""
        return self.folder / f"reader-{self.consumer}.reads"

    @property
    def serving(self) -> Path:
        """Which brokers its records were fetched from, where that is noted; see `serving`."""
        return self.folder / f"reader-{self.consumer}.serving"

    @property
    def log(self) -> Path:
        """What librdkafka has to say."""
        return self.folder / f"reader-{self.consumer}.log"


class ReadPosition(Frozen):
    """When to stop: at these offsets, or when the time is up."""

    end_offsets: dict[int, int]
    timeout_s: float


class ConsumerEnd(Frozen):
    """How a reader ended."""

    records: int
    at_end: bool
    """Every partition was read to the end it was told."""
    where: str
    """How far the partitions are that were not."""


class ConsumerProcess(Child):
    """A reader in a process of its own: it begins by itself, and is ready when a broker has answered a fetch of each partition."""

    def __init__(self, job: ConsumerJob) -> None:
        self.job = job
        if job.record_serving_brokers:
            reserve(job.serving, Served, CELLS)
        path = job.folder / f"reader-{job.consumer}.json"
        path.write_text(job.model_dump_json())
        super().__init__(
            f"reader {job.consumer}",
            SpawnRequest(role="reader", job=path),
            job.folder / f"reader-{job.consumer}.errors",
        )

    def finish(self, end_offsets: Mapping[int, int], timeout_s: float) -> ConsumerEnd:
        """Let it read on to these offsets, exclusive, for so long at most; return when it has ended.

        That it did not come so far is a finding, not an error: see `Ending`.

        Raises:
            HarnessError: it ended on the way.
        """
        self.tell(
            f"{FINISH} {ReadPosition(end_offsets=dict(end_offsets), timeout_s=timeout_s).model_dump_json()}"
        )
        ending = ConsumerEnd.model_validate_json(self.hear(DONE, timeout_s + _MARGIN_S))
        self.wait(_MARGIN_S)
        return ending

    def events(self) -> Iterator[Event]:
        """Give what librdkafka's log tells so far; see `client_log`."""
        return read_client_log(self.job.log.read_text(errors="replace"), self.name, self.job.topic)

    def effective_settings(self) -> dict[str, str]:
        """Return the settings it was given; where it keeps its own defaults, all that it tells."""
        return (
            self.job.settings
            if self.job.passed is None
            else dict(json.loads(self.job.effective.read_text()))
        )

    def reads(self, attempts: pa.Table) -> pa.Table:
        """Return what it read; see `reads_table`. Its records say themselves when they were meant to be sent."""
        del attempts
        return reads_table(self.job)

    def logged_before(self, begins: Mapping[int, int]) -> pa.Table:
        """Return what it read below these offsets, where partitions begin now; schema `LOG`."""
        return read_before(self.job.reads, begins)

    def served(self) -> pa.Table:
        """Return which brokers its records were fetched from; schema `SERVED`. Nothing, where that is not noted."""
        return (
            served_table(self.job.serving, "consumer")
            if self.job.record_serving_brokers
            else SERVED.empty_table()
        )

    def forget(self) -> None:
        """Remove the mapping."""
        self.job.serving.unlink(missing_ok=True)
        self.job.reads.unlink()


def reads_table(job: ConsumerJob) -> pa.Table:
    """Return what the reader read, whether it ended by itself or was killed; schema `READS`.

    Raises:
        HarnessError: it left nothing.
    """
    from experiments.clients.consumer.reads import reads_in, reads_of

    return reads_of(reads_in(job.reads), job.consumer, job.generation)
