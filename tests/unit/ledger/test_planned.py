"""A trial is the plan's if its record says what the plan says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.builders.records import a_spec, record_of
from support.golden_files import Says

from ackbench.experiments.ledger.digests import InvalidLedger, with_digest
from ackbench.experiments.ledger.planned import PLAN, PlannedTrials, parse_planned
from ackbench.experiments.ledger.trial_manifest import FaultEvidence, TrialManifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import FaultRequest, Plan, TrialSpec

PAUSE = FaultRequest(kind="leader-pause", parameters={"at_s": 1})
BOTH = FaultRequest(
    kind="leader-pause(at_s=1) & leader-crash",
    joined="&",
    parts=(PAUSE, FaultRequest(kind="leader-crash", parameters={"at_s": 2})),
)
JAVA = a_spec(client="java", fault=BOTH)


def planned(*specs: TrialSpec) -> PlannedTrials:
    """Return what a plan says of these trials."""
    plan = Plan(
        sweep_id="sweep",
        experiment="planted",
        question="?",
        seed=1,
        repeats=1,
        trials=specs,
        refused=(),
    )
    return parse_planned(plan.model_dump_json().encode())


@pytest.mark.parametrize("spec", [a_spec(), JAVA, a_spec(fault=PAUSE)])
def test_a_trial_of_the_plan_is_accepted(spec: TrialSpec) -> None:
    """With librdkafka, whose version no plan has, and with Java's client."""
    assert planned(spec).why_foreign(record_of(spec)) is None


def test_the_reason_names_the_sweep_that_a_trial_was_copied_from(says: Says) -> None:
    """In one line with the file, whatever else differs."""
    record = record_of(a_spec(), sweep_id="quick-20260102T030405-ab12", seed=7)
    says(planned(a_spec()).why_foreign(record))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"experiment": "other"}, "has experiment other; plan.json has experiment planted"),
        ({"label": "acks=all"}, "has label acks=all; plan.json has label acks=1"),
        ({"role": "control"}, "has role control; plan.json has role cell"),
        ({"repeat": 1}, "has repeat 1; plan.json has repeat 0"),
        ({"order": 3}, "has order 3; plan.json has order 0"),
        ({"seed": 43}, "has seed 43; plan.json has seed 42"),
        ({"kafka_version": "4.2.1"}, "has kafka_version 4.2.1; plan.json has kafka_version 4.3.1"),
        ({"replication_factor": 1}, "has replication_factor 1; plan.json has replication_factor 3"),
        ({"partitions": 2}, "has partitions 2; plan.json has partitions 1"),
        ({"rate_records_per_s": 1}, "has rate_records_per_s 1.0; plan.json has rate_records_per_s"),
        ({"record_size_bytes": 99}, "has record_size_bytes 99; plan.json has record_size_bytes"),
        ({"duration_s": 9.0}, "has duration_s 9.0; plan.json has duration_s 1.0"),
        ({"client": "2.16.1"}, "has client librdkafka; plan.json has client java"),
        ({"client": "java 4.2.1"}, "has client version 4.2.1; plan.json has client version 4.3.1"),
        ({"cell": {"acks": 1}}, "has cell.fault absent; plan.json has cell.fault none"),
        (
            {"cell": {"acks": "all", "fault": "none"}, "seed": 5},
            "has seed 5, cell.acks all; plan.json has seed 42, cell.acks 1",
        ),
        (
            {"topic_settings": {"min.insync.replicas": "2"}},
            "has topic.min.insync.replicas 2; plan.json has topic.min.insync.replicas absent",
        ),
        (
            {"fault": FaultEvidence(kind="none", took_effect=True)},
            "has fault none, fault.1.leader-pause.at_s absent, fault.2.leader-crash.at_s absent; ",
        ),
        (
            {
                "fault": FaultEvidence(
                    kind=BOTH.kind,
                    parameters={"1.leader-pause.at_s": 1, "2.leader-crash.at_s": 3},
                    took_effect=True,
                )
            },
            "has fault.2.leader-crash.at_s 3; plan.json has fault.2.leader-crash.at_s 2",
        ),
    ],
)
def test_each_value_that_plan_and_record_both_have_is_compared(
    changes: dict[str, object], words: str
) -> None:
    """The reason has both values."""
    document = json.loads(record_of(JAVA).model_dump_json())
    document |= json.loads(record_of(JAVA, **changes).model_dump_json(warnings=False))
    record = TrialManifest.model_validate(document)
    reason = planned(JAVA).why_foreign(record)
    assert reason is not None
    assert words in reason
    assert reason.startswith("trial 000-abcdef: trial.json ")
    assert reason.endswith(": it is another trial")


def test_the_version_of_a_client_is_compared_if_the_plan_has_one() -> None:
    """A record of the installed librdkafka is none of a trial of another version."""
    spec = a_spec(client_version="2.4.0")
    assert planned(spec).why_foreign(record_of(spec, client="2.4.0")) is None
    assert "has client version 2.16.1; plan.json has client version 2.4.0" in str(
        planned(spec).why_foreign(record_of(spec, client="2.16.1"))
    )


def test_a_token_is_compared_if_the_plan_has_one() -> None:
    """Today's plans have none: each run of a trial draws its own."""
    document = json.loads(a_spec().model_dump_json()) | {"token": 7}
    plan = parse_planned(json.dumps({"sweep_id": "sweep", "trials": [document]}).encode())
    assert plan.why_foreign(record_of(a_spec(), token=7)) is None
    assert "has token 8; plan.json has token 7" in str(
        plan.why_foreign(record_of(a_spec(), token=8))
    )


def test_a_trial_that_the_plan_does_not_have_is_foreign(says: Says) -> None:
    """Also one of the same sweep id."""
    reason = planned(a_spec()).why_foreign(record_of(a_spec(trial_id="009-abcdef")))
    says(reason)


@pytest.mark.parametrize("name", ["client", "role", "cluster", "workload", "topic", "fault"])
def test_what_an_older_plan_does_not_say_is_not_compared(name: str) -> None:
    """Its trials stay readable."""
    document = json.loads(a_spec().model_dump_json())
    del document[name]
    plan = parse_planned(json.dumps({"sweep_id": "sweep", "trials": [document]}).encode())
    assert plan.why_foreign(record_of(a_spec())) is None


def test_a_java_client_whose_version_was_not_reported_is_accepted() -> None:
    """Unknown is not another version."""
    assert planned(JAVA).why_foreign(record_of(JAVA, client="java unknown")) is None


def test_without_a_plan_the_trials_are_those_of_the_folders_name(tmp_path: Path) -> None:
    """As in the self-test's folder of copies."""
    found = SweepFolder(tmp_path / "selftest").planned()
    assert found.why_foreign(record_of(a_spec(sweep_id="selftest"))) is None
    assert "is of sweep other" in str(found.why_foreign(record_of(a_spec(sweep_id="other"))))


def test_an_altered_plan_is_no_plan() -> None:
    """A trial would be compared with what is not the plan."""
    content = with_digest(json.dumps({"sweep_id": "sweep", "trials": []}, indent=1))
    with pytest.raises(InvalidLedger, match=f"^{PLAN} was altered"):
        parse_planned(content.replace("sweep", "sweet").encode())
    with pytest.raises(InvalidLedger, match=f"^{PLAN} is truncated or not a plan$"):
        parse_planned(content[:20].encode())
