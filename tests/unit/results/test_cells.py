"""The order of a sweep's cells."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.records import a_spec
from support.builders.sweeps import measured_sweep

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.cells import cell_results, judged_trials
from ackbench.experiments.results.rows import ResultRows
from ackbench.experiments.sweep.cell_names import cell_sort_key
from ackbench.experiments.sweep.plan import Plan, RefusedCell


def a_cell(
    acks: str | int, factor: int, partitions: int, fault: str = "leader-crash", linger_ms: int = 5
) -> Cell:
    """Return a cell whose keys are in the order of a file."""
    return {
        "linger.ms": linger_ms,
        "fault": fault,
        "partitions": partitions,
        "acks": acks,
        "enable.idempotence": False,
        "replication.factor": factor,
    }


IN_ORDER = [
    a_cell("all", 3, 1, fault="none"),
    a_cell(0, 1, 6),
    a_cell(1, 1, 1),
    a_cell(1, 3, 1),
    a_cell(1, 3, 6),
    a_cell(1, 3, 6, linger_ms=50),
    a_cell("all", 1, 1),
    a_cell(0, 1, 1, fault="leader-pause"),
]


@given(drawn=st.permutations(IN_ORDER))
def test_cells_are_ordered_by_fault_then_acks_replication_and_partitions(drawn: list[Cell]) -> None:
    """No fault comes first, numbers before words, and 6 before 50, in whatever order trials ran."""
    assert sorted(drawn, key=cell_sort_key) == IN_ORDER


@given(drawn=st.permutations(IN_ORDER))
def test_results_have_cells_in_that_order_and_refused_cells_last(drawn: list[Cell]) -> None:
    """The terminal table and the page show cells in this order."""
    trials = tuple(
        a_spec(trial_id=f"{number:03d}-abcdef", cell=cell) for number, cell in enumerate(drawn)
    )
    refused = (
        RefusedCell(
            trial_id="900-refuse",
            cell=a_cell(0, 1, 1, fault="none"),
            label="acks=0",
            reason="`acks` must be set to `all`",
        ),
    )
    plan = Plan(
        sweep_id="s",
        experiment="e",
        question="q",
        seed=1,
        repeats=1,
        trials=trials,
        refused=refused,
    )

    assert [row.cell for row in cell_results(plan, [], ResultRows({}, {}, {}, {}, {}))] == [
        *IN_ORDER,
        refused[0].cell,
    ]


def test_the_trials_of_all_cells_are_found_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand cells are not compared with a thousand trials each."""
    results, asked = measured_sweep().results, list[Cell]()

    def key(cell: Cell) -> str:
        asked.append(cell)
        return json.dumps(cell, sort_keys=True)

    expected = {
        cell.label: [one for one in results.trials if one.judged and one.cell == cell.cell]
        for cell in results.cells
    }
    monkeypatch.setattr("ackbench.experiments.results.cells.cell_key", key)
    for _ in range(3):
        assert {c.label: judged_trials(results, c) for c in results.cells} == expected
    assert len(asked) <= len(results.trials) + 3 * len(results.cells)


def test_the_trials_of_another_measurement_are_found_anew() -> None:
    """Results that were replaced have other trials under the same cells."""
    results = measured_sweep().results
    cell = next(one for one in results.cells if judged_trials(results, one))
    without = results.model_copy(update={"trials": ()})
    assert judged_trials(without, cell) == []
