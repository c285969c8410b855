"""A program as a member of a group: what it reports is what the trial knows of it.

The program is Python and prints the lines that a test names; Kafka's own is a test with brokers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ackbench.experiments.ledger.schema import ATTEMPTS
from ackbench.experiments.sweep.workload import Commit
from ackbench.experiments.trial.clients.group.jobs import MemberJob
from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.experiments.trial.clients.programs.consumer import subscription_arguments
from ackbench.experiments.trial.clients.programs.member import ProgramMember
from ackbench.experiments.trial.clients.record.layout import MAX_TEXT_PRODUCERS, trial_tag
from ackbench.experiments.trial.clients.settings.group_members import program_member_settings
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.process.waiting import wait_until

TOKEN = 5
PROGRAM = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('{{"name": "shutdown_complete", '
              '"timestamp": 1}}', flush=True) or 0))
open(sys.argv[-1]).read()
sys.stdout.write({lines!r})
sys.stdout.flush()
signal.pause()
"""


def line(name: str, **fields: object) -> str:
    """Return a line of a program, at a time of its own."""
    return json.dumps({"timestamp": 1_700_000_000_000, "name": name, **fields}) + "\n"


def places(*partitions: int, **fields: object) -> list[dict[str, object]]:
    """Return partitions as lines have them."""
    return [{"topic": "t", "partition": number, **fields} for number in partitions]


def data(seq: int, partition: int = 0) -> str:
    """Return the line of a received record of producer 0."""
    value = f"{trial_tag(TOKEN) * MAX_TEXT_PRODUCERS}.{seq}"
    return line("record_data", topic="t", partition=partition, offset=seq, key=None, value=value)


ASSIGNED = line("partitions_assigned", partitions=places(0, 1))
CONSUMED = line(
    "records_consumed", count=2, partitions=places(0, count=2, minOffset=0, maxOffset=1)
)


def member(folder: Path, lines: str, commit: Commit = "after") -> ProgramMember:
    """Return a member whose program prints these lines once it has its settings."""
    job = MemberJob.model_validate(
        {
            "consumer": 1,
            "bootstrap_servers": "127.0.0.1:1",
            "topic": "t",
            "partitions": 2,
            "settings": program_member_settings({}, "g", commit=commit),
            "load": {"commit": commit},
            "token": TOKEN,
            "folder": folder,
        }
    )
    command = [sys.executable, "-c", PROGRAM.format(lines=lines)]
    return ProgramMember(job, CommandDialect("ours", command))


def test_what_a_program_reports_becomes_the_events_of_a_member(tmp_path: Path) -> None:
    """Its assignments, and commits that were refused; each detail begins with its generation."""
    refused = line(
        "offsets_committed", success=False, error="rebalance", offsets=places(1, offset=7)
    )
    revoked = line("partitions_revoked", partitions=places(1))
    with member(tmp_path, ASSIGNED + CONSUMED + refused + revoked) as one:
        one.wait_in_group(30)
        wait_until(
            lambda: any(event.kind == "revoked" for event in one.own_events()),
            awaiting="the last line",
            timeout_s=30,
        )
        one.finish()
    events = [
        (event.kind, event.partition, event.offset, event.detail) for event in one.own_events()
    ]
    assert events == [
        ("joined", None, None, "member 1.0"),
        ("assigned", 0, None, "member 1.0"),
        ("assigned", 1, None, "member 1.0"),
        ("commit_refused", 1, 7, "member 1.0: rebalance"),
        ("revoked", 1, None, "member 1.0: released"),
        ("left", None, None, "member 1.0"),
    ]


def test_a_killed_member_has_processed_what_it_reported_in_complete_lines(tmp_path: Path) -> None:
    """The next generation begins at the first record again; each record knows who processed it."""
    cut = data(2)[:-10]
    with member(tmp_path, ASSIGNED + data(0) + data(1) + cut) as one:
        one.wait_in_group(30)
        one.crash()
        one.restart()
        one.wait_in_group(30)
    reads = one.reads(ATTEMPTS.empty_table())
    rows = reads.select(["consumer", "generation", "partition", "seq"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, 0, 0, 0),
        (1, 0, 0, 1),
        (1, 1, 0, 0),
        (1, 1, 0, 1),
    ]
    assert [event.detail for event in one.events() if event.kind == "member_crashed"] == [
        "member 1.0"
    ]


