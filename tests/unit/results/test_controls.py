"""The check of a sweep's controls: clean or not, loss detected or not, or unknown."""

from __future__ import annotations

from typing import Any

import pytest
from support.fakes.client_rules import RULES
from support.golden_files import Says

from ackbench.experiments.ledger.quantities import TransactionCounts
from ackbench.experiments.ledger.trial_manifest import Role, Status
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.controls import harness_check, trials_that_must_tear
from ackbench.experiments.results.models import Fates, FaultResult, TrialResult
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.order import ORDER

NONE = dict.fromkeys(Fates.model_fields, 0)
CLEAN: dict[str, Any] = {"attempted": 1000, "lost": (0, 0), "duplicates": 0, "fates": Fates(**NONE)}


def a_trial(
    role: Role, trial_id: str = "000-a", status: Status = Status.SEALED, **changes: Any
) -> TrialResult:
    """Return a trial without anomalies, with some values changed."""
    values = {
        "trial_id": trial_id,
        "cell": {},
        "label": "",
        "role": role,
        "repeat": 0,
        "status": status,
        "fault": FaultResult(kind=None),
        **CLEAN,
        **changes,
    }
    return TrialResult(**values)


def losing(trial_id: str, lost: int) -> TrialResult:
    """Return a trial of the positive control."""
    return a_trial(Role.POSITIVE_CONTROL, trial_id, lost=(lost, lost))


def test_a_control_without_anomalies_is_clean(says: Says) -> None:
    """The sentence has the number of records and trials."""
    check = harness_check([a_trial(Role.CONTROL, "000-a"), a_trial(Role.CONTROL, "001-b")])

    assert check.control_clean is True
    says(check.sentences[0])


@pytest.mark.parametrize(
    ("anomaly", "words"),
    [
        ({"lost": (1, 1)}, "1 lost"),
        ({"duplicates": 2}, "2 duplicates"),
        ({"fates": Fates(**{**NONE, "phantom": 3})}, "3 phantom"),
        ({"fates": Fates(**{**NONE, "corrupt": 4})}, "4 corrupt"),
        (
            {
                "transactions": TransactionCounts(
                    **{**dict.fromkeys(TransactionCounts.model_fields, 0), "torn": 5}
                )
            },
            "5 violations of atomicity",
        ),
        (
            {
                "transactions": TransactionCounts(
                    **{**dict.fromkeys(TransactionCounts.model_fields, 0), "aborted_visible": 6}
                )
            },
            "6 violations of atomicity",
        ),
    ],
)
def test_a_control_with_one_anomaly_is_not_clean(anomaly: dict[str, Any], words: str) -> None:
    """The sentence names the trial and blames the harness."""
    check = harness_check(
        [a_trial(Role.CONTROL, "000-a"), a_trial(Role.CONTROL, "001-b", **anomaly)]
    )

    assert check.control_clean is False
    assert (
        f"1 of 2 trials not clean (001-b: {words}): the harness is at fault" in check.sentences[0]
    )


def test_a_control_with_possible_losses_is_clean() -> None:
    """An absent record of unknown outcome is not a certain loss."""
    assert harness_check([a_trial(Role.CONTROL, lost=(0, 5))]).control_clean is True


def test_a_positive_control_that_loses_in_each_trial_shows_that_loss_is_detected(
    says: Says,
) -> None:
    """The sentence has the share of trials and its interval."""
    check = harness_check([losing("001-b", 40), losing("002-c", 1200)])

    assert check.positive_control_lost is True
    says(check.sentences[1])


def test_a_control_that_must_lose_does_so_in_all_its_trials(says: Says) -> None:
    """Two losing trials of three do not satisfy, nor does one that lost perhaps."""
    check = harness_check([losing("000-a", 0), losing("001-b", 40), losing("002-c", 1200)])

    assert check.positive_control_lost is False
    says(check.sentences[1])
    unclear = a_trial(Role.POSITIVE_CONTROL, "001-b", lost=(0, 9))
    assert harness_check([losing("000-a", 40), unclear]).positive_control_lost is False


