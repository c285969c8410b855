"""The matrix of settings and guarantees."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.builders.sweeps import SAFE, measured_sweep

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

    assert matrix.heads == ("acked, then lost", "duplicates", "accepted again")
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
