"""The cluster of an experiment; an invalid one is refused in one line."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning import new_sweep as new_sweep_module
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.new_sweep import new_sweep, plan_new_sweep
from ackbench.experiments.planning.overrides import Overrides
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.properties import kafka_properties
from ackbench.experiments.sweep.plan import ClusterNeed, Plan
from ackbench.infra.errors import InputError, MachineError
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.resources import GIB, MachineResources

SMALL_MACHINE = MachineResources(memory_bytes=4 * GIB, disk_bytes=50 * GIB, cores=2, root=False)
BASE: dict[str, Any] = {
    "name": "kinds",
    "title": "Kinds",
    "question": "Which?",
    "controls": False,
    "axes": {"acks": "all"},
}
ELR = "eligible.leader.replicas.version"


def planned(**changes: Any) -> Plan:
    """Return the plan of an experiment."""
    return plan(
        parse_experiment(
            {**BASE, **{name.replace("__", "."): value for name, value in changes.items()}}, "kinds"
        ),
        "kinds",
    )


def clusters(**changes: Any) -> list[ClusterNeed]:
    """Return the clusters that the experiment's trials need, each once."""
    return list(
        {repr(trial.cluster): trial.cluster for trial in planned(**changes).trials}.values()
    )


def test_the_kafka_version_is_an_axis() -> None:
    """Each version has its own cluster, and the default levels of its features are recorded."""
    features = {
        need.kafka_version: need.features
        for need in clusters(axes={"kafka.version": ["3.9.2", "4.0.2", "4.3.1"]})
    }
    assert list(features) == ["3.9.2", "4.0.2", "4.3.1"]
    assert (features["3.9.2"], features["4.0.2"][ELR], features["4.3.1"][ELR]) == ({}, 0, 1)


def test_a_feature_is_an_axis() -> None:
    """Eligible leader replicas can be enabled before they are the default, and disabled later."""
    needs = clusters(axes={"kafka.version": ["4.0.2", "4.3.1"], ELR: [0, 1]})
    assert [(need.kafka_version, need.features[ELR]) for need in needs] == [
        ("4.0.2", 0),
        ("4.0.2", 1),
        ("4.3.1", 0),
        ("4.3.1", 1),
    ]


def test_the_coordination_is_an_axis() -> None:
    """ZooKeeper servers are added to the brokers; the default is one."""
    needs = clusters(
        kafka__version="3.9.2",
        axes=[
            {"coordination": ["kraft", "zookeeper"]},
            {"coordination": "zookeeper", "zookeeper.nodes": 3},
        ],
    )
    assert [(need.coordination, need.spec().roles) for need in needs] == [
        ("kraft", ("broker",) * 3 + ("controller",) * 3),
        ("zookeeper", ("broker",) * 3 + ("zookeeper",)),
        ("zookeeper", ("broker",) * 3 + ("zookeeper",) * 3),
    ]


def test_controllers_are_dedicated_nodes_except_of_a_single_broker() -> None:
    """Kafka does not recommend combined brokers and controllers for critical deployments."""
    needs = clusters(axes={"nodes": [1, 2, 3], "replication.factor": 1})
    assert [need.spec().roles for need in needs] == [
        ("combined",),
        ("broker",) * 2 + ("controller",) * 3,
        ("broker",) * 3 + ("controller",) * 3,
    ]


