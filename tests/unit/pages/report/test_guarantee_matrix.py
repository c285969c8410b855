"""The matrix of settings and guarantees."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.builders.sweeps import LOSING, SAFE, TRUTHS, Truth, a_cell, measured_sweep
from support.golden_files import Says

from ackbench.experiments.ledger.quantities import TransactionCounts
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.report.guarantee_matrix import guarantee_matrix
from ackbench.experiments.verdicts.guarantees.atomicity import ATOMICITY
from ackbench.experiments.verdicts.judge import Judgement, Verdict


def with_transactions(**counts: int) -> ReportData:
    """Return a sweep of one cell whose transactions are not guaranteed to be atomic, and were not.

    Args:
        counts: of its transactions; the others are 0.
    """
    data = measured_sweep((SAFE,))
    cell, *others = data.results.cells
    none = dict.fromkeys(TransactionCounts.model_fields, 0)
    observed = Judgement(
        guarantee=ATOMICITY,
        verdict=Verdict.NOT_GUARANTEED,
        violation_seen=True,
        share=None,
        mechanism="as the documentation says",
    )
    changed = cell.model_copy(
        update={
            "transactions": TransactionCounts(**{**none, **counts}),
            "judgements": (*cell.judgements, observed),
        }
    )
    results = data.results.model_copy(update={"cells": (changed, *others)})
    return replace(data, results=results)


@pytest.mark.parametrize(("counts", "text"), [({"torn": 2}, "2"), ({"aborted_visible": 7}, "7")])
def test_an_observation_that_is_not_atomic_has_a_count(counts: dict[str, int], text: str) -> None:
    """Partly visible transactions, and visible records of transactions that did not commit."""
    (group,) = guarantee_matrix(with_transactions(**counts)).groups
    (chip,) = (chip for chip in group.rows[0].chips if chip.head == "not atomic")

    assert (chip.sign, chip.text) == ("!", text)


def test_a_violation_in_a_trial_that_is_set_aside_has_its_own_count() -> None:
    """The cell's sums leave it out."""
    data = measured_sweep((SAFE,))
    cell, *others = data.results.cells
    loss, *rest = cell.judgements
    aside = {"trials": ("000-000001",), "set_aside": ("000-000001",), "records_total": 346}
    violated = loss.model_copy(
        update={"verdict": Verdict.VIOLATED, "violation_seen": True, **aside}
    )
    changed = cell.model_copy(update={"judgements": (violated, *rest)})
    results = data.results.model_copy(update={"cells": (changed, *others)})
    (group,) = guarantee_matrix(replace(data, results=results)).groups

    assert (group.rows[0].chips[0].sign, group.rows[0].chips[0].text) == (
        "✗",
        "346 in 1 trial set aside",
    )


def test_a_guarantee_has_a_column_if_a_cell_shows_its_opposite() -> None:
    """The others are named; loss, duplicates and availability always have one."""
    matrix = guarantee_matrix(measured_sweep((SAFE,)))

    assert matrix.heads == ("acked, then lost", "duplicates", "outage")
    assert "order" in matrix.not_observed
    assert "not atomic" in guarantee_matrix(with_transactions(torn=1)).heads


def test_a_row_has_the_strip_of_the_trial_with_the_median_gap() -> None:
    """Of an even number of trials the shorter one of both in the middle."""
    data = measured_sweep((SAFE,))
    gaps = sorted(
        (trial.unavailable_ms or 0, trial.trial_id) for trial in data.results.trials if trial.judged
    )
    (group,) = guarantee_matrix(data).groups
    strip = group.rows[0].strip

    assert strip is not None
    assert strip.trial == gaps[2][1]
    assert strip.fault is not None


def with_losses(*lost: tuple[int, ...]) -> ReportData:
    """Return a sweep of cells that differ in partitions, which lost so many records per trial."""
    return measured_sweep(
        [
            Truth(a_cell(1, partitions=number), losses, (0,) * len(losses))
            for number, losses in enumerate(lost, start=1)
        ]
    )


def test_cells_with_one_outcome_share_a_row_with_the_range_of_their_figures(says: Says) -> None:
    """Each has its own row in the matrix by cell."""
    data = with_losses((5, 70), (3, 0), (200, 9))
    (group,) = guarantee_matrix(data, by_outcome=True).groups

    assert [dict(row.settings)["P"] for row in group.rows] == ["1/3", "2"]
    says([row.chips[0].text for row in group.rows])
    assert len(guarantee_matrix(data).groups[0].rows) == 3


def test_a_row_of_several_cells_links_to_the_verdict_of_the_one_that_shows_the_most() -> None:
    """The reader sees the worst first."""
    data = with_losses((5,), (900,), (20,))
    (group,) = guarantee_matrix(data, by_outcome=True).groups

    assert group.rows[0].chips[0].text == "5 to 900"
    assert group.rows[0].chips[0].anchor == "verdict-2-no-acked-loss"


def test_cells_with_different_faults_never_share_a_row() -> None:
    """A sentence on both would pool what differs."""
    truths = [
        Truth(a_cell(1, fault=fault), (7,), (0,)) for fault in ("leader-crash", "leader-pause")
    ]
    matrix = guarantee_matrix(measured_sweep(truths), by_outcome=True)

    assert [(group.fault, len(group.rows)) for group in matrix.groups] == [
        ("leader-crash", 1),
        ("leader-pause", 1),
    ]


def test_the_settings_of_a_row_denote_its_cells_exactly() -> None:
    """Of four combinations three have one outcome: they are two rows, not one of all four."""
    truths = [
        Truth(a_cell(acks, partitions=partitions), (lost,), (0,))
        for acks, partitions, lost in (("1", 1, 7), ("1", 6, 8), ("2", 1, 9), ("2", 6, 0))
    ]
    (group,) = guarantee_matrix(measured_sweep(truths), by_outcome=True).groups
    rows = [
        (settings["acks"], settings["P"]) for settings in (dict(row.settings) for row in group.rows)
    ]

    assert sorted(rows) == [("1", "1/6"), ("2", "1"), ("2", "6")]


def test_a_matrix_says_whether_it_has_a_row_per_cell() -> None:
    """Then the page shows it once."""
    assert guarantee_matrix(measured_sweep(TRUTHS), by_outcome=True).has_a_row_per_cell
    assert guarantee_matrix(with_losses((5,), (6,))).has_a_row_per_cell
    assert not guarantee_matrix(with_losses((5,), (6,)), by_outcome=True).has_a_row_per_cell


def test_the_signs_of_a_matrix_are_those_that_it_shows() -> None:
    """The legend has no others."""
    assert guarantee_matrix(measured_sweep((LOSING,))).signs == {"!", "✓"}
