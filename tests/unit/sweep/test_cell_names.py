"""The axes that name a cell among others."""

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.sweep.cell_names import axes_by_fault, differing_axes


def cells(*rows: tuple[str, int, str]) -> list[Cell]:
    """Return cells with acks, a session timeout and a fault."""
    return [
        {"acks": acks, "broker.session.timeout.ms": timeout_ms, "fault": fault}
        for acks, timeout_ms, fault in rows
    ]


CRASH, PAUSE = "leader-crash", "leader-pause"


def test_an_axis_with_one_value_per_fault_is_named_by_the_fault() -> None:
    """Tables have it in their titles, and names of cells leave it out."""
    of_each = cells(("1", 1500, CRASH), ("all", 1500, CRASH), ("all", 3500, PAUSE))
    assert (axes_by_fault(of_each), differing_axes(of_each)) == (
        ["broker.session.timeout.ms"],
        ["acks", "fault"],
    )


def test_an_axis_that_differs_within_a_fault_is_named() -> None:
    """Otherwise two cells would have one name."""
    of_each = cells(("all", 1500, CRASH), ("all", 3500, CRASH), ("all", 3500, PAUSE))
    assert (axes_by_fault(of_each), differing_axes(of_each)) == (
        [],
        ["broker.session.timeout.ms", "fault"],
    )
