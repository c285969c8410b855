"""The measuring job on a session of Spark Connect, which has neither a context nor RDDs.

The plan is a DataFrame with a row per unit. The task of a trial that is one unit returns the
trial's tables (`mapInArrow`). The measures of a divided trial's units go through a shuffle, in
pieces, to one task that adds them up (`applyInArrow`). This process holds the compressed tables of
all trials, which are small: the number of their rows is bounded, whatever that of the records.

The server's Python needs numpy, pyarrow and pydantic, as an executor does; the session sends the
job's code.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ackbench.experiments.ledger.spark_settings import SparkSetupError
from ackbench.spark_jobs.application import Application
from ackbench.spark_jobs.configuration import ContextRequest, check_master
from ackbench.spark_jobs.distribution import (
    MeasuredTrials,
    merged_outcomes,
    trial_outcome,
    unit_pieces,
)
from ackbench.spark_jobs.executors import explain_failure, job_failure, last_error, write_package
from ackbench.spark_jobs.io.ledgers import Ledgers
from ackbench.spark_jobs.io.transport import Piece
from ackbench.spark_jobs.io.units import Unit, split
from ackbench.spark_jobs.pipeline import verify_and_measure
from ackbench.spark_jobs.python_daemon import allow_pandas

OWN_SETTINGS: Final = "spark.ackbench."
"""These are the job's; a server refuses what it does not know."""
_TASKS: Final = 1000
"""The most tasks; each measures one unit after the other."""
_UNITS: Final = pa.schema([("number", pa.int64()), ("unit", pa.binary())])
_PIECES: Final = pa.schema(
    [
        ("trial_id", pa.string()),
        ("value", pa.int64()),
        ("number", pa.int64()),
        ("pieces", pa.int64()),
        ("data", pa.binary()),
    ]
)
_OUTCOMES: Final = pa.schema([("outcome", pa.binary())])
_PIECES_DDL: Final = "trial_id string, value long, number long, pieces long, data binary"
_OUTCOMES_DDL: Final = "outcome binary"


@dataclass(frozen=True)
class ConnectApplication(Application):
    """A session of a Connect server."""

    session: SparkSession
    master: str
    settings: dict[str, str]
    """Of the job."""
    version: str
    """The server's Spark."""

    def setting(self, name: str) -> str | None:
        """Return the value of one of the job's settings."""
        return self.settings.get(name)

    def failures(self) -> AbstractContextManager[None]:
        """Return a context that turns failures of the server into reasons."""
        return _failures(self.master, self.version)

    def end_jobs(self) -> None:
        """Interrupt what the session has begun."""
        self.session.interruptAll()

    @property
    def has_ended(self) -> bool:
        """Whether the session was closed or the server ended it."""
        return bool(self.session.is_stopped)  # type: ignore[attr-defined]  # of Connect's alone

    def measure_trials(self, ledgers: Ledgers, unit_records: int) -> MeasuredTrials:
        """Measure each trial."""
        units = split(ledgers.trials, unit_records)
        entire = [unit for unit in units if unit.is_whole_trial]
        divided = [unit for unit in units if not unit.is_whole_trial]
        parts = []
        if entire:
            measure = partial(outcomes_of_trials, ledgers.location)
            parts.append(self._rows(entire).mapInArrow(measure, _OUTCOMES_DDL))
        if divided:
            measure = partial(pieces_of_units, ledgers.location)
            pieces = self._rows(divided).mapInArrow(measure, _PIECES_DDL)
            parts.append(pieces.groupBy("trial_id").applyInArrow(outcome_of_trial, _OUTCOMES_DDL))
        if not parts:
            return MeasuredTrials()
        outcomes = reduce(DataFrame.unionAll, parts).toArrow()
        found = map(pickle.loads, outcomes["outcome"].to_pylist())
        return MeasuredTrials(sorted(found, key=attrgetter("trial_id")))

    def _rows(self, units: Sequence[Unit]) -> DataFrame:
        """Return a DataFrame with a row per unit, each in a task of its own up to `_TASKS`."""
        numbered = [
            {"number": number, "unit": pickle.dumps(unit)} for number, unit in enumerate(units)
        ]
        rows = self.session.createDataFrame(pa.Table.from_pylist(numbered, _UNITS))
        # Rows of several partitions could meet in one task.
        return rows.coalesce(1).repartition(min(len(units), _TASKS))


