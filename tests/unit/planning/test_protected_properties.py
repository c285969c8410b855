"""Properties that load or run code are refused before a client sees their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.command_line import ackbench

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.orchestration.request import SweepRequest
from ackbench.experiments.planning.catalog.loading import catalog_experiments, load_experiment
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.experiments.planning.overrides import Overrides, apply_overrides
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.properties import kafka_properties
from ackbench.experiments.planning.properties.protected import refuse_protected
from ackbench.experiments.trial.clients.librdkafka.settings_check import refusal
from ackbench.infra.machine.home import Home

MESSAGE = "loads or runs code; allowed: only in an experiment's file with `allow_code: true`"


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
    assert "dlopen() failed" in str(refusal({"plugin.library.paths": str(library)}))


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
        "ssl.engine.id",
        "ssl.engine.factory.class",
        "ssl.provider",
        "ssl.providers",
        "security.providers",
        "sasl.kerberos.kinit.cmd",
        "sasl.login.class",
        "sasl.login.callback.handler.class",
        "sasl.oauthbearer.jwt.retriever.class",
        "config.providers",
        "config.providers.file.class",
        "interceptor.classes",
        "metric.reporters",
        "kafka.metrics.reporters",
        "authorizer.class.name",
        "remote.log.storage.manager.class.path",
        "zookeeper.clientCnxnSocket",
        "listener.name.client.PLUGIN.class",
    ],
)
def test_a_property_that_loads_code_is_refused_by_name(name: str) -> None:
    """It is refused with any value, also with a class of Kafka's."""
    for text in ("x", "org.apache.kafka.common.metrics.JmxReporter"):
        with pytest.raises(ExperimentError, match=MESSAGE):
            refuse_protected("broker", name, text)
        refuse_protected("broker", name, text, allow_code=True)


@pytest.mark.parametrize("version", ["3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1"])
def test_every_property_of_kafkas_type_class_is_refused_with_a_foreign_class(version: str) -> None:
    """Lists of classes have the type `list`, and some classes are of type `string`."""
    known = kafka_properties(version)
    naming = {
        one.name
        for scope in (known.broker, known.topic, known.producer, known.consumer)
        for one in scope
        if one.type == "class"
        or "org.apache.kafka." in one.default
        or (one.type == "list" and "class" in one.name)
    }
    assert len(naming) > 15
    for name in naming:
        with pytest.raises(ExperimentError, match=r"loads or runs code|names the class"):
            refuse_protected("broker", name, "com.example.Evil")


def test_only_kafkas_own_classes_of_one_package_are_accepted() -> None:
    """The class path could hold other classes one day; short names are Kafka's or librdkafka's."""
    strategy = "partition.assignment.strategy"
    for name, text in {
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        strategy: "cooperative-sticky, range",
        "group.consumer.assignors": "uniform,range",
    }.items():
        refuse_protected("broker", name, text)
    for name, text, foreign in (
        ("replica.selector.class", "com.example.Evil", "com.example.Evil"),
        (strategy, "range, com.example.Evil", "com.example.Evil"),
        (strategy, "range,Evil", "Evil"),
        (
            "replica.selector.class",
            "org.apache.kafka.common.replica.more.Evil",
            "org.apache.kafka.common.replica.more.Evil",
        ),
        (
            "partitioner.class",
            "org.apache.kafka.common.metrics.JmxReporter",
            "org.apache.kafka.common.metrics.JmxReporter",
        ),
    ):
        with pytest.raises(ExperimentError, match=f"names the class {foreign}; allowed: Kafka's"):
            refuse_protected("broker", name, text)


@pytest.mark.parametrize("name", ["principal", "keytab", "service.name"])
def test_a_kerberos_name_cannot_add_words_to_the_shell_command_that_it_is_part_of(
    name: str,
) -> None:
    """A librdkafka with GSSAPI runs `kinit ... -k %{sasl.kerberos.principal}` with system(3)."""
    refuse_protected("security", f"sasl.kerberos.{name}", "bench/host-1.example@EXAMPLE.ORG")
    for text in ("x; touch /tmp/owned", "$(id)", "`id`", 'a" b', "a\nb"):
        with pytest.raises(ExperimentError, match="is part of a shell command; allowed: letters"):
            refuse_protected("security", f"sasl.kerberos.{name}", text)


def test_a_value_cannot_come_from_a_config_provider() -> None:
    """`${file:...}` would copy any file into a setting that the broker logs."""
    for text in ("${env:HOME}", "${file:/etc/passwd:root}", "a-${env:HOME}-b"):
        with pytest.raises(ExperimentError, match="refers to a config provider, which is a class"):
            refuse_protected("broker", "broker.rack", text)


def test_a_file_may_allow_code_and_a_form_may_not(library: Path, tmp_path: Path) -> None:
    """The experiment is then refused as a whole, whatever the form changes."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        "name: mine\ntitle: t\nquestion: q\naxes: {acks: all}\nallow_code: true\n"
        f"producer: {{plugin.library.paths: {library}}}\n"
    )
    with pytest.raises(ExperimentError, match=r"the client reports: .* dlopen\(\) failed"):
        plan(load_experiment(str(mine)), "mine-1")
    with pytest.raises(ExperimentError, match="allow_code is true in an experiment from a form"):
        new_sweep(Home(tmp_path / "home"), str(mine), Overrides(from_form=True))


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("token_command: [touch, /tmp/owned]", "token_command runs a command"),
        (
            "faults: {mine: {kind: command, inject: [touch, /tmp/owned], heal: ['true']}}",
            "faults.mine runs commands",
        ),
    ],
)
def test_a_form_may_not_start_an_experiment_with_commands(
    section: str, reason: str, tmp_path: Path
) -> None:
    """Whoever may start sweeps may start brokers, not programs."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"name: mine\ntitle: t\nquestion: q\naxes: {{acks: all}}\n{section}\n")
    with pytest.raises(ExperimentError, match=f"{reason} in an experiment from a form"):
        new_sweep(Home(tmp_path / "home"), str(mine), Overrides(from_form=True))


def test_no_experiment_of_the_catalogue_allows_code() -> None:
    """They are started from forms."""
    assert not [one.name for one in catalog_experiments() if one.allow_code]


@pytest.mark.parametrize(
    ("section", "program"),
    [
        ("client: {name: ours, command: ['true']}", "client ours is a program"),
        ("copy: {command: ['true']}", "copy.command is a program"),
    ],
)
def test_a_form_starts_no_experiment_with_programs(
    tmp_path: Path, section: str, program: str
) -> None:
    """Who may start a sweep may start brokers, not programs."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(f"name: mine\ntitle: t\nquestion: q\naxes: {{acks: all}}\n{section}\n")
    with pytest.raises(ExperimentError, match=f"{program} in an experiment from a form"):
        new_sweep(Home(tmp_path / "home"), str(mine), Overrides(from_form=True))


def test_an_override_cannot_allow_code() -> None:
    """`allow_code` is no axis."""
    with pytest.raises(ExperimentError, match="unknown axis allow_code"):
        apply_overrides(load_experiment("quick"), Overrides({"allow_code": (True,)}))
