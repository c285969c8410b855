"""The throughput of the Spark job, and its start-up cost: a large sweep and a small one."""

from __future__ import annotations

import shutil
import time
import uuid
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from support.builders.records import a_record, no_rows

from experiments.ledger.record import Phases
from experiments.ledger.schema import TABLES
from experiments.ledger.seal import seal
from experiments.results.spark_job import measure
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan
from infra.machine.home import Home

SPACING_NS: Final = 100_000
TRIALS: Final = 20
FEW: Final = 1_000


@dataclass(frozen=True)
class SparkRate:
    """The times of a large sweep and of a small one, which is nearly all start-up."""

    records: int
    seconds: float
    start_seconds: float

    @property
    def records_per_s(self) -> float:
        """Attempted records, divided by the time including the start."""
        return self.records / self.seconds


def spark_rate(home: Home, records_per_trial: int = 100_000) -> SparkRate:
    """Measure a small sweep, then one of 20 trials; both are generated."""
    small, large = (
        _seconds(home, trials, records)
        for trials, records in ((1, FEW), (TRIALS, records_per_trial))
    )
    return SparkRate(TRIALS * records_per_trial, large, small)


def _seconds(home: Home, trials: int, records: int) -> float:
    sweep = SweepFolder(home.sweeps / f"perf-{uuid.uuid4().hex[:6]}")
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment="perf",
            question="",
            seed=0,
            repeats=1,
            trials=(),
            refused=(),
        )
    )
    try:
        for number in range(trials):
            _plant(sweep, f"{number:03d}-perf00", number, records)
        begin = time.monotonic()
        measure(sweep, home)
        return time.monotonic() - begin
    finally:
        shutil.rmtree(sweep.root)


def _plant(sweep: SweepFolder, trial_id: str, number: int, records: int) -> None:
    """Write a trial in which all records are acknowledged, stored and read within milliseconds."""
    seq = np.arange(records, dtype=np.int64)
    intended = seq * SPACING_NS
    latency = np.random.default_rng(number).gamma(2, 3_000_000, records).astype(np.int64)
    partition = (seq % 6).astype(np.int32)
    columns = {
        "producer": np.zeros(records, np.int32),
        "consumer": np.zeros(records, np.int32),
        "generation": np.zeros(records, np.int32),
        "seq": seq,
        "key": seq % 64,
        "intended_ns": intended,
        "sent_ns": intended,
        "settled_ns": intended + latency,
        "received_ns": intended + latency,
        "outcome": pa.array(["acked"])
        .dictionary_encode()
        .take(pa.array(np.zeros(records, np.int8))),
        "error": np.zeros(records, np.int32),
        "partition": partition,
        "offset": seq // 6,
        "timestamp_ms": intended // 1_000_000,
        "intact": np.ones(records, np.bool_),
        "leader_epoch": np.zeros(records, np.int32),
        "visible": np.ones(records, np.bool_),
        "transaction": pa.nulls(records, pa.int64()),
    }
    tables = {name: _table(columns, TABLES[name]) for name in ("attempts", "log", "reads")}
    partial = sweep.partial(trial_id)
    partial.mkdir(parents=True)
    end_ns = int(intended[-1]) + SPACING_NS
    producer = a_record().producers[0].model_copy(update={"records": records})
    record = a_record(
        sweep_id=sweep.sweep_id,
        trial_id=trial_id,
        order=number,
        partitions=6,
        producers=(producer,),
        end_offsets={number: int((partition == number).sum()) for number in range(6)},
        phases=Phases(
            load_begin_ns=0,
            load_end_ns=end_ns,
            settled_ns=end_ns + 10**9,
            healthy_ns=end_ns + 10**9,
        ),
    )
    seal(
        partial,
        sweep.trial(trial_id),
        record,
        {**tables, **{name: no_rows()[name] for name in ("transactions", "events", "epochs")}},
    )


def _table(columns: dict[str, object], schema: pa.Schema) -> pa.Table:
    return pa.table(
        [pa.array(columns[field.name]).cast(field.type) for field in schema], schema=schema
    )
