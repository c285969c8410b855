"""`ackbench run quick --acks all` is `--set acks=all`."""

from __future__ import annotations

import pytest
from support.command_line import ackbench
from support.golden_files import Says

from ackbench.experiments.commands.settings_as_options import settings_as_sets

OWN = ("--set", "--repeats", "--max-repeats", "--json", "--dry-run")


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        ("quick --acks all", "quick --set acks=all"),
        ("quick --acks=0,1 --repeats 3", "quick --set acks=0,1 --repeats 3"),
        ("--fault leader-crash quick", "--set fault=leader-crash quick"),
        ("--replication-factor 3", "--set replication.factor=3"),
        ("--workload.duration_s 5s", "--set workload.duration_s=5s"),
        ("--repeat 5", "--repeat 5"),
        ("--frobnicate", "--frobnicate"),
        ("--acks --dry-run", "--acks --dry-run"),
        ("quick -- --acks all", "quick -- --acks all"),
    ],
)
def test_an_option_with_a_value_is_a_setting(given: str, parsed: str) -> None:
    """What is like an option of the command, or has no value, is the command's to refuse."""
    assert " ".join(settings_as_sets(given.split(), OWN)) == parsed


def test_the_plan_has_the_settings_of_the_options() -> None:
    """As a user types it."""
    options = ("--acks", "all", "--fault", "leader-crash", "--rf", "3", "--partitions", "1")
    result = ackbench("run", "quick", *options, "--dry-run")

    assert result.exit_code == 0
    assert "1 x acks=all idem=on RF=3 P=1 leader-crash" in result.output
    assert "x acks=0" not in result.output


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("--idempotence on", "enable.idempotence=on"),
        ("--idem on", "enable.idempotence=on"),
        ("--RF 3", "replication.factor=3"),
        ("--replicas 3", "replication.factor=3"),
        ("--faults leader-pause", "fault=leader-pause"),
        ("--kafka 3.9.2", "kafka.version=3.9.2"),
        ("--set idem=on", "enable.idempotence=on"),
    ],
)
def test_a_short_name_is_that_of_the_setting(short: str, name: str) -> None:
    """Those of the tables too. The plan is the same."""
    given = ackbench("run", "quick", *short.split(), "--acks", "all", "--dry-run")
    named = ackbench("run", "quick", "--set", name, "--acks", "all", "--dry-run")

    assert given.exit_code == 0, given.output
    assert given.output == named.output


def test_a_setting_that_does_not_exist_is_one_line_with_the_nearest(says: Says) -> None:
    """Not a usage dump."""
    result = ackbench("run", "quick", "--linger.m", "5", "--dry-run")

    assert result.exit_code == 2
    says(result.output)