def test_a_violation_in_any_measured_trial_is_counted_as_detected() -> None:
    """Whatever the role of its cell; void and unmeasured trials show nothing."""
    check = harness_check(
        [
            a_trial(Role.CELL, "000-a", duplicated=3, duplicates=3),
            a_trial(Role.CELL, "001-b", reordered=1),
            a_trial(Role.CELL, "002-c", Status.VOID, duplicated=3),
            losing("003-d", 40),
        ]
    )

    found = {guarantee: count for guarantee, count in check.detections.items() if count}
    assert found == {NO_ACKED_LOSS: 1, NO_DUPLICATES: 1, ORDER: 1}


def test_a_positive_control_without_loss_fails_the_check(says: Says) -> None:
    """A sweep that misses this loss may miss others."""
    check = harness_check([losing("000-a", 0)])

    assert check.positive_control_lost is False
    says(check.sentences[1])


@pytest.mark.parametrize(
    ("statuses", "reason"),
    [([], "none was run"), (["void"], "no trial could be judged (void)"), (["failed"], "(failed)")],
)
def test_without_a_judged_control_the_check_is_unknown(statuses: list[str], reason: str) -> None:
    """Void and failed controls do not count, nor does a sweep without controls."""
    trials = [
        a_trial(role, f"{role}-{status}", Status(status))
        for role in (Role.CONTROL, Role.POSITIVE_CONTROL)
        for status in statuses
    ]
    check = harness_check([*trials, a_trial(Role.CELL, lost=(7, 7))])

    assert (check.control_clean, check.positive_control_lost) == (None, None)
    assert all(reason in sentence and "unknown" in sentence for sentence in check.sentences)


def test_an_unmeasured_control_leaves_the_check_unknown() -> None:
    """Its records were not counted."""
    check = harness_check(
        [a_trial(Role.CONTROL, attempted=None, lost=None, duplicates=None, fates=None)]
    )

    assert check.control_clean is None


def test_planned_controls_are_the_checked_controls() -> None:
    """The roles that the planner assigns are the roles that the check reads."""
    small = {
        "name": "small",
        "title": "t",
        "question": "q",
        "axes": {"acks": "all", "fault": "leader-crash"},
    }
    roles = {trial.role for trial in plan(parse_experiment(small, "small.yaml"), "s", RULES).trials}
    check = harness_check(
        [a_trial(role, f"{role}", lost=(int(role is Role.POSITIVE_CONTROL),) * 2) for role in roles]
    )

    assert (check.control_clean, check.positive_control_lost) == (True, True)


def tearing(trial_id: str, torn: int) -> TrialResult:
    """Return a trial with a late EndTxn."""
    counts = dict.fromkeys(TransactionCounts.model_fields, 0) | {"torn": torn}
    return a_trial(Role.CELL, trial_id, transactions=TransactionCounts(**counts))


def test_a_late_commit_must_tear_a_transaction_in_each_trial(says: Says) -> None:
    """One trial that does not shows that the sweep may miss a torn transaction."""
    trials, ids = [tearing("000-a", 1), tearing("001-b", 2)], {"000-a", "001-b", "002-c"}
    check = harness_check(trials, ids)
    assert check.positive_control_torn is True
    says(check.sentences[2])

    check = harness_check([*trials, tearing("002-c", 0)], ids)
    assert check.positive_control_torn is False
    says(check.sentences[2])


def test_a_sweep_without_a_late_commit_has_no_control_for_atomicity() -> None:
    """Then nothing is known, and nothing is said."""
    check = harness_check([tearing("000-a", 0)])
    assert (check.positive_control_torn, len(check.sentences)) == (None, 2)


def test_the_trials_that_must_tear_are_those_of_clients_that_do_not_speak_version_2() -> None:
    """Librdkafka on any cluster, and Java's client below transaction.version 2."""
    planned = plan(load_experiment("delayed-commit"), "delayed-commit-1")
    must = trials_that_must_tear(
        planned, {cell_key(spec.cell): circumstances_of(spec) for spec in planned.trials}
    )
    assert {
        (spec.client, spec.cluster.features["transaction.version"])
        for spec in planned.trials
        if spec.trial_id in must
    } == {("librdkafka", 1), ("librdkafka", 2), ("java", 1)}
