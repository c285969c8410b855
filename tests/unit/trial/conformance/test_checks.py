"""Each check finds its own defect, planted into what a program without defects reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ackbench.experiments.trial.conformance.checks import (
    CHECKS,
    KEYS,
    PARTITIONS,
    RATE_RECORDS_PER_S,
    CheckFinding,
    CheckOutcome,
    judge,
)
from ackbench.experiments.trial.conformance.reports import Line, Run, Stored, read_lines

PREFIX, RECORDS = 7, 40
STARTED: Line = {
    "name": "startup_complete",
    "timestamp": 1,
    "client": "c",
    "version": "1",
    "settings": {},
}
ENDED: Line = {"name": "shutdown_complete", "timestamp": 9}


def stored(number: int) -> Stored:
    """Return a record as the schedule and the keys have it."""
    return Stored(
        partition=number % PARTITIONS,
        offset=number // PARTITIONS,
        key=str(number % KEYS),
        value=f"{PREFIX}.{number}",
        timestamp_ms=round(number * 1000 / RATE_RECORDS_PER_S),
    )


def acked(number: int, **changes: Any) -> Line:
    """Return the report of an acknowledged record."""
    record = stored(number)
    line = {"value": record.value, "partition": record.partition, "offset": record.offset}
    exact = {"sent_ns": 1, "acked_ns": 2}
    return {"name": "producer_send_success", "timestamp": 5, **line, **exact, **changes}


def refused(number: int) -> Line:
    """Return the report of a refused record."""
    value = f"{PREFIX}.{number}"
    return {"name": "producer_send_error", "timestamp": 5, "value": value, "exception": "E"}


def assignment(name: str, *numbers: int) -> Line:
    """Return a line about partitions."""
    return {"name": name, "timestamp": 1, "partitions": [{"partition": one} for one in numbers]}


def reading(records: Sequence[Stored]) -> list[Line]:
    """Return what a consumer reports of records: each, what it counted, and the commit."""
    each: list[Line] = [
        {
            "name": "record_data",
            "partition": one.partition,
            "offset": one.offset,
            "value": one.value,
            "received_ns": 1,
        }
        for one in records
    ]
    last = {one.partition: one.offset for one in records}
    parts = [{"partition": number, "maxOffset": offset} for number, offset in last.items()]
    return [
        *each,
        {"name": "records_consumed", "count": len(records), "partitions": parts},
        {"name": "offsets_committed", "success": True},
    ]


ALL = tuple(map(stored, range(RECORDS)))
PRODUCED = Run(
    lines=[STARTED, *map(acked, range(RECORDS)), ENDED],
    exit_code=0,
    stored=ALL,
    prefix=PREFIX,
    asked_records=RECORDS,
)
CONSUMED = Run(
    lines=[STARTED, assignment("partitions_assigned", *range(PARTITIONS)), *reading(ALL), ENDED],
    exit_code=0,
    stored=ALL,
    prefix=PREFIX,
)
RUNS = {
    "steady": PRODUCED,
    "refused": replace(PRODUCED, lines=[STARTED, *map(refused, range(RECORDS)), ENDED], stored=()),
    "paused": PRODUCED,
    "stopped": replace(PRODUCED, asked_records=10_000),
    "killed": replace(PRODUCED, exit_code=None),
    "unknown": Run(lines=[], exit_code=2, errors="unknown property"),
    "reading": CONSUMED,
    "continued": CONSUMED,
    "shared": Run(
        lines=[
            assignment("partitions_assigned", *range(PARTITIONS)),
            assignment("partitions_revoked", 2),
        ]
    ),
    "outage": CONSUMED,
}


def without(name: str) -> Callable[[Run], Run]:
    """Return a change that removes the lines with a name."""
    return lambda run: replace(run, lines=[one for one in run.lines if one["name"] != name])


def changed(number: int, **changes: Any) -> Callable[[Run], Run]:
    """Return a change of the report of an acknowledged record."""

    def change(run: Run) -> Run:
        value = f"{PREFIX}.{number}"
        lines = [{**one, **changes} if one.get("value") == value else one for one in run.lines]
        return replace(run, lines=lines)

    return change


def added(line: Line) -> Callable[[Run], Run]:
    """Return a change that adds a line at the end."""
    return lambda run: replace(run, lines=[*run.lines, line])


def test_a_program_that_does_all_passes_all() -> None:
    """Each check is judged."""
    findings = judge(RUNS)
    assert {finding.outcome for finding in findings} == {CheckOutcome.PASSED}
    assert len(findings) == len(CHECKS)


@pytest.mark.parametrize(
    ("run", "defect", "failed"),
    [
        ("steady", without("startup_complete"), {"starts, and says so"}),
        ("steady", changed(3, offset=99), {"reports where a record is stored"}),
        (
            "steady",
            changed(3, value="7.999"),
            {"reports each record once", "reports where a record is stored"},
        ),
        ("steady", added(acked(3)), {"reports each record once"}),
        (
            "steady",
            lambda run: replace(run, exit_code=1),
            {"exits with code 0 after the last record"},
        ),
        ("steady", without("shutdown_complete"), {"exits with code 0 after the last record"}),
        (
            "steady",
            lambda run: replace(run, stored=[replace(one, key=None) for one in run.stored]),
            {"takes its keys in turn"},
        ),
        (
            "steady",
            lambda run: replace(run, stored=[replace(one, timestamp_ms=0) for one in run.stored]),
            {"keeps the rate"},
        ),
        ("refused", added(acked(3)), {"reports records that the broker refuses"}),
        (
            "paused",
            lambda run: replace(run, lines=run.lines[:9]),
            {"reports each record of an outage once"},
        ),
        (
            "paused",
            lambda run: replace(run, stored=run.stored[:9]),
            {"acknowledges nothing that is not stored"},
        ),
        (
            "stopped",
            lambda run: replace(run, exit_code=None),
            {"stops at SIGTERM, and exits with code 0"},
        ),
        (
            "stopped",
            lambda run: replace(run, lines=[*run.lines[:9], ENDED]),
            {"reports what was in flight at SIGTERM"},
        ),
        ("killed", changed(3, partition=1), {"has lines to trust after SIGKILL"}),
        (
            "killed",
            lambda run: replace(run, malformed=["no JSON"]),
            {"has lines to trust after SIGKILL"},
        ),
        ("unknown", lambda run: replace(run, exit_code=0), {"refuses an unknown property"}),
        ("reading", without("partitions_assigned"), {"reports its assignment"}),
        ("reading", changed(3, value="7.4"), {"reports each record that is stored"}),
        ("reading", without("records_consumed"), {"counts what it reads"}),
        (
            "continued",
            lambda run: replace(run, stored=run.stored[9:]),
            {"begins where its group committed"},
        ),
        ("shared", without("partitions_revoked"), {"gives partitions up"}),
        ("outage", changed(3, name="nothing"), {"goes on after an outage"}),
    ],
)
def test_a_defect_is_found_by_the_checks_of_what_is_wrong_alone(
    run: str, defect: Callable[[Run], Run], failed: set[str]
) -> None:
    """So a page names what is wrong, and nothing else."""
    findings = judge({**RUNS, run: defect(RUNS[run])})
    assert {one.name for one in findings if one.outcome is CheckOutcome.FAILED} == failed


def test_an_optional_field_that_is_absent_is_no_failure() -> None:
    """Times are then those of lines."""
    plain = replace(
        PRODUCED, lines=[{k: v for k, v in one.items() if k != "sent_ns"} for one in PRODUCED.lines]
    )
    absent = [one for one in judge({**RUNS, "steady": plain}) if one.outcome is CheckOutcome.ABSENT]
    assert [one.detail for one in absent] == [
        "no sent_ns: times are those of lines, in milliseconds"
    ]


def test_what_is_printed_is_read_whatever_it_is(tmp_path: Any) -> None:
    """A line that is not complete, no JSON, not for us, or a megabyte long."""
    (tmp_path / "out").write_bytes(
        b'{"name": "a"}\nWARN nothing\n{"name": \n{"x": "' + b"y" * 1_000_000 + b'"}\n{"name": "b"'
    )
    lines, malformed = read_lines(tmp_path / "out")
    assert lines == [{"name": "a"}]
    assert malformed == ["no JSON: '{\"name\": '", "a line of 1,000,009 bytes"]


def test_a_program_is_not_accused_of_what_the_machine_did() -> None:
    """It was late, and waited for a CPU for longer than it may be late; not if others are wrong."""
    late = [replace(one, timestamp_ms=one.timestamp_ms * 2) for one in RUNS["steady"].stored]
    starved = replace(RUNS["steady"], stored=late, waited_for_cpu_ms=60_000)
    assert rate_of(starved).outcome is CheckOutcome.UNKNOWN
    assert rate_of(starved).detail.startswith("it waited 60.00 s for a CPU that others had; ")
    assert rate_of(replace(starved, waited_for_cpu_ms=1)).outcome is CheckOutcome.FAILED
    assert rate_of(replace(RUNS["steady"], waited_for_cpu_ms=60_000)).outcome is CheckOutcome.PASSED
    (others,) = {
        one.outcome for one in judge({**RUNS, "steady": starved}) if one != rate_of(starved)
    }
    assert others is CheckOutcome.PASSED


def rate_of(steady: Run) -> CheckFinding:
    """Return the finding of the check of the rate."""
    return next(one for one in judge({**RUNS, "steady": steady}) if one.name == "keeps the rate")
