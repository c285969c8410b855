"""A principal with the permissions that the documentation lists, against SASL_SSL and ACLs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin._acl import AclBinding, AclOperation
from confluent_kafka.admin._resource import ResourceType
from support.external_brokers import PASSWORD, VARIABLE, ExternalBrokers, acl, external_brokers

from experiments.clients.librdkafka.topics import admin_client, delete_topic
from experiments.orchestration.clusters import assign_cluster, destroy_all
from experiments.planning.new_sweep import new_sweep
from experiments.planning.yaml_reader import dump_yaml
from experiments.sweep.folder import SweepFolder
from experiments.trial.run import run_trial
from experiments.verdicts.contract.circumstances import circumstances_of
from experiments.verdicts.contract.rules import clauses_of
from infra.errors import HarnessError, InputError
from infra.machine.home import Home

pytestmark = pytest.mark.cluster
DOCUMENTED = Path(__file__).parents[2] / "docs" / "external-clusters.md"
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}

LOAD = {"rate_records_per_s": 500, "duration_s": 1.5}
IDEMPOTENT = {"enable.idempotence": True}


def documented_permissions() -> list[tuple[str, str, str]]:
    """Return each resource, prefix and operation of the documentation's table."""
    section = DOCUMENTED.read_text().partition("## Permissions")[2].partition("\n## ")[0]
    rows = re.findall(r"(?m)^\| ([a-z ]+) \| (?:`([\w-]+)`)? ?\| ([A-Z][\w, ]+) \|", section)
    return [(kind, name, one) for kind, name, all_ in rows for one in all_.split(", ")]


def acls(without: Collection[tuple[str, str]] = ()) -> list[AclBinding]:
    """Return the documented permissions as ACLs, without some pairs of resource and operation."""
    return [
        acl(RESOURCES[kind], prefix, AclOperation[re.sub(r"(?<=.)(?=[A-Z])", "_", one).upper()])
        for kind, prefix, one in documented_permissions()
        if (kind, one) not in without
    ]


@pytest.fixture(scope="module")
def brokers(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """One broker, which permits nothing to the user yet."""
    with external_brokers(cache, tmp_path_factory.mktemp("external")) as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home with the jars of the session's; the user's password is in the environment."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.cache.symlink_to(cache)
    return home


def run_all(
    home: Home, brokers: ExternalBrokers, permitted: list[AclBinding], **changes: object
) -> SweepFolder:
    """Plan a small sweep, run its trials as the user, and return its folder."""
    experiment = {
        "name": "permitted",
        "title": "Permitted",
        "question": "May it?",
        "controls": False,
        "cluster": "external",
        "bootstrap.servers": brokers.sasl,
        "security": brokers.user_security(),
        "workload": LOAD,
        "axes": {"acks": ["all"], "fault": ["none"], "replication.factor": [1]},
        **changes,
    }
    file = home.root / "permitted.yaml"
    file.write_text(dump_yaml(experiment))
    with brokers.permitting(permitted):
        sweep = new_sweep(home, str(file))
        try:
            for trial in sweep.plan().trials:
                run_trial(sweep, trial, assign_cluster(home, trial, 60).cluster, home)
        finally:
            destroy_all(home, sweep.sweep_id)
    return sweep


def left_in(brokers: ExternalBrokers) -> set[str]:
    """Return the topics and groups that are not Kafka's own."""
    admin = admin_client(brokers.plain)
    groups = admin.list_consumer_groups(request_timeout=10).result(10).valid
    names = {*admin.list_topics(timeout=10).topics, *(group.group_id for group in groups)}
    return {name for name in names if not name.startswith("__")}


@pytest.mark.parametrize(
    "changes",
    [
        {
            "axes": {"fault": ["none", "partitions-raised"], "replication.factor": [1]},
            "workload": {**LOAD, "duration_s": 3},
        },
        {"client": "java"},
        {"client": "java", "workload": {"transaction_records": 50, **LOAD}, "producer": IDEMPOTENT},
        {
            "workload": {"kind": "copy", "copiers": 2, "delivery": "exactly-once", **LOAD},
            "producer": IDEMPOTENT,
        },
    ],
    ids=["librdkafka", "java", "java-transactions", "copies"],
)
def test_the_documented_permissions_are_enough(
    home: Home, brokers: ExternalBrokers, changes: dict[str, object]
) -> None:
    """Every trial is sealed, everything is acknowledged, and nothing is left."""
    sweep = run_all(home, brokers, acls(), **changes)
    ledgers = sorted(sweep.root.glob("trials/*/attempts.parquet"))
    assert ledgers
    for ledger in ledgers:
        assert set(pq.read_table(ledger)["outcome"].to_pylist()) == {"acked"}
    assert left_in(brokers) == set()


def test_without_delete_a_warning_names_what_is_left_and_no_trial_is_lost(
    home: Home, brokers: ExternalBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """The administrator deletes it then."""
    sweep = run_all(home, brokers, acls(without={("topic", "Delete")}))
    (trial,) = sweep.root.glob("trials/*/trial.json")
    assert "TOPIC_AUTHORIZATION_FAILED" in caplog.text
    left = left_in(brokers)
    assert any(trial.parent.name in name for name in left)
    assert all(name in caplog.text for name in left)
    for name in left:
        delete_topic(brokers.plain, name)


def test_without_describe_configs_everything_is_measured_and_nothing_is_guaranteed(
    home: Home, brokers: ExternalBrokers
) -> None:
    """Each clause has the reason; features, which need no permission, are known."""
    sweep = run_all(home, brokers, acls(without={("cluster", "DescribeConfigs")}))
    assert len(list(sweep.root.glob("trials/*/trial.json"))) == 1
    (trial,) = sweep.plan().trials
    assert trial.cluster.kafka_version == "4.3"
    circumstances = circumstances_of(trial)
    assert circumstances.transaction_version == 2
    for clause in clauses_of(circumstances):
        assert (clause.guaranteed, "refused DescribeConfigs" in clause.reason) == (None, True)


@pytest.mark.parametrize(
    ("without", "message"),
    [
        (("topic", "Create"), "create topic"),
        (("topic", "Write"), "TOPIC_AUTHORIZATION_FAILED"),
        (("topic", "Read"), "opic authorization failed"),
    ],
)
def test_a_missing_permission_is_one_line_with_the_operation_and_nothing_is_left(
    home: Home, brokers: ExternalBrokers, without: tuple[str, str], message: str
) -> None:
    """The trial fails with Kafka's error; what it made is deleted."""
    with pytest.raises(HarnessError, match=message) as failed:
        run_all(home, brokers, acls(without={without}))
    assert "\n" not in str(failed.value)
    assert left_in(brokers) == set()


def test_a_wrong_password_is_one_line_before_anything_is_made(
    home: Home, brokers: ExternalBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the address, and not the password."""
    monkeypatch.setenv(VARIABLE, "wrong horse")
    with pytest.raises(
        InputError, match=r"cannot reach bootstrap.servers .*uthentication"
    ) as refused:
        run_all(home, brokers, acls())
    assert "\n" not in str(refused.value)
    assert "wrong horse" not in str(refused.value)
    assert left_in(brokers) == set()
