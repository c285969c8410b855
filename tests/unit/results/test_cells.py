"""The order of a sweep's cells."""

from hypothesis import given
from hypothesis import strategies as st
from support.builders.records import a_spec

from experiments.ledger.record import Cell
from experiments.results.cells import cell_results, cell_sort_key
from experiments.results.rows import ResultRows
from experiments.sweep.plan import Plan, RefusedCell


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
def test_results_have_cells_in_that_order_and_refused_cells_last(
    drawn: list[Cell],
) -> None:
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
