"""The checks of a program: each compares what it printed with what the broker stored. Pure.

`docs/clients.md` specifies what is checked. A check yields problems; none means that it passed. An
optional field that a program does not report is no problem: figures are then less exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ackbench.experiments.trial.clients.programs.dialect import Role
from ackbench.experiments.trial.clients.programs.tables import ERROR, SUCCESS
from ackbench.experiments.trial.conformance.reports import (
    Line,
    Run,
    Stored,
    partition_numbers,
    partitions_of,
)

_USAGE: Final = 2
_RATE_SHARE: Final = 0.1
"""The largest difference of a load's duration from its schedule's, as a share of that."""
_QUOTED: Final = 3


class CheckOutcome(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "FAILED"
    ABSENT = "absent"
    """Of an optional field: the program does not report it."""
    UNKNOWN = "unknown"
    """The machine was too busy to tell."""


@dataclass(frozen=True)
class CheckFinding:
    """The result of a check, with its reason."""

    role: Role
    name: str
    outcome: CheckOutcome
    detail: str = ""


@dataclass(frozen=True)
class Check:
    """A requirement, and the run that shows whether a program meets it."""

    role: Role
    name: str
    """As the page says it: what a program that passes does."""
    run: str
    """The name of the run that is judged (`scenarios`)."""
    problems: Callable[[Run], Iterator[str]]
    optional: bool = False
    excuse: Callable[[Run], str] = lambda _: ""
    """Returns why the machine may be the cause of a problem; empty: it is not."""

    def judge(self, runs: Mapping[str, Run]) -> CheckFinding:
        """Return what the check finds in its run."""
        run = runs[self.run]
        problems = [*(run.malformed[:1]), *self.problems(run)]
        if not problems:
            return CheckFinding(self.role, self.name, CheckOutcome.PASSED, "; ".join(run.notes))
        if excuse := self.excuse(run):
            problems = [excuse, *problems]
            return CheckFinding(self.role, self.name, CheckOutcome.UNKNOWN, "; ".join(problems))
        outcome = CheckOutcome.ABSENT if self.optional else CheckOutcome.FAILED
        return CheckFinding(self.role, self.name, outcome, "; ".join(problems[:_QUOTED]))


# Both roles


def _has_started(run: Run) -> Iterator[str]:
    started = run.named("startup_complete")
    if len(started) != 1:
        yield f"{len(started)} lines startup_complete; {run.errors or 'standard error is empty'}"
    elif not isinstance(started[0].get("timestamp"), int):
        yield f"startup_complete has the timestamp {started[0].get('timestamp')!r}"


def _ends_cleanly(run: Run) -> Iterator[str]:
    if run.exit_code is None:
        yield "it did not exit in time, and was killed"
    elif run.exit_code != 0:
        yield f"exit code {run.exit_code}; {run.errors}"
    if not run.named("shutdown_complete"):
        yield "no line shutdown_complete"


def _refuses_unknown_property(run: Run) -> Iterator[str]:
    if run.exit_code != _USAGE:
        yield f"exit code {run.exit_code} with an unknown property; wanted: {_USAGE}"
    elif not run.errors:
        yield "nothing on standard error"


def _reports_own(*names: str) -> Callable[[Run], Iterator[str]]:
    def problems(run: Run) -> Iterator[str]:
        started = next(iter(run.named("startup_complete")), {})
        absent = [name for name in names if name not in started]
        if absent:
            yield f"startup_complete has no {', '.join(absent)}"

    return problems


# Producers


def _reports_each_record_once(run: Run) -> Iterator[str]:
    counts = run.reports_by_value()
    wanted = {run.value(number) for number in range(run.asked_records)}
    if never := len(wanted - counts.keys()):
        yield f"{never} of {run.asked_records} records are never reported"
    if twice := sum(count > 1 for count in counts.values()):
        yield f"{twice} records are reported more than once"
    if foreign := counts.keys() - wanted:
        yield f"{len(foreign)} reports are of no record that was asked for, such as {min(foreign)}"


def _acknowledged_are_stored(run: Run) -> Iterator[str]:
    at: dict[tuple[object, object], str] = {
        (record.partition, record.offset): record.value for record in run.stored
    }
    successes = run.named(SUCCESS)
    if not successes:
        yield "no record is reported as acknowledged"
    wrong = [line for line in successes if at.get(_place(line)) != line.get("value")]
    if wrong:
        line = wrong[0]
        found = at.get(_place(line))
        yield (
            f"{len(wrong)} of {len(successes)} acknowledged records are not where they are "
            f"reported: {line.get('value')} at partition {line.get('partition')}, offset "
            f"{line.get('offset')}; there is {found or 'no record'}"
        )


def _place(line: Line) -> tuple[object, object]:
    return line.get("partition"), line.get("offset")


def _stored_are_reported(run: Run) -> Iterator[str]:
    reported = run.reports_by_value().keys()
    silent = sorted({record.value for record in run.own_stored()} - reported)
    if silent:
        yield f"{len(silent)} stored records are never reported, such as {silent[0]}"


def _keeps_the_schedule(run: Run) -> Iterator[str]:
    times = sorted(record.timestamp_ms for record in run.own_stored())
    if len(times) < run.asked_records:
        yield f"{len(times)} of {run.asked_records} records are stored"
        return
    wanted_ms, took_ms = _wanted_ms(run), times[-1] - times[0]
    if abs(took_ms - wanted_ms) > wanted_ms * _RATE_SHARE:
        yield (
            f"{run.asked_records} records at {RATE_RECORDS_PER_S}/s took {took_ms / 1000:.2f} s; "
            f"wanted: {wanted_ms / 1000:.2f} s"
        )


def _wanted_ms(run: Run) -> float:
    return (run.asked_records - 1) / RATE_RECORDS_PER_S * 1000


def _waited_for_cpu(run: Run) -> str:
    """Return that the program waited for a CPU for so long that it may have been late for that."""
    if run.waited_for_cpu_ms <= _wanted_ms(run) * _RATE_SHARE:
        return ""
    return f"it waited {run.waited_for_cpu_ms / 1000:.2f} s for a CPU that others had"


def _writes_keys_in_turn(run: Run) -> Iterator[str]:
    wrong = [
        record
        for record in run.own_stored()
        if record.key != str(int(record.value.partition(".")[2]) % KEYS)
    ]
    if wrong:
        yield f"record {wrong[0].value} has the key {wrong[0].key!r}, of {KEYS} keys"


def _reports_refusals(run: Run) -> Iterator[str]:
    if acked := len(run.named(SUCCESS)):
        yield f"{acked} records that the broker refuses are reported as acknowledged"
    errors = run.named(ERROR)
    if len(errors) != run.asked_records:
        yield f"{len(errors)} of {run.asked_records} refused records are reported as errors"
    elif not all(line.get("exception") for line in errors):
        yield "an error line has no exception"


def _stops_at_sigterm(run: Run) -> Iterator[str]:
    yield from _ends_cleanly(run)
    if len(run.own_stored()) >= run.asked_records:
        yield "it went on to the last record"


def _lines_have(*names: str) -> Callable[[Run], Iterator[str]]:
    def problems(run: Run) -> Iterator[str]:
        lines = run.named(SUCCESS, "record_data")
        absent = [name for name in names if not lines or any(name not in line for line in lines)]
        if absent:
            yield f"no {', '.join(absent)}: times are those of lines, in milliseconds"

    return problems


# Consumers


def _is_assigned_all(run: Run) -> Iterator[str]:
    assigned = {
        number for line in run.named("partitions_assigned") for number in partition_numbers(line)
    }
    if assigned != set(range(PARTITIONS)):
        yield f"partitions_assigned names {sorted(assigned)}; the topic has 0 to {PARTITIONS - 1}"


def _reads_what_is_stored(run: Run) -> Iterator[str]:
    stored: dict[tuple[object, object], object] = {
        (one.partition, one.offset): one.value for one in run.stored
    }
    read = [(_place(line), line.get("value")) for line in run.named("record_data")]
    if wrong := next((line for line in read if stored.get(line[0]) != line[1]), None):
        yield f"it reports {wrong[1]!r} at partition and offset {wrong[0]}; the topic has another"
    if missing := len(stored.keys() - {place for place, _ in read}):
        yield f"{missing} of {len(stored)} stored records are not reported"
    by_partition: dict[object, list[int]] = {}
    for (partition, offset), _ in read:
        if isinstance(offset, int):
            by_partition.setdefault(partition, []).append(offset)
    for partition, offsets in by_partition.items():
        if offsets != sorted(offsets):
            yield f"partition {partition} is not reported in the order of offsets"


def _counts_what_it_reads(run: Run) -> Iterator[str]:
    ends: dict[int, int] = {}
    counted = 0
    for line in run.named("records_consumed"):
        for one in partitions_of(line):
            if not isinstance(one.get("maxOffset"), int):
                yield f"records_consumed has a partition without maxOffset: {one!r}"[:120]
                return
            ends[one["partition"]] = max(ends.get(one["partition"], -1), one["maxOffset"])
        counted += line["count"] if isinstance(line.get("count"), int) else 0
    read = run.named("record_data")
    if counted != len(read):
        yield f"records_consumed counts {counted} records, and {len(read)} are reported"
    last = _last_offsets(run.stored)
    if ends != last:
        yield f"the last offsets of records_consumed are {ends}; the topic has {last}"


def _last_offsets(stored: Sequence[Stored]) -> dict[int, int]:
    last: dict[int, int] = {}
    for record in stored:
        last[record.partition] = max(last.get(record.partition, -1), record.offset)
    return last


def _reports_commits(run: Run) -> Iterator[str]:
    commits = run.named("offsets_committed")
    if not commits:
        yield "no line offsets_committed"
    elif not any(line.get("success") is True for line in commits):
        yield f"no commit succeeded: {commits[-1].get('error')}"


def _begins_at_the_commit(run: Run) -> Iterator[str]:
    read = {str(line.get("value")) for line in run.named("record_data")}
    new = {record.value for record in run.own_stored()}
    if again := len(read - new):
        yield f"{again} records are read again by the next member of the group: not committed"
    if missing := len(new - read):
        yield f"{missing} of {len(new)} new records are not read"


def _gives_partitions_up(run: Run) -> Iterator[str]:
    owned: set[int] = set()
    for line in run.named("partitions_assigned", "partitions_revoked"):
        if line["name"] == "partitions_assigned":
            owned |= partition_numbers(line)
        else:
            owned -= partition_numbers(line)
        if owned and len(owned) < PARTITIONS:
            return
    if not run.named("partitions_revoked"):
        yield "no line partitions_revoked when a second member joined"
    else:
        yield "it owned no part of the partitions when a second member had joined"


KEYS: Final = 4
PARTITIONS: Final = 3
RATE_RECORDS_PER_S: Final = 200
CHECKS: Final = (
    Check("producer", "starts, and says so", "steady", _has_started),
    Check("producer", "reports each record once", "steady", _reports_each_record_once),
    Check("producer", "reports where a record is stored", "steady", _acknowledged_are_stored),
    Check("producer", "keeps the rate", "steady", _keeps_the_schedule, excuse=_waited_for_cpu),
    Check("producer", "takes its keys in turn", "steady", _writes_keys_in_turn),
    Check("producer", "exits with code 0 after the last record", "steady", _ends_cleanly),
    Check("producer", "reports records that the broker refuses", "refused", _reports_refusals),
    Check("producer", "reports each record of an outage once", "paused", _reports_each_record_once),
    Check(
        "producer", "acknowledges nothing that is not stored", "paused", _acknowledged_are_stored
    ),
    Check("producer", "stops at SIGTERM, and exits with code 0", "stopped", _stops_at_sigterm),
    Check("producer", "reports what was in flight at SIGTERM", "stopped", _stored_are_reported),
    Check("producer", "has lines to trust after SIGKILL", "killed", _acknowledged_are_stored),
    Check("producer", "refuses an unknown property", "unknown", _refuses_unknown_property),
    Check(
        "producer",
        "reports version and settings",
        "steady",
        _reports_own("client", "version", "settings"),
        optional=True,
    ),
    Check(
        "producer",
        "reports exact times",
        "steady",
        _lines_have("sent_ns", "acked_ns"),
        optional=True,
    ),
    Check("consumer", "starts, and says so", "reading", _has_started),
    Check("consumer", "reports its assignment", "reading", _is_assigned_all),
    Check("consumer", "reports each record that is stored", "reading", _reads_what_is_stored),
    Check("consumer", "counts what it reads", "reading", _counts_what_it_reads),
    Check("consumer", "reports its commits", "reading", _reports_commits, optional=True),
    Check("consumer", "stops at SIGTERM, and exits with code 0", "reading", _ends_cleanly),
    Check("consumer", "begins where its group committed", "continued", _begins_at_the_commit),
    Check("consumer", "gives partitions up", "shared", _gives_partitions_up),
    Check("consumer", "goes on after an outage", "outage", _reads_what_is_stored),
    Check(
        "consumer",
        "reports version and settings",
        "reading",
        _reports_own("client", "version", "settings"),
        optional=True,
    ),
    Check("consumer", "reports exact times", "reading", _lines_have("received_ns"), optional=True),
)
"""In the order of the page."""


def judge(runs: Mapping[str, Run], role: Role | None = None) -> tuple[CheckFinding, ...]:
    """Return what each check finds; those of a role that was not run are left out."""
    return tuple(check.judge(runs) for check in CHECKS if role in (None, check.role))
