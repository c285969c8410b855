"""A principal with the permissions that the documentation lists, against SASL_SSL and ACLs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.external_brokers import VARIABLE, ExternalBrokers, external_brokers
from support.external_sweeps import LOAD, acls, left_in, run_all

from ackbench.experiments.trial.clients.librdkafka.topics import delete_topic
from ackbench.experiments.verdicts.contract import clauses_of
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.home import Home

pytestmark = [pytest.mark.cluster, pytest.mark.further]
IDEMPOTENT = {"enable.idempotence": True}


@pytest.fixture(scope="module")
def brokers(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """One broker, which permits nothing to the user yet."""
    with external_brokers(cache, tmp_path_factory.mktemp("external")) as running:
        yield running


@pytest.mark.further("java", "java-transactions", "copies")
@pytest.mark.parametrize(
    "changes",
    [
        {
            "axes": {"fault": ["none", "partitions-raised"], "replication.factor": [1]},
            "workload": {**LOAD, "duration_s": 3},
        },
        {"client": "java"},
        {"client": "java", "transactions": {"records": 50}, "producer": IDEMPOTENT},
        {"copy": {"copiers": 2, "delivery": "exactly-once"}, "producer": IDEMPOTENT},
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


def test_without_delete_all_that_is_left_is_named_and_no_trial_is_lost(
    home: Home, brokers: ExternalBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    """The administrator deletes it then."""
    sweep = run_all(home, brokers, acls(without={("topic", "Delete")}))
    left = left_in(brokers)
    for name in left:  # the other tests use the same broker
        delete_topic(brokers.plain, name)
    (trial,) = sweep.root.glob("trials/*/trial.json")
    assert "TOPIC_AUTHORIZATION_FAILED" in caplog.text
    assert any(trial.parent.name in name for name in left)
    assert all(name in caplog.text for name in left)


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


JAVA = {"client": "java"}
COPIES = {"copy": {"copiers": 1, "delivery": "exactly-once"}, "producer": IDEMPOTENT}
TRANSACTIONS = {"transactions": {"records": 50}, "producer": IDEMPOTENT}


@pytest.mark.further(
    changes=[JAVA, COPIES, TRANSACTIONS],
    message=["TOPIC_AUTHORIZATION_FAILED", "opic authorization failed"],
)
@pytest.mark.parametrize(
    ("without", "changes", "message"),
    [
        (("topic", "Create"), {}, "create topic"),
        (("topic", "Write"), {}, "TOPIC_AUTHORIZATION_FAILED"),
        (("topic", "Read"), {}, "opic authorization failed"),
        (("topic", "Write"), JAVA, "producer 0 was refused: .*TopicAuthorizationException"),
        (("topic", "Read"), JAVA, "TOPIC_AUTHORIZATION_FAILED"),
        (("group", "Read"), JAVA, "GroupAuthorizationException"),
        (("group", "Read"), COPIES, "GROUP_AUTHORIZATION_FAILED"),
        (("transactional id", "Write"), TRANSACTIONS, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"),
    ],
)
def test_a_missing_permission_is_one_line_with_operation_and_resource_and_nothing_is_left(
    home: Home,
    brokers: ExternalBrokers,
    without: tuple[str, str],
    changes: dict[str, object],
    message: str,
) -> None:
    """The trial fails with Kafka's error; what it made is deleted."""
    kind, operation = without
    with pytest.raises(HarnessError, match=message) as failed:
        run_all(home, brokers, acls(without={without}), **changes)
    assert "\n" not in str(failed.value)
    assert f"the principal needs {operation} on {kind}s `ackbench" in str(failed.value)
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
