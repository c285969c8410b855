"""What an experiment expects, from its file and from `--expect`."""

from __future__ import annotations

from typing import Any

import pytest
from support.fakes.client_rules import RULES

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.expectations import parse_expected
from ackbench.experiments.planning.experiment import Experiment, parse_experiment
from ackbench.experiments.planning.overrides import Overrides, apply_overrides
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.yaml_reader import parse_yaml
from ackbench.experiments.sweep.expectations import Expectation

FILE = """
name: bounds
title: Bounds
question: Are they met?
axes: {acks: [1, all], fault: [none, leader-crash]}
"""


def planned(expect: str) -> tuple[str, ...]:
    """Return the expectations of a plan as text."""
    return tuple(map(str, expectations(f"{FILE}expect: {expect}")))


def expectations(text: str) -> tuple[Expectation, ...]:
    """Return the expectations of the plan of a file."""
    return plan(parse_experiment(parse_yaml(text, "file"), "file"), "s", RULES).expectations


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{lost: 0}", ("lost = 0",)),
        ("{lost: '= 0', duplicates: '<= 10'}", ("lost = 0", "duplicates <= 10")),
        ("{unavailable_ms: < 5s}", ("unavailable_ms < 5,000",)),
        ("{ack_p99_ms: '<50 ms'}", ("ack_p99_ms < 50",)),
        ("{throughput_records_per_s: '>= 2k/s'}", ("throughput_records_per_s >= 2,000",)),
        ("{recovered_before_heal: yes}", ("recovered_before_heal = true",)),
        (
            "{transactions_torn: 0, copies_missed: 0}",
            ("transactions_torn = 0", "copies_missed = 0"),
        ),
        ("{where: {acks: -1}, lost: 0}", ("lost = 0 where acks=all",)),
        ("{where: {acks: [1, all]}, lost: 0}", ("lost = 0 where acks=1/all",)),
        (
            "[{lost: 0}, {where: {fault: leader-crash}, duplicates: 0}]",
            ("lost = 0", "duplicates = 0 where fault=leader-crash"),
        ),
    ],
)
def test_a_bound_is_a_number_or_a_relation_with_units(written: str, read: tuple[str, ...]) -> None:
    """A number alone has to be equal; a section may be about some cells."""
    assert planned(written) == read


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{lots: 0}", "expect: no measure 'lots'; did you mean lost?; such as lost, duplicates, "),
        ("{lost: many}", "expect.lost is 'many'; allowed: a number, or a bound such as"),
        ("{lost: =zero}", "expect.lost is 'zero'; allowed: a number, or a bound such as"),
        ("{lost: '< '}", "expect.lost is '< '; allowed: a number"),
        (
            "{unavailable_ms: 5s}",
            "expect.unavailable_ms is '5s', and no two times or rates are equal",
        ),
        ("{lost: -1}", "expect.lost is -1; allowed: a number"),
        ("{lost: true}", "expect.lost is true; allowed: a number"),
        ("{unavailable_ms: < 5 kB}", "expect.unavailable_ms is '< 5 kB'; allowed: a number"),
        ("{recovered_before_heal: 1}", "expect.recovered_before_heal is 1; allowed: true or false"),
        (
            "{where: {acks: 0}, lost: 0}",
            "expect.where.acks is 0, which no cell has; they have 1, all",
        ),
        ("{where: {linger.ms: 0}, lost: 0}", "expect.where.linger.ms: no axis of this experiment"),
        ("{where: {akcs: 0}, lost: 0}", "akcs"),
        ("{where: 1, lost: 0}", "expect.where is 1; allowed: values by axis, such as {acks: all}"),
        ("0", "expect"),
    ],
)
def test_what_cannot_be_a_bound_is_one_line_with_what_is_allowed(
    written: str, message: str
) -> None:
    """Before anything is started."""
    with pytest.raises(ExperimentError, match=r"\A[^\n]*\Z") as raised:
        planned(written)
    assert message in str(raised.value)


def test_an_option_is_a_bound_of_all_cells_beside_those_of_the_file() -> None:
    """`--expect` adds."""
    experiment = parse_experiment(parse_yaml(f"{FILE}expect: {{lost: 0}}", "file"), "file")
    changed = apply_overrides(
        experiment, Overrides(expect=parse_expected(["unavailable_ms<5s"])), RULES
    )
    both = plan(changed, "s", RULES).expectations
    assert list(map(str, both)) == ["lost = 0", "unavailable_ms < 5,000"]


@pytest.mark.parametrize("text", ["", "lost", "=0", "lost:0", "lost 0", "a b=1"])
def test_an_option_without_a_bound_is_refused_with_an_example(text: str) -> None:
    """It says how a bound is written."""
    with pytest.raises(ExperimentError, match="--expect lost=0"):
        parse_expected([text])


def test_an_experiment_with_expectations_is_written_and_read_as_it_was() -> None:
    """The sweep's own copy of the file has them."""
    experiment = parse_experiment(
        parse_yaml(f"{FILE}expect: [{{where: {{acks: all}}, lost: 0, ack_p99_ms: < 50}}]", "file"),
        "file",
    )
    assert parse_experiment(parse_yaml(experiment.to_yaml(), "copy"), "copy") == experiment


def test_no_experiment_of_the_catalogue_has_other_cells_for_its_expectations() -> None:
    """Without `expect` a plan has none."""
    experiment: Any = load_experiment("quick")
    assert isinstance(experiment, Experiment)
    assert plan(experiment, "s", RULES).expectations == ()
