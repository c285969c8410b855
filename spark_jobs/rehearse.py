"""A run of the job over a small planted sweep, to train the JVM's start-up cache (JEP 514).

python -m ackbench.spark_jobs.rehearse --java-options=-XX:AOTCacheOutput=<file>
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ackbench.experiments.ledger.spark_settings import SparkSetupError
from ackbench.experiments.ledger.terms import ACKED, REJECTED, UNKNOWN, Source
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Phases
from ackbench.spark_jobs.configuration import ContextRequest
from ackbench.spark_jobs.measure import BAD_INPUT, error_line, measure
from ackbench.spark_jobs.planted import (
    PlantedAttempt,
    PlantedEpoch,
    PlantedEvent,
    PlantedLogRow,
    PlantedRead,
    PlantedTrial,
)
from ackbench.spark_jobs.python_daemon import forgo_pandas

_RECORDS: Final = 20_000
_SPACING_NS: Final = 100_000
_PHASES: Final = Phases(
    load_begin_ns=0,
    load_end_ns=2 * 10**9,
    fault_begin_ns=8 * 10**8,
    fault_end_ns=12 * 10**8,
    settled_ns=3 * 10**9,
    healthy_ns=3 * 10**9,
)
_FAULT: Final = FaultEvidence(kind="kill", targets=(1,), took_effect=True)
_EVENTS: Final = (
    PlantedEvent(
        0, "became_leader", node=1, partition=0, leader_epoch=0, offset=0, source=Source.BROKER
    ),
    PlantedEvent(9 * 10**8, "fenced", node=1, source=Source.BROKER),
    PlantedEvent(
        9 * 10**8,
        "became_leader",
        node=2,
        partition=0,
        leader_epoch=1,
        offset=_RECORDS // 2,
        source=Source.BROKER,
    ),
    PlantedEvent(
        12 * 10**8, "truncated", node=1, partition=0, offset=_RECORDS // 2, source=Source.BROKER
    ),
    PlantedEvent(4 * 10**9, "consumer_end", detail='{"at_end": true}'),
)
_EPOCHS: Final = (PlantedEpoch(2, 0, 0, 0), PlantedEpoch(2, 0, 1, _RECORDS // 2))


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant a sweep in a temporary folder and measure it.

    On return, the JVM has exited and has written its cache. The exit code is 0, or 2 with one line
    on standard error, `spark: ...`, if Spark cannot run here.
    """
    parser = argparse.ArgumentParser(
        prog="ackbench.spark_jobs.rehearse",
        description="Run the measuring job once over a small planted sweep.",
    )
    parser.add_argument(
        "--java-options",
        default="",
        help="further options of the driver's JVM, as one string quoted as for a shell",
    )
    parser.add_argument("--log", type=Path, help="the file of Spark's log (default: none is kept)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ackbench-rehearsal-") as folder:
        sweep = Path(folder) / "planted"
        for trial in rehearsal_trials():
            trial.plant(sweep)
        work = Path(folder) / "work"
        log = options.log or work / "spark.log"
        try:
            measure(str(sweep), ContextRequest(work, log, "local[*]", options.java_options))
        except SparkSetupError as error:
            print(error_line(error), file=sys.stderr)  # noqa: T201 - the command's output
            return BAD_INPUT
    return 0


def rehearsal_trials(records: int = _RECORDS) -> Iterator[PlantedTrial]:
    """Yield trials that use all paths of the job.

    They have duplicates, losses, unknown outcomes, reordered records, missed and redelivered reads,
    records of an external producer, and a fault.
    """
    for number in range(4):
        attempts = tuple(_attempt(number, seq) for seq in range(records))
        kept = [row for row in attempts if row.seq % 97]
        log = (
            *(
                PlantedLogRow(0, row.seq, row.seq if row.seq % 89 else 2 * records + row.seq)
                for row in kept
            ),  # every 89th record is out of order
            *(PlantedLogRow(0, row.seq, records + row.seq) for row in kept[:100]),
            PlantedLogRow(None, None, 3 * records),
        )
        reads = tuple(
            PlantedRead(0, row.seq, row.seq, row.intended_ns, row.intended_ns + 5_000_000)
            for row in (*kept[:-100], *kept[:100])
        )
        yield PlantedTrial(
            f"{number:03d}-rehearsal",
            attempts,
            log,
            reads,
            _PHASES,
            fault=_FAULT,
            repeat=number,
            events=_EVENTS,
            epochs=_EPOCHS,
        )


def _attempt(number: int, seq: int) -> PlantedAttempt:
    outcome = ACKED
    if seq % 1001 == 0:
        outcome = REJECTED
    elif seq % 503 == 0:
        outcome = UNKNOWN
    intended_ns = seq * _SPACING_NS
    return PlantedAttempt(
        0,
        seq,
        outcome,
        intended_ns,
        intended_ns + (seq * 7919 + number) % 4_000_000,
        partition=seq % 6,
    )


if __name__ == "__main__":
    forgo_pandas()
    raise SystemExit(main())
