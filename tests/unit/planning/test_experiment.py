"""A wrong experiment file is refused in one line with file, key, value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.catalog.loading import read_experiment
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.yaml_reader import parse_yaml

VALID: dict[str, Any] = {
    "name": "mine",
    "title": "One line",
    "question": "Why?",
    "axes": {"acks": [0, 1]},
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axis": {}}, "unknown key axis; did you mean axes?"),
        ({"workload": {"rate": 5}}, "unknown key workload.rate"),
        ({"workload": {"duration": 5}}, "unknown key workload.duration; did you mean duration_s?"),
        (
            {"workload": {"rate_records_per_s": 0}},
            "workload.rate_records_per_s is 0; allowed: more than 0",
        ),
        (
            {"workload": {"rate_records_per_s": -1.5}},
            "workload.rate_records_per_s is -1.5; allowed: more than 0",
        ),
        (
            {"workload": {"rate_records_per_s": float("inf")}},
            "workload.rate_records_per_s is inf; allowed: a finite number",
        ),
        (
            {"workload": {"record_size_bytes": 39}},
            "workload.record_size_bytes is 39; allowed: 40 or more",
        ),
        ({"keys": {"count": True}}, "keys.count is true; allowed: a whole number"),
        ({"workload": {"producers": "2"}}, "workload.producers is '2'; allowed: a whole number"),
        ({"workload": 5}, "workload is 5; allowed: a mapping"),
        ({"nodes": 0}, "nodes is 0; allowed: 1 or more"),
        ({"repeats": 0}, "repeats is 0; allowed: 1 or more"),
        ({"controls": "maybe"}, "controls is 'maybe'; allowed: true or false"),
        ({"seed": -1}, "seed is -1; allowed: 0 or more"),
        ({"kafka.version": 4}, "kafka.version is 4; allowed: text; write it in quotes"),
        (
            {"name": "No Spaces"},
            "name is 'No Spaces'; allowed: small letters, digits and single hyphens",
        ),
        ({"title": "two\nlines"}, "title is 'two\\nlines'; allowed: one line"),
        ({"axes": []}, "axes is []; allowed: at least one"),
        ({"axes": {"acks": []}}, "axes.acks is []; allowed: at least one value"),
        ({"axes": {"acks": [{"a": 1}]}}, "axes.acks[0] is {'a': 1}; allowed: one value"),
        (
            {"axes": [{"acks": 1}, {"acks": {"a": 1}}]},
            "axes[1].acks is {'a': 1}; allowed: one value",
        ),
        ({"nodes": 0, "repeats": 0}, "nodes is 0; allowed: 1 or more; repeats is 0; allowed: 1"),
        ({"topic": {"retention.ms": None}}, "topic.retention.ms is nothing; allowed: one value"),
        ({"schedule": "0 3 * *"}, "schedule is '0 3 * *'; allowed: five cron fields"),
        ({"schedule": "61 3 * * *"}, "schedule is '61 3 * * *'; allowed: 0-59"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(
    changes: dict[str, Any], message: str
) -> None:
    """The message starts with the file and is one line."""
    with pytest.raises(ExperimentError) as raised:
        parse_experiment(VALID | changes, "mine.yaml")

    assert str(raised.value).startswith(f"mine.yaml: {message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("missing", ["name", "title", "question", "axes"])
def test_a_missing_key_is_named(missing: str) -> None:
    """Every experiment needs a name, a title, a question and axes."""
    with pytest.raises(ExperimentError, match=f"^mine.yaml: {missing} is missing"):
        parse_experiment(
            {key: value for key, value in VALID.items() if key != missing}, "mine.yaml"
        )


@pytest.mark.parametrize(
    ("data", "message"),
    [(None, "holds nothing"), ([1], "holds a list"), ("text", "holds one value")],
)
def test_yaml_that_is_not_a_mapping_is_refused(data: object, message: str) -> None:
    """An empty file, a list and a single value are not experiments."""
    with pytest.raises(ExperimentError, match=message):
        parse_experiment(data, "mine.yaml")


def test_an_experiment_is_parsed_from_its_own_yaml() -> None:
    """The experiment.yaml of a sweep can be run again."""
    experiment = parse_experiment(
        VALID | {"producer": {"linger.ms": 5, "compression.type": "none"}, "schedule": "@daily"},
        "mine.yaml",
    )

    assert (
        parse_experiment(parse_yaml(experiment.to_yaml(), "again.yaml"), "again.yaml") == experiment
    )


@pytest.mark.parametrize("name", ["absent.yaml", "folder.yaml", "latin.yaml"])
def test_an_unreadable_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    """A missing file, a folder and bytes that are not UTF-8 give a message without a traceback."""
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")

    with pytest.raises(ExperimentError, match=f"{name}: (cannot be read|not UTF-8|a folder)"):
        read_experiment(tmp_path / name)
