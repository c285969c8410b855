"""What stored sweeps saw counts the trials with the same deciding settings, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.builders.records import a_spec
from support.builders.result_tables import loss_counts
from support.builders.sweep_folders import measured_sweep_folder
from support.command_line import ackbench
from support.golden_files import Says

from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.seen import (
    SeenTrials,
    StoredTrial,
    seen_trials,
    stored_trials,
)
from ackbench.experiments.sweep.plan import FaultRequest, TrialSpec
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.order import ORDER
from ackbench.infra.machine.home import Home

WEAK = Configuration(
    replication_factor=3,
    client="librdkafka",
    producer={"acks": "1", "enable.idempotence": "false"},
    topic={"min.insync.replicas": "2"},
)
PRODUCER = {
    "acks": "1",
    "enable.idempotence": "false",
    "max.in.flight.requests.per.connection": "1000000",
}
TOPIC = {"min.insync.replicas": "2"}


def trial(number: int = 0, **changes: Any) -> TrialSpec:
    """Return a trial with the settings of `WEAK` and these changes."""
    usual = {"producer": PRODUCER, "topic": TOPIC, "fault": FaultRequest(kind="leader-crash")}
    return a_spec(trial_id=f"{number:03}-abcdef", **{**usual, **changes})


def stored(spec: TrialSpec, lost: int) -> StoredTrial:
    """Return a stored trial that lost records."""
    row = {"lost_low_records": lost, "duplicates": 0, "reordered_records": None}
    return StoredTrial(spec, row)


def of_loss(*trials: StoredTrial) -> SeenTrials | None:
    """Return what these trials saw of acknowledged loss; `None`: nothing."""
    found = seen_trials(WEAK, trials)
    return next((one for one in found if one.guarantee is NO_ACKED_LOSS), None)


def test_trials_with_the_same_settings_are_counted_by_fault() -> None:
    """With the sweeps that they are from."""
    seen = of_loss(stored(trial(0), 12), stored(trial(1), 0))

    assert seen is not None
    assert (seen.fault, seen.violated, seen.trials, seen.sweeps) == (
        "leader-crash",
        1,
        2,
        ("sweep",),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"producer": {**PRODUCER, "acks": "all"}},
        {"producer": {**PRODUCER, "enable.idempotence": "true"}},
        {"producer": {**PRODUCER, "max.in.flight.requests.per.connection": "1"}},
        {"topic": {"min.insync.replicas": "1"}},
        {"topic": {**TOPIC, "unclean.leader.election.enable": "true"}},
        {"replication_factor": 1},
        {"client": "java"},
    ],
)
def test_a_trial_that_differs_in_a_deciding_setting_is_not_counted(changes: dict[str, Any]) -> None:
    """It answers another question."""
    assert of_loss(stored(trial(**changes), 12)) is None


def test_acks_all_has_two_names() -> None:
    """Kafka documents `-1` as the same as `all`."""
    safe = WEAK.model_copy(update={"producer": {"acks": "-1", "enable.idempotence": "true"}})
    producer = {**PRODUCER, "acks": "all", "enable.idempotence": "true"}

    assert seen_trials(safe, [stored(trial(producer=producer), 0)])


def test_a_value_that_was_not_measured_is_no_observation() -> None:
    """Null is not 0."""
    found = seen_trials(WEAK, [stored(trial(), 0)])

    assert ORDER not in {one.guarantee for one in found}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home with a sweep that lost records in two of two trials."""
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    home = Home(tmp_path)
    measured_sweep_folder(home, "planted", [trial(0), trial(1)], lambda _: loss_counts(100, 7))
    return home


def test_the_check_prints_what_the_sweeps_of_the_home_saw(
    home: Home, tmp_path: Path, says: Says
) -> None:
    """As text, and as JSON."""
    assert len(list(stored_trials(home, print))) == 2
    producer, topic = tmp_path / "producer.properties", tmp_path / "topic.properties"
    producer.write_text("request.required.acks=1\nenable.idempotence=false\n")
    topic.write_text("min.insync.replicas=2\n")
    options = ("--producer", str(producer), "--topic", str(topic), "--replication-factor", "3")
    text = " ".join(ackbench("check", *options, "--client", "librdkafka").output.split())
    document = json.loads(ackbench("check", *options, "--client", "librdkafka", "--json").output)

    says(text)
    assert document["guarantees"]["no-acked-loss"]["seen"] == [
        {
            "fault": "leader-crash",
            "trials": 2,
            "violated": 2,
            "sweeps": ["planted-20260101T000000-abcd"],
        }
    ]


def test_a_sweep_that_cannot_be_read_is_left_out(home: Home) -> None:
    """`ackbench show` names the reason; a check is about settings."""
    for table in (home.sweeps).glob("*/results/trials.parquet"):
        table.write_bytes(b"")

    assert list(stored_trials(home, print)) == []
