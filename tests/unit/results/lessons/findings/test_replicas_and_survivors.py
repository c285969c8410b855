"""Lesson 3: how many broker crashes a replication factor survives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from support.builders.findings import a_trial, finding_input_of_trials, outage_rows
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.lessons.plots import SharesPlot
from ackbench.experiments.results.models import TrialResult

find = load_finding("replicas_and_survivors")

TOGETHER = "leader-crash & follower-crash"
READ_AND_WRITTEN, HIDDEN, LED, NEITHER = "read and written", "written", "led", ""
Row = tuple[TrialResult, list[dict[str, Any]]]


def _three(
    replicas: int, minimum: int, crashed: int, survived: str, lost: int = 0, acks: str = "all"
) -> Iterable[Row]:
    """Yield three trials whose crashed brokers restart after 4 s.

    Another broker leads after 2 s if one survives; else a restarted one after 5 s. It may accept
    no records, or hide those that it accepts.
    """
    cell: Cell = {
        "acks": acks,
        "replication.factor": replicas,
        "min.insync.replicas": minimum,
        "fault": TOGETHER if crashed > 1 else "leader-crash",
    }
    wrote = survived in {READ_AND_WRITTEN, HIDDEN}
    for _ in range(3):
        trial = a_trial(
            cell,
            targets=tuple(range(1, crashed + 1)),
            parameters={
                "1.leader-crash.restart_after_s": 4.0,
                "2.follower-crash.restart_after_s": 4.0,
            },
            recovered_before_heal=wrote,
            readable_before_heal={READ_AND_WRITTEN: True, HIDDEN: False}.get(survived),
            lost=(lost, lost),
        )
        yield (
            trial,
            outage_rows(0, elected=2000 if survived else 5000, first_after=2100 if wrote else 5100),
        )


def _found(rows: Iterable[Row]) -> Finding:
    made = list(rows)
    return find(
        finding_input_of_trials(
            [trial for trial, _ in made], {"outages": dict(enumerate(marks for _, marks in made))}
        )
    )


def test_a_minimum_of_two_supports_the_claim_in_part(says: Says) -> None:
    """The second crash stops writes; as nothing was acknowledged, nothing tells about reads."""
    finding = _found([*_three(3, 2, 1, READ_AND_WRITTEN), *_three(3, 2, 2, LED)])
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    says(finding.sentence)
    assert "hides" not in finding.remark


def test_acknowledged_records_may_be_hidden_from_consumers(says: Says) -> None:
    """With acks=1, the last replica accepts records that no consumer receives."""
    finding = _found(
        [*_three(3, 2, 1, READ_AND_WRITTEN), *_three(3, 2, 2, HIDDEN, lost=5, acks="1")]
    )
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert "acks=1, replication factor 3" in finding.sentence
    says(finding.sentence)
    says(finding.remark)


def test_records_shown_below_the_minimum_refute_the_claim() -> None:
    """The high watermark must not advance below min.insync.replicas."""
    shown = _found([*_three(3, 2, 2, READ_AND_WRITTEN, acks="1")])
    assert shown.conclusion is Conclusion.REFUTED


def test_reads_that_no_trial_tells_about_are_not_plotted() -> None:
    """A share of no trials has no interval."""
    plot = _found([*_three(3, 2, 1, READ_AND_WRITTEN), *_three(3, 2, 2, LED)]).plot
    assert isinstance(plot, SharesPlot)
    assert [row.name.rpartition(": ")[2] for row in plot.rows] == ["read", "written", "written"]


def test_trials_that_cannot_tell_whether_it_was_readable_are_inconclusive(says: Says) -> None:
    """That a topic is readable has to be seen in three trials."""
    rows = [
        (trial.model_copy(update={"readable_before_heal": None}), marks)
        for trial, marks in _three(2, 1, 1, READ_AND_WRITTEN)
    ]
    finding = _found(rows)
    assert finding.conclusion is Conclusion.INCONCLUSIVE
    says(finding.sentence)


def test_a_single_replica_that_waits_for_its_broker_is_as_expected() -> None:
    """Replication factor 1 survives no crash, replication factor 2 survives one."""
    finding = _found(
        [*_three(1, 1, 1, NEITHER), *_three(2, 1, 1, READ_AND_WRITTEN), *_three(2, 1, 2, NEITHER)]
    )
    assert finding.conclusion is Conclusion.SUPPORTED


@pytest.mark.parametrize("survived", [HIDDEN, LED, NEITHER])
def test_an_unsurvived_crash_refutes_the_claim(survived: str) -> None:
    """It counts whether reads, or only writes, waited for the restart."""
    assert _found(_three(3, 1, 2, survived)).conclusion is Conclusion.REFUTED


def test_a_takeover_too_short_for_an_outage_counts(says: Says) -> None:
    """Without an outage there are no steps of one."""
    finding = _found((trial, []) for trial, _ in _three(2, 1, 1, READ_AND_WRITTEN))
    says(finding.sentence)


def test_a_loss_refutes_the_claim(says: Says) -> None:
    """With acks=all, the crashed brokers come back with their files."""
    finding = _found(_three(3, 1, 2, READ_AND_WRITTEN, lost=17))
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.sentence)


def test_one_slow_takeover_of_three_is_inconclusive() -> None:
    """The crashed brokers may restart before the others have taken over."""
    assert (
        _found(
            [*list(_three(3, 1, 2, READ_AND_WRITTEN))[:2], *list(_three(3, 1, 2, HIDDEN))[:1]]
        ).conclusion
        is Conclusion.INCONCLUSIVE
    )


def test_one_trial_of_a_case_refutes_the_claim() -> None:
    """A topic that should have survived, and did not in any trial of its case."""
    unsurvived = list(_three(3, 1, 2, NEITHER))[:1]
    assert _found(unsurvived).conclusion is Conclusion.REFUTED


def test_a_loss_in_a_trial_whose_restart_was_not_seen_does_not_count() -> None:
    """Such a trial tells nothing of the time before the restart."""
    rows = [
        (trial.model_copy(update={"recovered_before_heal": None}), marks)
        for trial, marks in _three(2, 1, 1, READ_AND_WRITTEN, lost=3)
    ]
    assert _found(rows).conclusion is Conclusion.INCONCLUSIVE


def test_two_trials_are_inconclusive() -> None:
    """A finding needs three trials of each cell."""
    assert _found(list(_three(2, 1, 1, READ_AND_WRITTEN))[:2]).conclusion is Conclusion.INCONCLUSIVE
