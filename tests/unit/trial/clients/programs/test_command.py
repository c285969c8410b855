"""Any program as a client: what it is given, and what is believed of what it says."""

from __future__ import annotations

import sys
from contextlib import ExitStack

import pytest

from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.infra.errors import InputError

OURS = CommandDialect("ours", ["./ours", "--fast"], "1.2.0")


def test_a_program_gets_its_role_and_its_settings_without_the_addresses() -> None:
    """Addresses are an option; the settings file follows as the last argument."""
    settings = {"acks": "1", "bootstrap.servers": "b:1"}
    with ExitStack() as opened:
        launch = OURS.launch("producer", ["--topic", "t"], settings, opened)
    assert launch.command == ["./ours", "--fast", "producer", "--topic", "t", "--command-config"]
    assert launch.settings == {"acks": "1"}


def test_a_program_gets_no_command_for_tokens() -> None:
    """Ackbench does not pass it any."""
    with ExitStack() as opened, pytest.raises(InputError, match="token_command with client ours"):
        OURS.launch("producer", [], {"ackbench.token.command": sys.executable}, opened)


def test_the_settings_that_a_program_reports_stand_before_those_it_was_given() -> None:
    """Without a report, those that it was given count; assumed ones never do."""
    passed, assumed = {"acks": "1"}, {"acks": "1", "retries": "2147483647"}
    reported = {"settings": {"acks": -1, "linger.ms": 5}}
    assert OURS.effective_settings("", reported, assumed, passed) == {
        "acks": "-1",
        "linger.ms": "5",
    }
    assert OURS.effective_settings("", {}, assumed, passed) == passed
    assert OURS.effective_settings("", {"settings": "all"}, assumed, passed) == passed


@pytest.mark.parametrize(
    ("started", "problem"),
    [
        ({"timestamp": 1, "version": "1.2.0"}, None),
        ({"timestamp": 1}, None),
        (
            {"timestamp": 1, "version": "1.3.0"},
            "it reports version '1.3.0', and 1.2.0 was asked for",
        ),
        ({"version": "1.2.0"}, "startup_complete has the timestamp nothing"),
        ({"timestamp": "now"}, "startup_complete has the timestamp 'now'"),
    ],
)
def test_another_version_or_a_start_without_a_time_is_no_trial(
    started: dict[str, object], problem: str | None
) -> None:
    """A result would name the wrong version, or have no schedule."""
    assert OURS.problem(started) == problem


def test_an_exception_of_an_unknown_library_leaves_the_outcome_open() -> None:
    """Only the line itself can say that a record is not stored."""
    assert OURS.classify("QueueFull", 0) == (-1, "unknown")
