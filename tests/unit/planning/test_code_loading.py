"""An experiment sets properties, and starts no program: what loads code is refused before any client is asked about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.command_line import ackbench

from experiments.clients.librdkafka import properties
from experiments.errors import ExperimentError
from experiments.orchestration.request import SweepRequest
from experiments.planning.code_loading import CLASSES, REFUSED, refuse_code
from experiments.planning.experiment import experiment_of
from experiments.planning.planner import load, override, plan
from experiments.planning.properties import kafka_properties

LOADS = "loads or runs code: an experiment cannot set it"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A file that no loader takes: whoever opens it says so with the loader's own words."""
    path = tmp_path / "plugin.so"
    path.write_text("no library")
    return path


def planned(**changes: Any) -> None:
    """Plan an experiment of one cell."""
    plan(
        experiment_of(
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


def test_librdkafka_opens_a_plugin_when_it_is_asked_about_it(library: Path) -> None:
    """Why it may not be asked: setting the property is enough to run what the library holds."""
    assert "dlopen() failed" in str(properties.refusal({"plugin.library.paths": str(library)}))


@pytest.mark.parametrize("section", ["producer", "consumer"])
def test_a_plugin_in_an_experiment_is_refused_and_not_opened(library: Path, section: str) -> None:
    """In a section of its own."""
    with pytest.raises(ExperimentError, match=f"^{section} property plugin.library.paths {LOADS}$"):
        planned(**{section: {"plugin.library.paths": str(library)}})


def test_a_plugin_as_an_axis_is_refused_and_not_opened(library: Path) -> None:
    """With or without a prefix."""
    for axis in (
        "plugin.library.paths",
        "producer.plugin.library.paths",
        "consumer.plugin.library.paths",
    ):
        with pytest.raises(ExperimentError, match=LOADS):
            planned(axes={"acks": "all", axis: [str(library)]})


@pytest.mark.parametrize("command", [["run", "quick"], ["explain", "quick"]])
def test_a_plugin_on_the_command_line_is_one_line(
    library: Path, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` takes overrides; `explain` takes a file."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "home"))
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        f"name: mine\ntitle: t\nquestion: q\naxes: {{acks: all}}\nproducer: {{plugin.library.paths: {library}}}\n"
    )
    told = (
        ackbench(*command, "--set", f"plugin.library.paths={library}")
        if command[0] == "run"
        else ackbench("explain", str(mine))
    )

    assert (told.exit_code, told.stderr.count("\n")) == (2, 1)
    assert LOADS in told.stderr


def test_a_plugin_in_the_trigger_form_is_refused(library: Path) -> None:
    """Its free text goes the way of `--set`."""
    request = SweepRequest.of({"experiment": "quick", "set": [f"plugin.library.paths={library}"]})
    with pytest.raises(ExperimentError, match=LOADS):
        override(load(request.experiment), request.overrides())


def test_security_of_an_external_cluster_loads_no_engine(library: Path) -> None:
    """The client would load it into our process."""
    with pytest.raises(ExperimentError, match=f"^security property ssl.engine.location {LOADS}$"):
        planned(
            cluster="external",
            **{"bootstrap.servers": "theirs:9092"},
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
def test_what_loads_code_is_refused_by_name(name: str) -> None:
    """Whatever its value."""
    with pytest.raises(ExperimentError, match=LOADS):
        refuse_code("broker", name, "x")


def test_a_class_is_taken_only_from_kafka_itself() -> None:
    """A class path may hold more than Kafka's classes one day; a short name is one that Kafka or librdkafka knows."""
    refuse_code(
        "broker",
        "replica.selector.class",
        "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    )
    refuse_code("consumer", "partition.assignment.strategy", "cooperative-sticky,range")
    with pytest.raises(
        ExperimentError, match=r"names the class com.example.Evil; allowed: Kafka's own classes"
    ):
        refuse_code("broker", "replica.selector.class", "com.example.Evil")
    with pytest.raises(ExperimentError, match=r"names the class com.example.Evil"):
        refuse_code("consumer", "partition.assignment.strategy", "range, com.example.Evil")


@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_every_property_of_kafka_that_names_a_class_is_known(version: str) -> None:
    """Kafka's own type says so; one that a later version adds must not slip through."""
    known = kafka_properties(version)
    naming = {
        one.name
        for scope in (known.broker, known.topic, known.producer, known.consumer)
        for one in scope
        if one.type == "class"
    }
    for name in naming:
        with pytest.raises(ExperimentError):
            refuse_code("broker", name, "com.example.Evil")
    assert naming
    assert REFUSED
    assert CLASSES
