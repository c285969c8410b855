"""The JSON Schema of experiment files, as an editor uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.schema import experiment_schema
from ackbench.experiments.planning.yaml_reader import read_yaml
from ackbench.experiments.sweep.expectations import EXPECTABLE
from ackbench.experiments.trial.faults import FAULTS
from ackbench.infra.machine.home import REPOSITORY

FILES = sorted(
    [*REPOSITORY.glob("experiments/catalog/**/*.yaml"), *REPOSITORY.glob("tests/golden/**/*.yaml")]
)
WHOLE: dict[str, Any] = {"name": "x", "title": "t", "question": "q", "axes": {"acks": [1, "all"]}}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    """Return the schema."""
    return experiment_schema()


@pytest.fixture(scope="module")
def validator(schema: dict[str, Any]) -> Any:
    """Return what an editor makes of the schema."""
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_experiment_of_the_repository_is_valid(file: Path, validator: Any) -> None:
    """What ackbench runs, an editor accepts."""
    assert [error.message for error in validator.iter_errors(read_yaml(file))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"workload": {"duration_s": "5s", "rate_records_per_s": "50k/s"}},
        {"axes": [{"acks": 1}, {"acks": "all", "fault": ["leader-crash"]}]},
        {"expect": {"lost": 0, "unavailable_ms": "< 5s", "where": {"acks": "all"}}},
        {"expect": [{"lost": 0}, {"where": {"acks": [1]}, "duplicates": "<= 3"}]},
        {"kafka.version": 3.9},
        {"client": {"name": "franz-go", "command": ["./client"]}},
    ],
)
def test_each_form_that_a_file_may_have_is_valid(change: dict[str, Any], validator: Any) -> None:
    """Units, lists or single values, and programs."""
    assert [error.message for error in validator.iter_errors(WHOLE | change)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"repeat": 3},
        {"repeats": 0},
        {"workload": {"rate": 1}},
        {"workload": {"duration_s": "soon"}},
        {"axes": {"acks": {"values": [1]}}},
        {"expect": {"lost": [0]}},
        {"controls": "perhaps"},
    ],
)
def test_what_no_file_may_have_is_invalid(change: dict[str, Any], validator: Any) -> None:
    """A typo is underlined where it is made."""
    assert not validator.is_valid(WHOLE | change)


def test_an_editor_offers_the_names_of_each_kind_with_their_meaning(schema: dict[str, Any]) -> None:
    """Properties of Kafka, axes, faults and measures; keys with what they are."""
    shared = schema["$defs"]
    assert {"acks", "linger.ms"} <= schema["properties"]["producer"]["properties"].keys()
    assert {"min.insync.replicas"} <= schema["properties"]["topic"]["properties"].keys()
    assert {"acks", "fault", "partitions"} <= shared["axes"]["properties"].keys()
    assert {"where", *EXPECTABLE} == shared["expect"]["properties"].keys()
    assert FAULTS.keys() == schema["properties"]["faults"]["properties"].keys()
    assert schema["properties"].keys() == {
        field.alias or name for name, field in Experiment.model_fields.items()
    }
    assert schema["properties"]["nodes"]["description"] == "Number of brokers."