def test_a_machine_without_the_memory_for_dedicated_controllers_gets_combined_nodes(
    says: Says, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notice says so; a number of controllers that was asked for is kept."""
    file, home, notices = tmp_path / "small.yaml", Home(tmp_path / "home"), list[str]()
    monkeypatch.setattr(new_sweep_module, "this_machine", lambda _folder: SMALL_MACHINE)
    file.write_text(yaml.safe_dump({**BASE, "controllers": 3}))
    with pytest.raises(MachineError, match=r"GiB of memory and 4\.0 GiB are free"):
        new_sweep(home, str(file))

    file.write_text(yaml.safe_dump(BASE))
    sweep = new_sweep(home, str(file), notify=notices.append)
    assert sweep.plan().trials[0].cluster.controllers == 0
    says(notices[0])


def test_controllers_can_be_dedicated_nodes() -> None:
    """With 0, each broker is also a controller."""
    needs = clusters(axes={"controllers": [0, 3]})
    assert [need.spec().roles for need in needs] == [
        ("combined",) * 3,
        ("broker",) * 3 + ("controller",) * 3,
    ]


def test_a_line_of_versions_is_its_newest_patch() -> None:
    """As text or as the number that YAML makes of it, and each version once."""
    needs = clusters(axes={"kafka.version": [3.9, "4.1", "4.1.2"]})
    assert [need.kafka_version for need in needs] == ["3.9.2", "4.1.2"]
    assert clusters(kafka__version=4.2)[0].kafka_version == "4.2.1"


def test_a_dry_run_downloads_nothing(
    says: Says, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The properties of the nearest known version count, and a remark says so."""
    monkeypatch.setattr(new_sweep_module, "ensure_version_known", _refuse_download)
    file = tmp_path / "old.yaml"
    file.write_text(yaml.safe_dump({**BASE, "kafka.version": "4.2.0"}))

    planned = plan_new_sweep(Home(tmp_path / "home"), str(file), downloads=False)

    assert planned.plan.trials[0].cluster.kafka_version == "4.2.0"
    says(planned.remarks[-1])


@pytest.mark.parametrize(
    ("axis", "value", "message"),
    [
        ("acks", "2", "--set acks: producer property acks is '2'"),
        ("fault", "leader-crsh", "unknown fault leader-crsh"),
        ("workload.duration_s", 0, "workload.duration_s is 0"),
        ("kafka.version", "4.x", "invalid kafka.version: '4.x'"),
        ("kafka.version", "\N{ARABIC-INDIC DIGIT FOUR}.3.1", "invalid kafka.version: "),
    ],
)
def test_every_value_is_checked_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axis: str, value: Scalar, message: str
) -> None:
    """A typo costs no minute and no 100 MB."""
    monkeypatch.setattr(new_sweep_module, "ensure_version_known", _refuse_download)
    file = tmp_path / "old.yaml"
    file.write_text(yaml.safe_dump({**BASE, "kafka.version": "4.2.0"}))

    with pytest.raises(InputError, match=re.escape(message)):
        new_sweep(Home(tmp_path / "home"), str(file), Overrides({axis: (value,)}))


def _refuse_download(*_arguments: object) -> None:
    raise AssertionError("a download")


def test_a_property_that_one_of_the_versions_does_not_know_is_refused() -> None:
    """A cell with that version is refused."""
    with pytest.raises(
        ExperimentError,
        match=re.escape("topic property message.downconversion.enable is unknown to Kafka 4.3.1"),
    ):
        planned(
            axes={"kafka.version": ["3.9.2", "4.3.1"]},
            topic={"message.downconversion.enable": "true"},
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kafka__version": "3.8.1"}, "invalid kafka.version: '3.8.1' (allowed: "),
        ({"axes": {"kafka.version": [4.31]}}, "invalid kafka.version: '4.31' (allowed: "),
        (
            {"coordination": "zookeeper"},
            "coordination is zookeeper with kafka.version 4.3.1; allowed: with 3.9 only",
        ),
        ({"coordination": "etcd"}, "coordination is 'etcd'; allowed: kraft or zookeeper"),
        ({"zookeeper__nodes": 3}, "zookeeper.nodes is 3 with coordination kraft"),
        (
            {"kafka__version": "3.9.2", "coordination": "zookeeper", "zookeeper__nodes": 2},
            "zookeeper.nodes is 2; allowed: 1 or 3",
        ),
        (
            {"kafka__version": "3.9.2", "coordination": "zookeeper", "controllers": 3},
            "controllers is 3 with coordination zookeeper",
        ),
        (
            {"kafka__version": "3.9.2", "axes": {ELR: 1}},
            f"{ELR} is 1; Kafka 3.9.2 has no such feature",
        ),
        ({"axes": {ELR: 2}}, f"{ELR} is 2; allowed by Kafka 4.3.1: one of 0, 1"),
        (
            {"kafka__version": "3.9.2", "coordination": "zookeeper", "transaction__version": 2},
            "transaction.version is 2 with coordination zookeeper",
        ),
        (
            {"broker": {"zookeeper.session.timeout.ms": 6000}},
            "unknown broker property zookeeper.session.timeout.ms",
        ),
        (
            {"kafka__version": "3.9.2", "broker": {"zookeeper.session.timeout.ms": 6000}},
            "has no effect with coordination kraft",
        ),
        (
            {
                "kafka__version": "3.9.2",
                "coordination": "zookeeper",
                "broker": {"broker.session.timeout.ms": 6000},
            },
            "broker property broker.session.timeout.ms has no effect with coordination zookeeper",
        ),
    ],
)
def test_an_invalid_cluster_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    """The line names the values that are allowed."""
    with pytest.raises(ExperimentError, match=re.escape(message)) as refused:
        planned(**changes)
    assert "\n" not in str(refused.value)


def test_the_data_files_of_all_versions_are_complete() -> None:
    """A truncated file would refuse properties that Kafka knows."""
    for version in ("3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.1"):
        known = kafka_properties(version)
        assert (known.version, len(known.topic) > 30, len(known.broker) > 280) == (
            version,
            True,
            True,
        )
