"""What a sweep's own controls say: clean or not, seen or not, and not known where nobody looked."""

from __future__ import annotations

from typing import Any

import pytest
from support.fakes.client_rules import RULES

from experiments.ledger.record import Role, Status
from experiments.planning.experiment import parse_experiment
from experiments.planning.planner import plan
from experiments.results.judgements import harness_check
from experiments.results.models import Fates, FaultResult, TransactionCounts, TrialResult

NONE = dict.fromkeys(Fates.model_fields, 0)
CLEAN: dict[str, Any] = {"attempted": 1000, "lost": (0, 0), "duplicates": 0, "fates": Fates(**NONE)}


def a_trial(
    role: Role, trial_id: str = "000-a", status: Status = Status.SEALED, **changes: Any
) -> TrialResult:
    """Return a trial in which all went well, with some values changed."""
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


def test_a_control_in_which_nothing_happened_is_clean() -> None:
    """With what that rests on."""
    check = harness_check([a_trial(Role.CONTROL, "000-a"), a_trial(Role.CONTROL, "001-b")])

    assert check.control_clean is True
    assert (
        check.sentences[0]
        == "control (no fault): 0 lost, 0 duplicates, 0 phantom, 0 corrupt of 2,000 records in 2 trials"
    )


@pytest.mark.parametrize(
    ("stain", "told"),
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
            "5 torn transactions",
        ),
        (
            {
                "transactions": TransactionCounts(
                    **{**dict.fromkeys(TransactionCounts.model_fields, 0), "aborted_visible": 6}
                )
            },
            "6 aborted, yet shown",
        ),
    ],
)
def test_a_single_record_stains_a_control(stain: dict[str, Any], told: str) -> None:
    """The harness is at fault, and the trial is named."""
    check = harness_check([a_trial(Role.CONTROL, "000-a"), a_trial(Role.CONTROL, "001-b", **stain)])

    assert check.control_clean is False
    assert f"1 of 2 trials not clean (001-b: {told}): the harness is at fault" in check.sentences[0]


def test_records_that_may_be_lost_are_no_stain() -> None:
    """An unknown outcome without a trace is no loss for certain."""
    assert harness_check([a_trial(Role.CONTROL, lost=(0, 5))]).control_clean is True


def test_one_trial_that_lost_shows_that_losses_are_seen() -> None:
    """With the share of trials and its bounds."""
    check = harness_check([losing("000-a", 0), losing("001-b", 40), losing("002-c", 1200)])

    assert check.positive_control_lost is True
    assert (
        check.sentences[1]
        == "positive control (must lose): lost acknowledged records in 2 of 3 trials (9.4 to 100 %); 40 to 1,200 records a trial"
    )


def test_a_positive_control_that_lost_nothing_says_that_the_sweep_is_blind() -> None:
    """What it did not see may be there all the same."""
    check = harness_check([losing("000-a", 0)])

    assert check.positive_control_lost is False
    assert "this sweep would not see a loss" in check.sentences[1]


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ([], "none was run"),
        (["void"], "no trial of it could be judged (void)"),
        (["failed"], "(failed)"),
    ],
)
def test_without_a_judged_control_nothing_is_known(others: list[str], why: str) -> None:
    """A void trial is no clean one, and a sweep without controls no checked one."""
    trials = [
        a_trial(role, f"{role}-{status}", Status(status))
        for role in (Role.CONTROL, Role.POSITIVE_CONTROL)
        for status in others
    ]
    check = harness_check([*trials, a_trial(Role.CELL, lost=(7, 7))])

    assert (check.control_clean, check.positive_control_lost) == (None, None)
    assert all(why in sentence and "not known" in sentence for sentence in check.sentences)


def test_a_trial_that_was_not_measured_says_nothing() -> None:
    """Its records were counted by nobody."""
    check = harness_check(
        [a_trial(Role.CONTROL, attempted=None, lost=None, duplicates=None, fates=None)]
    )

    assert check.control_clean is None


def test_the_planned_roles_are_the_ones_that_are_judged() -> None:
    """What planning calls a control is what counts as one here."""
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
