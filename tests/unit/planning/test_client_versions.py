"""A client's version is an axis: its own properties count, and what it lacks is refused by name."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.trial.clients.librdkafka.library_file import installed_library_path
from ackbench.experiments.trial.clients.librdkafka.properties import table_rows
from ackbench.experiments.trial.clients.librdkafka.versions import LibraryVersion

NEWER = frozenset({"retry.backoff.max.ms", "metadata.recovery.strategy", "enable.metrics.push"})
GENERATION = "rd_kafka_consumer_group_metadata_generation_id"


@pytest.fixture(autouse=True)
def old_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases are in the home's cache, which lack newer properties and a function."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    for release in ("1.6.1", "2.4.0"):
        folder = tmp_path / "cache" / "librdkafka" / release
        folder.mkdir(parents=True)
        library = folder / "librdkafka.so.1"
        library.symlink_to(installed_library_path())
        described = LibraryVersion(
            version=release,
            wheel="planted.whl",
            file=library.name,
            sha256=sha256(library.read_bytes()).hexdigest(),
            lacks=(GENERATION,),
            properties=tuple(_row(row) for row in table_rows() if row[0] not in NEWER),
        )
        (folder / "library.json").write_text(described.model_dump_json())


def _row(row: list[Any]) -> Any:
    """Return a row of the table; of one property, with another default than today's."""
    return (*row[:3], "77", row[4]) if row[0] == "retry.backoff.ms" else tuple(row)


def planned(*axes: dict[str, Any], **changes: Any) -> Plan:
    """Return the plan of an experiment with these cross products, without controls."""
    document = {
        "name": "versions",
        "title": "t",
        "question": "q",
        "axes": [*axes],
        "controls": False,
    }
    return plan(parse_experiment(document | changes, "versions.yaml"), "versions-1")


def test_the_version_of_a_cell_s_client_is_in_its_trials() -> None:
    """Without a version it is the installed one."""
    trials = planned({"client.version": "2.4.0"}, {"acks": "all"}).trials
    assert {trial.client_version for trial in trials} == {"2.4.0", None}
    assert {trial.cell["client.version"] for trial in trials} == {"2.4.0", None}


def test_settings_that_a_version_does_not_have_are_not_passed_to_it() -> None:
    """Ackbench passes them to the installed one by itself."""
    old, new = sorted(
        planned({"client.version": "2.4.0"}, {"acks": "all"}).trials,
        key=lambda trial: trial.client_version is None,
    )
    assert not NEWER & {*old.producer, *old.consumer}
    assert new.producer.keys() >= NEWER
    assert old.producer == {name: new.producer[name] for name in new.producer if name not in NEWER}


def test_a_property_that_a_version_does_not_have_is_refused_by_name() -> None:
    """The message names the release."""
    with pytest.raises(
        ExperimentError, match=r"retry.backoff.max.ms is unknown to client librdkafka 2\.4\.0"
    ):
        planned(
            {"client.version": "2.4.0"}, {"acks": "all"}, producer={"retry.backoff.max.ms": 500}
        )


def test_a_client_with_defaults_has_those_of_its_version() -> None:
    """But what the experiment sets, it has."""
    (trial,) = planned(
        {"client.version": "2.4.0", "client.defaults": True, "acks": "all"},
        producer={"linger.ms": 9},
    ).trials
    assert (trial.producer["retry.backoff.ms"], trial.producer["linger.ms"]) == ("77", "9")
    assert trial.passed is not None
    assert "retry.backoff.ms" not in trial.passed.producer


def test_copiers_in_transactions_need_a_function_that_old_versions_lack() -> None:
    """The cell is refused, and names it; members of groups and other copiers do without."""
    old = {"client.version": "2.4.0", "acks": "all"}
    copiers = {"copiers": 1, "delivery": "exactly-once"}
    (refused,) = planned(old, copy=copiers).refused
    assert refused.reason.startswith(f"librdkafka 2.4.0 has no {GENERATION}")
    loads = ({"group": {"consumers": 2}}, {"copy": {"copiers": 1}})
    assert [planned(old, **load).refused for load in loads] == [(), ()]


def test_a_version_that_cannot_read_from_the_brokers_is_refused() -> None:
    """KIP-896: its consumer would wait for the begin of the partition until the trial fails."""
    found = planned({"client.version": "1.6.1", "kafka.version": ["3.9.2", "4.3.1"]})
    assert [trial.cluster.kafka_version for trial in found.trials] == ["3.9.2"]
    assert "does not find the begin of a partition of Kafka 4.3.1" in found.refused[0].reason


def test_java_s_clients_have_a_version_apart_from_the_brokers() -> None:
    """From 2.8 on; without one, they are of the brokers' release."""
    trials = planned({"client": "java", "client.version": "3.5.1"}, {"client": "java"}).trials
    assert {trial.java_version for trial in trials} == {"3.5.1", "4.3.1"}
    assert {trial.cluster.kafka_version for trial in trials} == {"4.3.1"}


@pytest.mark.parametrize(
    ("client", "text", "allowed"),
    [
        ("librdkafka", "1.4.2", "from 1.5.0 on"),
        ("librdkafka", 2.1, "a release"),
        ("java", "2.7.2", "from 2.8.0 on"),
        ("java", "newest", "a released version"),
    ],
)
def test_a_version_that_is_no_release_of_its_client_is_refused(
    client: str, text: object, allowed: str
) -> None:
    """In one line, with what is allowed."""
    with pytest.raises(ExperimentError, match=f"client.version.*{allowed}") as raised:
        planned({"client": client, "client.version": text, "acks": "all"})
    assert "\n" not in str(raised.value)
