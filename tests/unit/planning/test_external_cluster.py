"""An external cluster in an experiment: addresses, security, and no settings of its nodes."""

import re
from dataclasses import replace
from typing import Any

import pytest
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import Experiment, parse_experiment
from ackbench.experiments.planning.external_cluster import as_reported, check_commands, release_of
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees.circumstances import Circumstances, circumstances_of
from ackbench.infra.cluster.external import ExternalClusterInfo
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.api_versions import BrokerFeatures

PASSWORD = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "$ACKBENCH_TEST_PASSWORD",
}


def planned(*, brokers: int | None = None, **changes: Any) -> Plan:
    """Return the plan of an experiment on an external cluster of three brokers, or so many."""
    base = {
        "name": "external-test",
        "title": "External",
        "question": "What?",
        "controls": False,
        "cluster": "external",
        "bootstrap.servers": "external:9092",
    }
    return plan(
        parse_experiment(
            {
                **base,
                "axes": {"acks": ["1", "all"]},
                **{n.replace("__", "."): v for n, v in changes.items()},
            },
            "external-test",
        ),
        "external-test",
        brokers=brokers,
    )


def addresses_of(trial: TrialSpec) -> str:
    """Return the addresses of a trial's external cluster."""
    assert trial.cluster.external is not None
    return trial.cluster.external.addresses


def test_every_client_gets_the_security_properties_and_the_plan_holds_no_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan has the name of the environment variable that holds the secret."""
    monkeypatch.setenv("ACKBENCH_TEST_PASSWORD", "hunter2")
    made = planned(security=PASSWORD)
    cluster = made.trials[0].cluster
    assert all(trial.cluster == cluster for trial in made.trials)
    assert (addresses_of(made.trials[0]), cluster.kafka_version, cluster.security) == (
        "external:9092",
        "unknown",
        PASSWORD,
    )
    assert PASSWORD.items() <= made.trials[0].producer.items()
    assert PASSWORD.items() <= made.trials[0].consumer.items()
    assert "hunter2" not in made.model_dump_json()


def test_java_clients_have_no_security_properties_of_librdkafka_in_the_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They get Java's when they connect; the experiment's Kafka version is the clients'."""
    monkeypatch.setenv("ACKBENCH_TEST_PASSWORD", "hunter2")
    made = planned(security=PASSWORD, client="java", kafka__version="4.0.2")
    assert not any("sasl" in name for name in made.trials[0].producer)
    assert not any("sasl" in name for name in made.trials[0].consumer)
    cluster = made.trials[0].cluster
    assert (cluster.kafka_version, cluster.version_of_java_clients) == ("unknown", "4.0.2")


def test_the_settings_that_the_brokers_report_decide_about_guarantees() -> None:
    """The settings of a local cluster do not count."""
    trial = planned().trials[0]
    settings = {"broker.session.timeout.ms": "9000", "replica.lag.time.max.ms": "1000"}
    reported = replace(trial.cluster, broker=settings)
    circumstances = circumstances_of(trial.model_copy(update={"cluster": reported}))
    assert (circumstances.session_timeout_ms, circumstances.replica_lag_ms) == (9000, 1000)


@pytest.mark.parametrize("brokers", [1, 5])
def test_an_external_cluster_may_have_any_number_of_brokers(brokers: int) -> None:
    """Also five replicas then; the number in the file stays the cluster's own business."""
    axes = {"acks": ["all"], "replication.factor": [brokers]}
    (trial,) = planned(brokers=brokers, axes=axes).trials
    assert (trial.cluster.nodes, trial.replication_factor) == (brokers, brokers)
    with pytest.raises(ExperimentError, match="at most the number of nodes, which is 1"):
        planned(brokers=1, axes={"acks": ["all"], "replication.factor": [3]})
    with pytest.raises(ExperimentError, match="nodes cannot be set with cluster external"):
        planned(brokers=brokers, nodes=5)


def _reported(settings: dict[str, str] | None, features: BrokerFeatures | None) -> Circumstances:
    """Return the circumstances in a cluster that reports this."""
    trial = planned().trials[0]
    reported = ExternalClusterInfo("id", (1, 2, 3), settings, features)
    return circumstances_of(
        trial.model_copy(update={"cluster": as_reported(trial.cluster, reported)})
    )


def test_the_features_that_a_broker_reports_decide_about_guarantees() -> None:
    """A feature that is not among the finalized ones has level 0."""
    features = BrokerFeatures({"metadata.version": 30}, {"transaction.version": 2})
    circumstances = _reported({"broker.id": "1"}, features)
    assert (
        circumstances.kafka_version,
        circumstances.transaction_version,
        circumstances.eligible_leader_replicas,
    ) == ("4.3", 2, 0)


