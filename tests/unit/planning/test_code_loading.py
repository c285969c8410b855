"""Properties that load or run code are refused before a client sees their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.command_line import ackbench

from experiments.clients.librdkafka import properties
from experiments.errors import ExperimentError
from experiments.orchestration.request import SweepRequest
from experiments.planning.catalog import load_experiment
from experiments.planning.code_loading import (
    CLASS_NAME_PROPERTIES,
    CODE_LOADING_PROPERTIES,
    refuse_code_loading,
)
from experiments.planning.experiment import parse_experiment
from experiments.planning.overrides import apply_overrides
from experiments.planning.planner import plan
from experiments.planning.properties import kafka_properties

MESSAGE = "loads or runs code: an experiment cannot set it"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Return a file that is not a library: opening it causes an error of the dynamic linker."""
    path = tmp_path / "plugin.so"
    path.write_text("no library")
    return path


def planned(**changes: Any) -> None:
    """Plan an experiment of one cell."""
    plan(
        parse_experiment(
            {
                "name": "mine",
                "title": "t",
                "question": "q",
                "axes": {"acks": "all"},
                "controls": False,
                **changes,
            },
            "mine.yaml",
        ),
        "mine-1",
    )


def test_librdkafka_opens_a_plugin_as_soon_as_the_property_is_set(library: Path) -> None:
    """So the client must not see the value: setting the property runs the library's code."""
    assert "dlopen() failed" in str(properties.refusal({"plugin.library.paths": str(library)}))


@pytest.mark.parametrize("section", ["producer", "consumer"])
def test_a_plugin_in_an_experiment_is_refused_and_not_opened(library: Path, section: str) -> None:
    """The property is refused in a section."""
    with pytest.raises(
        ExperimentError, match=f"^{section} property plugin.library.paths {MESSAGE}$"
    ):
        planned(**{section: {"plugin.library.paths": str(library)}})


def test_a_plugin_as_an_axis_is_refused_and_not_opened(library: Path) -> None:
    """The property is refused as an axis, with or without a prefix."""
    for axis in (
        "plugin.library.paths",
        "producer.plugin.library.paths",
        "consumer.plugin.library.paths",
    ):
        with pytest.raises(ExperimentError, match=MESSAGE):
            planned(axes={"acks": "all", axis: [str(library)]})


@pytest.mark.parametrize("command", [["run", "quick"], ["explain", "quick"]])
def test_a_plugin_on_the_command_line_is_refused_in_one_line(
    library: Path, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` gets the property as an override, `explain` in a file."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "home"))
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "name: mine\ntitle: t\nquestion: q\naxes: {acks: all}\n"
        f"producer: {{plugin.library.paths: {library}}}\n"
    )
    result = (
        ackbench(*command, "--set", f"plugin.library.paths={library}")
        if command[0] == "run"
        else ackbench("explain", str(mine))
    )

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert MESSAGE in result.stderr


def test_a_plugin_in_the_trigger_form_is_refused(library: Path) -> None:
    """The form's free text is parsed as `--set`."""
    request = SweepRequest.of({"experiment": "quick", "set": [f"plugin.library.paths={library}"]})
    with pytest.raises(ExperimentError, match=MESSAGE):
        apply_overrides(load_experiment(request.experiment), request.overrides())


def test_an_ssl_engine_in_the_security_section_is_refused(library: Path) -> None:
    """The client would load the engine into ackbench's process."""
    with pytest.raises(ExperimentError, match=f"^security property ssl.engine.location {MESSAGE}$"):
        planned(
            cluster="external",
            **{"bootstrap.servers": "external:9092"},
            security={"ssl.engine.location": str(library)},
        )


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "ssl.engine.location",
        "ssl.providers",
        "security.providers",
        "sasl.kerberos.kinit.cmd",
        "sasl.jaas.config",
        "config.providers",
        "config.providers.file.class",
        "interceptor.classes",
        "metric.reporters",
        "kafka.metrics.reporters",
        "remote.log.storage.manager.class.path",
    ],
)
def test_a_property_that_loads_code_is_refused_by_name(name: str) -> None:
    """It is refused with any value."""
    with pytest.raises(ExperimentError, match=MESSAGE):
        refuse_code_loading("broker", name, "x")


def test_only_kafkas_own_classes_are_accepted() -> None:
    """The class path could hold other classes one day; short names are Kafka's or librdkafka's."""
    refuse_code_loading(
        "broker",
        "replica.selector.class",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )
    refuse_code_loading("consumer", "partition.assignment.strategy", "cooperative-sticky,range")
    with pytest.raises(
        ExperimentError, match=r"names the class com.example.Evil; allowed: Kafka's own classes"
    ):
        refuse_code_loading("broker", "replica.selector.class", "com.example.Evil")
    with pytest.raises(ExperimentError, match=r"names the class com.example.Evil"):
        refuse_code_loading("consumer", "partition.assignment.strategy", "range, com.example.Evil")


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_every_property_of_kafkas_type_class_is_checked(version: str) -> None:
    """A property of type `class` that a later version adds is covered as well."""
    known = kafka_properties(version)
    naming = {
        one.name
        for scope in (known.broker, known.topic, known.producer, known.consumer)
        for one in scope
        if one.type == "class"
    }
    for name in naming:
        with pytest.raises(ExperimentError):
            refuse_code_loading("broker", name, "com.example.Evil")
    assert naming
    assert CODE_LOADING_PROPERTIES
    assert CLASS_NAME_PROPERTIES
