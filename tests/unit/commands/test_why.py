"""`ackbench why`, families of faults, and questions that are no command."""

from __future__ import annotations

import pytest
from support.command_line import ackbench


def text_of(*arguments: str) -> str:
    """Return the output of a command that succeeds, however wide the terminal is."""
    result = ackbench(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_why_names_the_rules_that_a_value_decides() -> None:
    """Those of the value, and those that name the setting without one; not those of others."""
    text = text_of("why", "acks=1")

    assert "no acked loss: not guaranteed if acks=1" in text
    assert "[KIP-101]" in text
    assert "if acks=all, eligible" not in text
    assert "acks-levels: What do acks 0, 1 and all lose" in text


def test_why_takes_the_name_of_either_client() -> None:
    """Librdkafka's alias is Kafka's name."""
    assert text_of("why", "request.required.acks") == text_of("why", "acks")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("fault=leader-crsh", "unknown fault leader-crsh; did you mean leader-crash, "),
        ("acks=2", "producer property acks is 2; allowed: 0, 1 or all"),
        ("enable.idempotence=maybe", "enable.idempotence is 'maybe'; allowed: true, false"),
        ("min.insync.replicas=x", "min.insync.replicas is 'x'; allowed: a whole number of"),
        ("partitions=abc", "partitions is 'abc'; allowed: a whole number from 1 to 1000"),
        ("nodes=abc", "nodes is 'abc'; allowed: a whole number"),
    ],
)
def test_why_refuses_a_value_that_run_refuses(setting: str, message: str) -> None:
    """In one line; `run --set` has the same message after the option."""
    why, run = ackbench("why", setting), ackbench("run", "quick", "--dry-run", "--set", setting)

    assert (why.exit_code, why.stdout, why.stderr.count("\n")) == (2, "", 1)
    assert why.stderr.startswith("ackbench: ")
    assert message in why.stderr
    assert message in run.stderr


@pytest.mark.parametrize(
    "setting", ["acks=-1", "nodes=1", "compression.type=zstd", "max.block.ms=5", "linger.ms=5"]
)
def test_why_takes_a_value_that_any_scope_or_other_client_allows(setting: str) -> None:
    """A name of Java's client alone has any value."""
    assert text_of("why", setting).startswith(setting)


def test_a_setting_that_decides_nothing_is_said_to() -> None:
    """No rule names it."""
    assert "no rule of the contract depends on it" in text_of("why", "compression.type")


def test_a_family_of_faults_is_listed_alone() -> None:
    """By its name in the list of all."""
    lines = ackbench("faults", "ensemble").output.splitlines()

    assert lines[0] == "ensemble"
    assert "zookeeper-leader-crash" in lines[1]
    assert not any("leader-pause" in line for line in lines)


def test_faults_are_listed_by_a_part_of_their_names() -> None:
    """Of every family that has one."""
    lines = ackbench("faults", "crash").output.splitlines()

    assert any("leader-crash " in line for line in lines)
    assert any("zookeeper-leader-crash" in line for line in lines)
    assert not any("leader-pause" in line for line in lines)


@pytest.mark.parametrize(
    ("question", "nearest"),
    [
        ("reprot", "`ackbench report`"),
        ("which settings are guaranteed", "`ackbench check`"),
        ("where does a setting decide", "`ackbench why`"),
        ("what do i lose", "`ackbench check`"),
        ("results", "`ackbench show`"),
        ("test my settings", "`ackbench run`"),
        ("start a broker", "`ackbench cluster`"),
        ("experiments", "nearest: `ackbench list`"),
        ("catalogue", "nearest: `ackbench list`"),
        ("history", "nearest: `ackbench trend`"),
    ],
)
def test_a_question_that_is_no_command_gets_the_nearest_ones(question: str, nearest: str) -> None:
    """Three of them, in one line."""
    result = ackbench(*question.split())

    assert result.exit_code == 2
    assert nearest in result.output
    assert result.output.count("`ackbench ") == 4
    assert len(result.output.splitlines()) == 1


def test_a_setting_in_a_question_is_what_the_answer_begins_with() -> None:
    """Its command is named with the value."""
    output = ackbench("what", "is", "lost", "with", "acks=1").output

    assert "acks is a setting: `ackbench why acks=1`" in output
    assert len(output.splitlines()) == 1


def test_help_is_a_command_to_those_who_expect_one() -> None:
    """Of all, and of one command."""
    assert ackbench("help").output == ackbench("--help").output
    assert ackbench("help", "run").output == ackbench("run", "--help").output


@pytest.mark.parametrize(
    ("word", "command"),
    [
        ("acks", "`ackbench why acks`"),
        ("acks=1", "`ackbench why acks=1`"),
        ("request.required.acks", "`ackbench why acks`"),
        ("leader-crash", "`ackbench faults leader-crash`"),
        ("qick", "did you mean quick?"),
    ],
)
def test_explaining_what_is_no_experiment_names_the_command_that_describes_it(
    word: str, command: str
) -> None:
    """Of a setting, also by librdkafka's name, and of a fault."""
    result = ackbench("explain", word)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert command in result.stderr
