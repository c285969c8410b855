"""A secret in an experiment is a reference, in every place, and no file below a home has it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.command_line import ackbench

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.experiments.planning.overrides import Overrides, apply_overrides, parse_override
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.trial.clients.java.log import effective_settings
from ackbench.experiments.trial.clients.librdkafka.client import Client
from ackbench.experiments.trial.clients.librdkafka.library import PRODUCER
from ackbench.experiments.trial.clients.programs.command import CommandDialect
from ackbench.experiments.trial.clients.programs.program import VerifiableProgram
from ackbench.infra.cluster.handle import ClusterHandle
from ackbench.infra.cluster.supervisor import prepare_node
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.broker_settings import shared_properties
from ackbench.infra.kafka.kraft import NodeAddress
from ackbench.infra.kafka.spec import LaunchSpec
from ackbench.infra.machine.home import Home

SECRET = "correct horse battery"  # noqa: S105 - of no account
REFERENCE = "$ACKBENCH_TEST_SECRET"
LIBRDKAFKA = (
    "sasl.password",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
)
JAVA = (
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
)
BROKER = (*JAVA, "delegation.token.secret.key", "sasl.oauthbearer.assertion.private.key.passphrase")
ZOOKEEPER = ("zookeeper.ssl.keystore.password", "password.encoder.secret")
PLACES = [
    *(("producer", "librdkafka", name) for name in LIBRDKAFKA),
    *(("consumer", "librdkafka", name) for name in LIBRDKAFKA),
    *(("security", "librdkafka", name) for name in LIBRDKAFKA),
    *(("producer", "java", name) for name in JAVA),
    *(("consumer", "java", name) for name in JAVA),
    *(("broker", "librdkafka", name) for name in BROKER),
    *(("broker", "zookeeper", name) for name in ZOOKEEPER),
]


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKBENCH_TEST_SECRET", SECRET)


def experiment(kind: str = "librdkafka", **changes: Any) -> dict[str, Any]:
    """Return the data of an experiment of one cell."""
    cluster = {"kafka.version": "3.9.2", "coordination": "zookeeper"} if kind == "zookeeper" else {}
    return {
        "name": "mine",
        "title": "t",
        "question": "q",
        "axes": {"acks": "all"},
        "controls": False,
        "client": "java" if kind == "java" else "librdkafka",
        **cluster,
        **changes,
    }


def with_secret(section: str, kind: str, name: str, value: str) -> dict[str, Any]:
    """Return the data of an experiment that has a secret in a section."""
    external: dict[str, Any] = {"cluster": "external", "bootstrap.servers": "example:9092"}
    return experiment(
        kind, **{section: {name: value}}, **(external if section == "security" else {})
    )


@pytest.mark.parametrize(("section", "kind", "name"), PLACES)
def test_a_secret_in_a_section_is_a_reference_or_refused(
    section: str, kind: str, name: str
) -> None:
    """The message has no secret, and a reference is planned as it is."""
    made = plan(
        parse_experiment(with_secret(section, kind, name, REFERENCE), "mine.yaml"), "mine-1"
    )
    assert (REFERENCE in made.model_dump_json(), SECRET in made.model_dump_json()) == (True, False)
    with pytest.raises(ExperimentError, match=r"is a secret; allowed: the name of an env") as error:
        plan(parse_experiment(with_secret(section, kind, name, SECRET), "mine.yaml"), "mine-1")
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(("section", "kind", "name"), [p for p in PLACES if p[0] != "security"])
def test_a_secret_of_an_axis_or_an_override_is_a_reference_or_refused(
    section: str, kind: str, name: str
) -> None:
    """An axis of secrets compares two of them by the names of their variables."""
    axis = f"{section}.{name}"
    for values in ([SECRET], [REFERENCE, SECRET]):
        data = experiment(kind, axes={"acks": "all", axis: values})
        with pytest.raises(ExperimentError, match=f"^{section} property .* is a secret") as error:
            plan(parse_experiment(data, "mine.yaml"), "mine-1")
        assert SECRET not in str(error.value)
    base = parse_experiment(experiment(kind), "mine.yaml")
    with pytest.raises(ExperimentError, match=f"^--set {axis}: .* is a secret") as error:
        apply_overrides(base, Overrides({axis: (SECRET,)}))
    assert SECRET not in str(error.value)
    changed = apply_overrides(base, Overrides(dict([parse_override(f"{axis}={REFERENCE}")])))
    assert REFERENCE in plan(changed, "mine-1").model_dump_json()


@pytest.mark.parametrize(
    "text",
    ["hunter2", "$A,hunter2", "*hunter2", "!hunter2", "{hunter2: 1}", "[hunter2", "'hunter2", ""],
)
def test_an_override_that_is_no_yaml_is_refused_without_its_secret(text: str) -> None:
    """YAML's own messages contain the text."""
    with pytest.raises(ExperimentError) as error:
        parse_override(f"producer.ssl.key.password={text}")
    assert "hunter2" not in str(error.value)