def test_what_is_not_committed_is_counted_from_the_last_commit_that_was_reported(
    tmp_path: Path,
) -> None:
    """A client that commits by itself reports no commits: then nothing is known."""
    done = line("offsets_committed", success=True, offsets=places(0, offset=2))
    refused = line("offsets_committed", success=False, offsets=places(0, offset=4))
    cases: tuple[tuple[str, Commit, int | None], ...] = (
        (ASSIGNED + CONSUMED, "after", 2),
        (ASSIGNED + CONSUMED + done, "after", 0),
        (ASSIGNED + CONSUMED + done + CONSUMED + refused, "after", 2),
        (ASSIGNED + CONSUMED, "auto", None),
    )
    for lines, commit, expected in cases:
        folder = tmp_path / f"{commit}-{len(lines)}"
        folder.mkdir()
        with member(folder, lines, commit) as one:
            one.wait_in_group(30)
            wait_until(
                lambda one=one, expected=expected: one.uncommitted_records() == expected,  # type: ignore[misc]
                awaiting=f"{expected} records",
                timeout_s=30,
                seen=one.uncommitted_records,
            )


def test_a_member_that_is_not_accepted_or_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    """And what it prints that is no line of the protocol."""
    for number, (lines, error, message) in enumerate(
        (
            ("", WaitTimeout, "member 1.0 to be accepted by its group"),
            ('{"name": "partitions_assigned", "timestamp": 1}\n', HarnessError, "cannot be read"),
            ('{"name": "partitions_assigned"\n', HarnessError, "no JSON"),
        )
    ):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        with member(folder, lines) as one, pytest.raises(error, match=message):
            one.wait_in_group(1 if error is WaitTimeout else 30)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, ["--enable-autocommit"]),
        ({"enable.auto.commit": "false", "auto.offset.reset": "earliest"}, []),
        (
            {
                "enable.auto.commit": "false",
                "group.protocol": "classic",
                "session.timeout.ms": "2000",
                "auto.offset.reset": "latest",
                "partition.assignment.strategy": "cooperative-sticky",
            },
            [
                *("--session-timeout", "2000", "--reset-policy", "latest"),
                "--assignment-strategy",
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            ],
        ),
        (
            {"enable.auto.commit": "false", "group.protocol": "consumer"},
            ["--group-protocol", "consumer"],
        ),
    ],
)
def test_what_the_program_would_set_itself_is_an_argument(
    given: dict[str, str], options: list[str]
) -> None:
    """Options that older programs do not have are given only where they are needed."""
    first = ["--verbose", "--bootstrap-server", "b:1", "--topic", "t", "--group-id", "g"]
    assert subscription_arguments("b:1", "t", "g", given, overrides=True) == first + options
    others = [option for option in options if option == "--enable-autocommit"]
    assert subscription_arguments("b:1", "t", "g", given, overrides=False) == first + others


def test_the_settings_of_a_member_follow_from_how_the_group_commits() -> None:
    """A poll returns as many records as are committed at once; KIP-848 has no such session."""
    classic = {"session.timeout.ms": "2000", "heartbeat.interval.ms": "300"}
    after = program_member_settings(classic, "g", "latest", "after", 7, "g-1")
    assert after == {
        **classic,
        "enable.auto.commit": "false",
        "auto.offset.reset": "latest",
        "group.id": "g",
        "max.poll.records": "7",
        "group.instance.id": "g-1",
    }
    auto = program_member_settings({**classic, "group.protocol": "consumer"}, "g", commit="auto")
    assert auto == {
        "group.protocol": "consumer",
        "enable.auto.commit": "true",
        "auto.commit.interval.ms": "5000",
        "auto.offset.reset": "earliest",
        "group.id": "g",
    }
