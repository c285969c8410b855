"""A short form of `make hostile`: bad input, homes that cannot be used, edited experiments."""

from __future__ import annotations

import pytest
from hostile import fuzzing, homes, inputs, parsers
from support import tally

EVERY_INPUT, EVERY_HOME, EXPERIMENTS, PARSED = 12, 9, 200, 100
"""Every so manieth case of the table and pair of home and command; how many experiments, and how
many inputs of each parser."""


def test_bad_input_is_one_line_with_exit_code_2_and_writes_nothing() -> None:
    """Over all commands and keys of an experiment."""
    found = inputs.run(EVERY_INPUT)
    tally.count("bad inputs refused in one line", found.tried)
    assert not found.failures


def test_bad_input_ends_a_process_of_its_own_in_the_same_way() -> None:
    """As one that was started from a shell."""
    assert not inputs.run_as_processes(1).failures


def test_a_home_that_cannot_be_used_is_one_line() -> None:
    """For commands that need it."""
    assert not homes.run(EVERY_HOME).failures


def test_edited_experiments_are_planned_or_refused_in_one_line() -> None:
    """No other exception leaves the planner, and none takes long."""
    found = fuzzing.run(EXPERIMENTS, seed=1)
    tally.count("edited experiments planned or refused", found.tried)
    assert not found.failures


def test_a_parser_reads_what_a_stranger_sends_or_refuses_it_in_one_line() -> None:
    """No other exception leaves it, and nothing takes long."""
    found = parsers.run(PARSED, 1, lambda _: None)
    tally.count("edited inputs of parsers read or refused", found.tried)
    assert not found.failures


def test_the_table_has_a_case_for_every_command() -> None:
    """A new command needs its bad input."""
    from ackbench.experiments.commands.cli import cli

    tested = {case.arguments[0] for case in inputs.bad_inputs()}
    assert set(cli.commands) <= tested


def test_the_table_has_a_case_for_every_key_of_an_experiment() -> None:
    """A new key of the file or of a section of the load needs its bad values."""
    from ackbench.experiments.planning.experiment import Experiment
    from ackbench.experiments.sweep.workload import LOAD_SECTIONS

    keys = inputs.bad_values()
    assert {field.alias or name for name, field in Experiment.model_fields.items()} <= set(
        keys["file"]
    )
    for section, model in LOAD_SECTIONS.items():
        assert set(model.model_fields) <= set(keys[section])


@pytest.mark.parametrize("number", range(5))
def test_an_edited_experiment_can_be_made_again_from_its_number_and_seed(number: int) -> None:
    """A failure names both."""
    assert fuzzing.edited_experiment(number, 1) == fuzzing.edited_experiment(number, 1)
