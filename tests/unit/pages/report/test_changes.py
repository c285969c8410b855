"""Comparisons by setting: the pairs of cells that are compared."""

from dataclasses import replace

import pytest
from support.builders.sweeps import SAFE, a_cell, measured_sweep

from ackbench.experiments.pages.report.changes import MAX_VALUES_IN_PAIRS, changes_view


@pytest.mark.parametrize(
    ("values", "pairs"),
    [(3, 3), (MAX_VALUES_IN_PAIRS, 66), (MAX_VALUES_IN_PAIRS + 1, MAX_VALUES_IN_PAIRS)],
)
def test_the_pairs_of_many_values_do_not_grow_with_their_square(values: int, pairs: int) -> None:
    """Each of many values is compared with the first one, and a note says so."""
    truths = [
        replace(SAFE, cell=a_cell("all", partitions=number)) for number in range(1, values + 1)
    ]
    view = changes_view(measured_sweep(truths))

    (axis,) = view.axes
    assert len(axis.shown) + len(axis.folded) == pairs
    first = [note for note in view.notes if "is compared with the first one, 1." in note]
    assert bool(first) == (values > MAX_VALUES_IN_PAIRS)
