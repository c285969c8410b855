"""A comparison in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.builders.sweeps import Truth, a_cell, measured_sweep
from support.golden_files import Says

from ackbench.experiments.results.comparing.comparison import ComparedSweep, compare

FAST = Truth(a_cell("all", idempotence=True), (0,) * 12, (0,) * 12, p99_ms=1000)
OTHER = replace(FAST, cell=a_cell(1))


def sentences(a: tuple[Truth, ...], b: tuple[Truth, ...]) -> list[str]:
    """Return the sentences on two sweeps with these outcomes."""
    sides = []
    for name, truths in (("a", a), ("b", b)):
        data = measured_sweep(truths, sweep_id=name)
        sides.append(ComparedSweep(data.plan, data.results))
    return list(compare(*sides).sentences)


def test_a_measure_that_is_worse_in_some_cells_has_the_median_and_range_of_their_ratios(
    says: Says,
) -> None:
    """The cells without a difference are counted too."""
    slow, slower = replace(FAST, p99_ms=1500), replace(OTHER, p99_ms=2000)
    third = replace(FAST, cell=a_cell("all"))
    found = sentences((FAST, OTHER, third), (slow, slower, third))

    says(found[2])


def test_a_share_differs_by_points(says: Says) -> None:
    """More trials with duplicates are worse."""
    found = sentences((FAST,), (replace(FAST, copies=(3,) * 12),))

    says(found[1])
    says(found[0])


def test_a_better_measure_is_said_to_be_better() -> None:
    """Throughput is better when it is higher, the others when they are lower."""
    found = sentences((replace(FAST, p99_ms=3000),), (FAST,))
    assert found[2].startswith("ack p99: better than in A in 1 of 1 cell, 0.33 times A's")


@pytest.mark.parametrize("repeats", [1, 4])
def test_few_trials_show_neither_a_difference_nor_its_absence(repeats: int, says: Says) -> None:
    """Also where one side lost in every trial and the other one in none."""
    few = replace(FAST, lost=(0,) * repeats, copies=(0,) * repeats)
    found = sentences((few,), (replace(few, lost=(9,) * repeats, p99_ms=9000),))

    says(found[0])
    says(found[2])


def test_verdicts_that_changed_are_counted(says: Says) -> None:
    """The list above the sentences names them."""
    found = sentences((FAST,), (replace(FAST, lost=(3,) * 12),))

    assert found[-1].startswith("Verdicts: ")
    assert found[-1].endswith(" changed, in 1 of 1 cell.")
    says(sentences((FAST,), (FAST,))[-1])