def test_features_that_no_broker_tells_are_unknown() -> None:
    """They are not level 0."""
    circumstances = _reported({"broker.id": "1"}, None)
    assert circumstances.transaction_version is None
    assert circumstances.eligible_leader_replicas is None


def test_nothing_is_guaranteed_by_settings_that_the_cluster_does_not_let_read() -> None:
    """The reason names the operation that was refused."""
    features = BrokerFeatures({}, {"metadata.version": 30})
    for clause in clauses_of(_reported(None, features)):
        assert clause.guaranteed is None
        assert "refused DescribeConfigs" in clause.reason


@pytest.mark.parametrize(
    ("highest", "release"),
    [(21, "3.9"), (25, "4.0"), (30, "4.3"), (26, "unknown"), (99, "unknown")],
)
def test_the_release_is_that_of_the_highest_metadata_version(highest: int, release: str) -> None:
    """A level that no release of Apache Kafka ends with says nothing."""
    assert release_of(BrokerFeatures({"metadata.version": highest}, {})) == release


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bootstrap__servers": None}, "bootstrap.servers is missing"),
        (
            {"cluster": "local"},
            "bootstrap.servers, security and token_command need an external cluster: add `cluster",
        ),
        ({"cluster": "rented"}, "cluster is 'rented'; allowed: local or external"),
        (
            {"security": {"ssl.ca.locaton": "x"}},
            "unknown security property ssl.ca.locaton; did you mean ssl.ca.location",
        ),
        ({"security": {"linger.ms": 5}}, "unknown security property linger.ms"),
        (
            {"security": {"sasl.password": "hunter2"}},
            (
                "security property sasl.password is a secret; "
                "allowed: the name of an environment variable"
            ),
        ),
        (
            {"security": {"sasl.password": "$ACKBENCH_TEST_NOT_SET"}},
            "environment variable ACKBENCH_TEST_NOT_SET is not set; it must hold",
        ),
        (
            {"broker": {"broker.session.timeout.ms": 4000}},
            "broker.session.timeout.ms cannot be set with cluster external",
        ),
        ({"nodes": 5}, "nodes cannot be set with cluster external"),
        (
            {"axes": {"kafka.version": ["4.0.2", "4.3.1"]}},
            "kafka.version cannot be set with cluster external",
        ),
        (
            {"axes": {"broker.session.timeout.ms": [4000, 9000]}},
            "broker.session.timeout.ms cannot be set with cluster external",
        ),
        ({"zookeeper__nodes": 3}, "zookeeper.nodes cannot be set with cluster external"),
        (
            {"axes": {"fault": "leader-crash"}},
            (
                "fault 'leader-crash' needs control over the nodes, "
                "which an external cluster does not give; allowed: add-partitions-delayed, "
            ),
        ),
        (
            {"client": "java", "security": {"ssl.sigalgs.list": "ECDSA+SHA256"}},
            "the Java clients have no counterpart of librdkafka's ssl.sigalgs.list",
        ),
        (
            {"security": {"security.protocol": "ssl", "ssl.ca.location": "/no/such/ca.pem"}},
            "security: ssl.ca.location /no/such/ca.pem: no such file",
        ),
    ],
)
def test_settings_that_do_not_fit_an_external_cluster_are_refused_in_one_line(
    changes: dict[str, Any], message: str
) -> None:
    """They are refused before the cluster is contacted, and no secret is printed."""
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        planned(**changes)
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


KILL = {
    "kind": "command",
    "inject": ["true", "$LEADER"],
    "heal": ["true"],
    "like": "leader-crash",
    "at_s": 1.0,
}


def planned_with_commands(**section: Any) -> Plan:
    """Return the plan of an experiment whose fault is a command."""
    return planned(
        axes={"acks": ["all"], "fault": ["none", "kill-leader"]},
        faults={"kill-leader": {**KILL, **section}},
    )


def test_a_fault_by_command_has_the_name_that_the_experiment_gives_it() -> None:
    """In the cell, in its label, and in the plan's parameters."""
    (trial,) = (one for one in planned_with_commands().trials if one.fault.kind != "none")

    assert trial.cell["fault"] == "kill-leader"
    assert "kill-leader" in trial.label
    assert (trial.fault.kind, trial.fault.parameters["name"]) == ("command", "kill-leader")
    assert trial.fault.parameters["inject"] == '["true", "$LEADER"]'