def outcomes_of_trials(
    location: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Measure trials that are one unit each, in a task, and yield their outcomes.

    Args:
        location: of the sweep.
        batches: `number` and `unit`, pickled by this session.
    """
    for _, unit in _units_in(batches):
        outcome = trial_outcome(*verify_and_measure(location, unit))
        yield pa.RecordBatch.from_pylist([{"outcome": pickle.dumps(outcome)}], _OUTCOMES)


def pieces_of_units(location: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Measure units, in a task, and yield their measures in pieces.

    Args:
        location: of the sweep.
        batches: `number` and `unit`, pickled by this session.
    """
    for number, unit in _units_in(batches):
        for trial_id, piece in unit_pieces(location, number, unit):
            yield pa.RecordBatch.from_pylist([{"trial_id": trial_id, **piece._asdict()}], _PIECES)


def _units_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Unit]]:
    """Yield the units of a task, each with its number."""
    for batch in batches:
        for row in batch.to_pylist():
            yield row["number"], pickle.loads(row["unit"])  # noqa: S301 - this session's own


def outcome_of_trial(pieces: pa.Table) -> pa.Table:
    """Return the outcome of a trial, in a task, from the pieces of all its units."""
    (outcome,) = merged_outcomes((row.pop("trial_id"), Piece(**row)) for row in pieces.to_pylist())
    return pa.Table.from_pylist([{"outcome": pickle.dumps(outcome)}], _OUTCOMES)


@contextmanager
def connect_session(master: str, request: ContextRequest) -> Iterator[ConnectApplication]:
    """Begin a session, and end it with the context.

    Args:
        master: `sc://HOST:PORT`; a token is in the variable SPARK_CONNECT_AUTHENTICATE_TOKEN.
        request: its settings, and the folder for what is sent.

    Raises:
        SparkSetupError: the server does not answer, is of another version, or refuses a setting.
    """
    check_master(master)
    allow_pandas()  # PySpark's client needs it
    request.work.mkdir(parents=True, exist_ok=True)
    own = {key: text for key, text in request.settings.items() if key.startswith(OWN_SETTINGS)}
    with _failures(master):
        session = _begin(master)
        version = session.version
    try:
        _set(session, {key: request.settings[key] for key in request.settings.keys() - own.keys()})
        with _failures(master, version):
            session.addArtifacts(str(write_package(request.work)), pyfile=True)
        yield ConnectApplication(session, master, own, version)
    finally:
        session.stop()


def _begin(master: str) -> SparkSession:
    try:
        builder: Any = SparkSession.builder.remote(master)
        session: SparkSession = builder.create()
    except ImportError as error:
        raise SparkSetupError(
            f"Spark Connect needs further packages ({error}): install ackbench[connect]"
        ) from None
    if reason := why_incompatible(session.version, pyspark.__version__):
        session.stop()
        raise SparkSetupError(f"the server {master} {reason}")
    return session


def why_incompatible(server: str, client: str) -> str | None:
    """Return why a server cannot run what PySpark sends; `None`: it can."""
    if server.partition(".")[0] == client.partition(".")[0]:
        return None
    return f"is Spark {server}, and PySpark is {client}: both have to be of the same major version"


def _set(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set a session's settings; its builder would only warn of one that the server refuses."""
    for key, text in settings.items():
        try:
            session.conf.set(key, text)
        except PySparkException as error:
            raise SparkSetupError(
                f"the server refuses --conf {key}={text}: {last_error(str(error))}"
            ) from None


@contextmanager
def _failures(master: str, server: str = pyspark.__version__) -> Iterator[None]:
    """Turn an error of the server or of a task into one line.

    Args:
        master: the server's address.
        server: its version of Spark; of another one than PySpark's, the error names both.
    """
    try:
        yield
    except PySparkException as error:
        text = str(error).partition("\n\nJVM stacktrace:")[0]
        reason = explain_failure(text, master, "that of the Connect server")
        if not reason and server != pyspark.__version__:
            reason = (
                f"the server {master} is Spark {server}, and PySpark {pyspark.__version__} cannot "
                f"run the job there ({last_error(text)}): use a server of PySpark's version"
            )
        raise job_failure(reason, text) from None