def test_a_secret_of_a_wrong_type_is_not_printed() -> None:
    """The message has the key and what is allowed."""
    for value in (["hunter2"], {"hunter2": 1}):
        with pytest.raises(ExperimentError, match=r"ssl.key.password is \[hidden\]") as error:
            parse_experiment(experiment(producer={"ssl.key.password": value}), "mine.yaml")
        assert "hunter2" not in str(error.value)


def test_a_url_with_credentials_is_refused() -> None:
    """It would be written down as it is."""
    url = "https://me:hunter2@example.org/token"
    data = experiment(producer={"sasl.oauthbearer.token.endpoint.url": url})
    with pytest.raises(ExperimentError, match="has credentials; allowed: a URL") as error:
        plan(parse_experiment(data, "mine.yaml"), "mine-1")
    assert "hunter2" not in str(error.value)


def test_a_variable_that_is_not_set_is_an_error_before_anything_starts() -> None:
    """The message names the variable and the property."""
    data = experiment(broker={"ssl.key.password": "$ACKBENCH_NO_SUCH"})
    with pytest.raises(
        ExperimentError,
        match=r"^broker property: environment variable ACKBENCH_NO_SUCH is not set; it must hold",
    ):
        plan(parse_experiment(data, "mine.yaml"), "mine-1")


def test_a_form_sends_neither_secrets_nor_the_names_of_variables() -> None:
    """With a URL of its own, it could send any variable of this machine there."""
    base = parse_experiment(experiment(), "mine.yaml")
    for axis, value in {
        "producer.ssl.key.password": REFERENCE,
        "producer.sasl.oauthbearer.token.endpoint.url": "https://example.org",
        "producer.sasl.username": "$PATH",
        "consumer.ssl.ca.location": "/etc/passwd",
        "broker.ssl.keystore.password": REFERENCE,
    }.items():
        with pytest.raises(ExperimentError, match="is a security property; allowed: in an exp"):
            apply_overrides(base, Overrides({axis: (value,)}, from_form=True))


def test_no_file_below_the_home_holds_a_secret_of_the_sweep(tmp_path: Path) -> None:
    """The plan, the experiment, the brokers' files, the clients' jobs, settings and logs."""
    home = Home(tmp_path / "home")
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        json.dumps(
            experiment(
                nodes=1,
                workload={"duration_s": 1},
                producer={name: REFERENCE for name in LIBRDKAFKA if name != LIBRDKAFKA[2]},
                consumer={"ssl.keystore.password": REFERENCE},
                broker=dict.fromkeys(BROKER, REFERENCE),
                axes={"acks": "all", "consumer.ssl.key.password": [REFERENCE]},
            )
        )
    )
    override = dict([parse_override(f"producer.sasl.oauthbearer.client.secret={REFERENCE}")])
    sweep = new_sweep(home, str(mine), Overrides(override))
    (trial,) = sweep.plan().trials

    work = sweep.root / "work"
    for folder in (work, work / "data"):
        folder.mkdir()
    _start_node(trial.cluster.spec(), work)
    with Client(PRODUCER, {**trial.producer, "debug": "all"}, log=work / "client.log") as client:
        (work / "effective.json").write_text(json.dumps(client.effective_settings()))
    java = dict.fromkeys(JAVA, REFERENCE)
    with VerifiableProgram(
        "producer 0", CommandDialect("waits", ["sleep", "60"]), "producer", [], java, {}, work
    ):
        files = [path for path in home.root.rglob("*") if path.is_file()]
        holding = [path.name for path in files if SECRET.encode() in path.read_bytes()]
    assert holding == []
    names = {path.name for path in files}
    assert {"plan.json", "experiment.yaml", "server.properties", "client.log"} <= names
    assert "${env:ACKBENCH_TEST_SECRET}" in (work / "server.properties").read_text()
    reported = effective_settings("\tssl.key.password = [hidden]\n", java)
    assert reported == java


def _start_node(spec: Any, folder: Path) -> None:
    launch = LaunchSpec(("true",), "")
    handle = ClusterHandle("c", "id", spec, launch, shared_properties(spec), ())
    handle.write(folder)
    # Brokers under ZooKeeper format their storage themselves: no formatted folder is needed.
    zookeeper = replace(handle, spec=replace(spec, coordination="zookeeper"))
    node = NodeAddress(1, 1, 2, 3, role="broker")
    prepare_node(zookeeper, node, [node], folder, folder / "data")


def test_a_node_is_not_prepared_without_the_variables_of_its_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would start with the text of the reference."""
    data = experiment(broker={"ssl.key.password": REFERENCE})
    (trial,) = plan(parse_experiment(data, "mine.yaml"), "mine-1").trials
    monkeypatch.delenv("ACKBENCH_TEST_SECRET")
    (tmp_path / "data").mkdir()
    with pytest.raises(InputError, match="ACKBENCH_TEST_SECRET is not set; it must hold"):
        _start_node(trial.cluster.spec(), tmp_path)


def test_the_command_line_refuses_a_secret_in_one_line_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the terminal nor the home gets it."""
    home = tmp_path / "home"
    monkeypatch.setenv("ACKBENCH_HOME", str(home))
    result = ackbench("run", "quick", "--set", "producer.ssl.key.password=hunter2")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "hunter2" not in result.output + result.stderr
    assert not list(home.rglob("*.json"))