def test_a_parameter_of_a_command_can_be_swept() -> None:
    """Not its words."""
    made = planned(
        axes={"fault": ["kill-leader"], "fault.lasts_s": [1, 2]}, faults={"kill-leader": KILL}
    )

    assert sorted(float(str(one.fault.parameters["lasts_s"])) for one in made.trials) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"heal": ["$HOME"]}, "heal has $HOME; allowed: $LEADER"),
        ({"heal": "systemctl start kafka"}, "faults.kill-leader.heal is 'systemctl"),
        ({"hael": ["true"]}, "unknown key faults.kill-leader.hael; did you mean"),
        ({"like": "leader-craash"}, "like is leader-craash; allowed: "),
    ],
)
def test_a_wrong_command_is_refused_with_its_key(section: dict[str, Any], message: str) -> None:
    """Before the cluster is contacted."""
    with pytest.raises(ExperimentError, match=re.escape(message)):
        planned_with_commands(**section)


def test_a_command_needs_an_external_cluster() -> None:
    """Clusters of ackbench's own have faults that it controls."""
    with pytest.raises(ExperimentError, match="allowed: with `cluster: external`"):
        planned(
            cluster="local",
            bootstrap__servers=None,
            axes={"fault": ["kill-leader"]},
            faults={"kill-leader": KILL},
        )


def test_a_command_cannot_have_the_name_of_a_fault_of_the_catalogue() -> None:
    """A reader would take one for the other."""
    with pytest.raises(ExperimentError, match="is a fault of the catalogue: choose another name"):
        planned(axes={"fault": ["leader-crash"]}, faults={"leader-crash": KILL})


@pytest.mark.parametrize("name", ["../heal", "a/b", ".hidden"])
def test_the_name_of_a_command_is_that_of_a_file(name: str) -> None:
    """Its heal is noted in a file of that name."""
    with pytest.raises(
        ExperimentError, match=re.escape(f"faults.{name}.name is '{name}'; allowed")
    ):
        planned(axes={"fault": [name]}, faults={name: KILL})


def allowing(cluster_id: str | None) -> Experiment:
    """Return an experiment that permits commands on a cluster."""
    return parse_experiment(
        {
            "name": "mine",
            "title": "Mine",
            "question": "What?",
            "axes": {"acks": ["all"]},
            "allow_faults": cluster_id,
        },
        "mine",
    )


@pytest.mark.parametrize(
    ("allowed", "section", "message"),
    [
        (None, {}, "allow_faults is nothing; allowed: the cluster's id"),
        ("another", {}, "`allow_faults: this-cluster`"),
        ("this-cluster", {"proof": ["no-such-program"]}, "no such program: no-such-program"),
    ],
)
def test_a_command_is_injected_only_if_the_file_names_it_and_the_programs_exist(
    allowed: str | None, section: dict[str, Any], message: str
) -> None:
    """An address may answer as another cluster than the one that was meant."""
    made = planned_with_commands(**section)
    experiment = allowing(allowed)

    with pytest.raises(ExperimentError, match=re.escape(message)):
        check_commands(experiment, made, "this-cluster")
    ready = experiment.model_copy(update={"allow_faults": "this-cluster"})
    check_commands(ready, planned_with_commands(), "this-cluster")


def test_commands_inject_nothing_into_a_cluster_of_which_a_broker_is_down() -> None:
    """One line with the broker; without a command nothing is asked."""
    ready = allowing("this-cluster")
    with pytest.raises(
        ExperimentError, match="may not be injected: broker 2 is down, a replica of"
    ):
        check_commands(
            ready, planned_with_commands(), "this-cluster", ["broker 2 is down, a replica of a-0"]
        )

    asked = iter(["broker 2 is down, a replica of a-0"])
    check_commands(ready, planned(), "this-cluster", asked)
    assert list(asked)


def test_a_command_gets_no_host_that_could_be_an_option(says: Says) -> None:
    """The metadata of a hostile broker may name any text; a command that names no host may run."""
    ready, hosts = allowing("this-cluster"), ["kafka-1", "-oProxyCommand=touch x"]
    with pytest.raises(ExperimentError) as refused:
        check_commands(
            ready, planned_with_commands(inject=["true", "$NODE_HOST"]), "this-cluster", (), hosts
        )
    says(str(refused.value))
    check_commands(
        ready, planned_with_commands(inject=["true", "$LEADER"]), "this-cluster", (), hosts
    )


RELAYED: dict[str, Any] = {
    "axes": {"acks": ["all"], "fault": ["none", "relay-dropped"]},
    "producer": {"socket.timeout.ms": 1000},
}


