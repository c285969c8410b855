"""A producer that is a program and does not end: it hangs, or it is late."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ackbench.experiments.ledger.schema import LOG
from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.producer.job import ProducerJob
from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.experiments.trial.clients.programs.producer import VerifiableProducer
from ackbench.experiments.trial.clients.record.layout import value_prefix, warm_up_records
from ackbench.infra.errors import WaitTimeout

TOKEN, RATE, RECORDS = 77, 100, 50
PROGRAM = """
import json, sys, time
open(sys.argv[-1]).read()
now_ms = round(time.time() * 1000)
print(json.dumps({"name": "startup_complete", "timestamp": now_ms}), flush=True)
for number in range(REPORTED):
    print(json.dumps({
        "name": "producer_send_success", "timestamp": now_ms + number, "topic": "trial",
        "value": f"PREFIX.{number}", "key": None, "partition": 0, "offset": number,
    }), flush=True)
print(json.dumps({"name": "ready"}), flush=True)
while True:
    time.sleep(0.05)
    if GOES_ON:
        print("working", flush=True)
"""
ACKED = 7


def producer(folder: Path, *, goes_on: bool) -> VerifiableProducer:
    """Return a program that reports seven of its records, and then works on, or hangs."""
    code = PROGRAM.replace("REPORTED", f"{warm_up_records(RATE) + ACKED}")
    code = code.replace("PREFIX", f"{value_prefix(TOKEN, 0)}").replace("GOES_ON", f"{goes_on}")
    job = ProducerJob(
        producer=0,
        bootstrap_servers="localhost:1",
        topic="trial",
        warm_up_topic="warm-up",
        settings={},
        records=RECORDS,
        rate_records_per_s=RATE,
        record_size_bytes=100,
        keys=Keys(count=0),
        token=TOKEN,
        folder=folder,
    )
    return VerifiableProducer(job, CommandDialect("ours", [sys.executable, "-c", code]))


def wait_reported(program: VerifiableProducer) -> None:
    """Start the load, and wait until the program has reported its records."""
    program.wait_ready()
    program.begin(0)
    program.began_ns()
    while b'"ready"' not in program.output.read_bytes():
        program.acked_records()


def test_a_producer_that_reports_nothing_and_does_not_exit_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is killed, the trial goes on, and its later records are no attempts that are known."""
    monkeypatch.setattr("ackbench.experiments.trial.clients.programs.producer.SILENT_S", 0.3)
    with producer(tmp_path, goes_on=False) as program:
        wait_reported(program)
        summary = program.wait_done(0.5)
        assert program.has_exited()
    assert program.hung is not None
    assert program.hung.startswith("producer 0: 0 s after its last record was due it had not ")
    assert summary.records == RECORDS
    assert program.attempts(LOG.empty_table())["outcome"].to_pylist() == ["acked"] * ACKED


def test_a_producer_that_goes_on_is_late_and_does_not_hang(tmp_path: Path) -> None:
    """A slow client is not called hung: the trial fails, with the time that it had."""
    with producer(tmp_path, goes_on=True) as program:
        wait_reported(program)
        with pytest.raises(WaitTimeout, match="producer 0 to exit"):
            program.wait_done(0.5)
    assert program.hung is None