def test_clients_behind_a_relay_have_sasl_and_no_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay has the cluster's security; in trials without one nothing changes."""
    monkeypatch.setenv("ACKBENCH_TEST_PASSWORD", "hunter2")
    security = {**PASSWORD, "ssl.endpoint.identification.algorithm": "none"}
    made = planned(**RELAYED, security=security)
    direct, relayed = sorted(made.trials, key=lambda trial: trial.fault.kind)
    for settings in (direct.producer, direct.consumer):
        assert security.items() <= settings.items()
    for settings in (relayed.producer, relayed.consumer):
        assert settings["security.protocol"] == "sasl_plaintext"
        assert settings["sasl.password"] == "$ACKBENCH_TEST_PASSWORD"
        assert settings.get("ssl.endpoint.identification.algorithm") != "none"
    assert (direct.cluster.network, relayed.cluster.network) == ("loopback", "relays")
    assert relayed.cluster.security == security


@pytest.mark.parametrize(
    ("security", "message"),
    [
        (
            {"security.protocol": "ssl", "ssl.sigalgs.list": "ECDSA+SHA256"},
            "relays have no ssl.sigalgs.list; allowed with this fault: enable.ssl",
        ),
        ({"security.protocol": "sasl_ssl"}, "sasl.mechanism is GSSAPI, which does not work"),
    ],
)
def test_security_that_a_relay_cannot_have_is_refused_with_its_faults(
    security: dict[str, str], message: str
) -> None:
    """Before the cluster is contacted."""
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        planned(**RELAYED, security=security)
    assert "\n" not in str(refused.value)


def test_the_positive_control_of_an_external_cluster_touches_no_broker() -> None:
    """A relay drops what is sent without waiting for a response."""
    made = planned(controls=True)
    (positive,) = (trial for trial in made.trials if trial.role is Role.POSITIVE_CONTROL)
    assert positive.fault.kind == "relay-dropped"
    assert positive.fault.parameters["direction"] == "requests"
    assert (positive.producer["acks"], positive.cluster.network) == ("0", "relays")
    assert (addresses_of(positive), positive.partitions) == ("external:9092", 1)


TOKENS: dict[str, Any] = {
    "security": {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"},
    "token_command": ["true", "--audience", "kafka"],
}


def test_a_command_for_tokens_reaches_all_clients_and_librdkafka_does_not_see_it() -> None:
    """The planner asks librdkafka about everything else."""
    (trial,) = planned(**TOKENS, axes={"acks": ["all"]}).trials
    words = '["true", "--audience", "kafka"]'
    for settings in (trial.producer, trial.consumer, trial.cluster.security):
        assert settings["ackbench.token.command"] == words


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"security": PASSWORD}, "token_command is given and sasl.mechanism is 'PLAIN'; allowed"),
        ({"token_command": ["no-such-program"]}, "token_command: no such program: no-such-program"),
        ({"cluster": "local", "security": {}}, "token_command need an external cluster"),
        ({"token_command": "true"}, "token_command is 'true'"),
        (
            {"client": "java", "token_command": []},
            "sasl.mechanism is OAUTHBEARER without a token_command; allowed for Java clients: with",
        ),
        (
            {"security": {"ackbench.token.command": '["reboot"]'}},
            "unknown security property ackbench.token.command",
        ),
        (
            {"producer": {"ackbench.token.command": '["reboot"]'}},
            "unknown producer property ackbench.token.command",
        ),
    ],
)
def test_a_command_for_tokens_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    """Before the cluster is contacted."""
    monkeypatch.setenv("ACKBENCH_TEST_PASSWORD", "hunter2")
    without = {"bootstrap__servers": None} if "cluster" in changes else {}
    with pytest.raises(InputError, match=re.escape(message)) as refused:
        planned(**{**TOKENS, **changes, **without})
    assert "\n" not in str(refused.value)


def test_the_address_may_be_that_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an experiment is the same for several clusters; the plan has the address."""
    monkeypatch.setenv("ACKBENCH_TEST_BROKERS", "a:9092,b:9092")
    made = planned(bootstrap__servers="$ACKBENCH_TEST_BROKERS")
    assert {addresses_of(trial) for trial in made.trials} == {"a:9092,b:9092"}
    monkeypatch.delenv("ACKBENCH_TEST_BROKERS")
    with pytest.raises(InputError, match=r"ACKBENCH_TEST_BROKERS is not set.*bootstrap\.servers"):
        planned(bootstrap__servers="$ACKBENCH_TEST_BROKERS")
