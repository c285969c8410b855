"""An axis gets other values: products that were apart by it may have the same cells."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.cells import CrossProduct, replace_axis
from ackbench.experiments.planning.overrides import Overrides, apply_overrides

_CORE = ("acks", "enable.idempotence", "replication.factor", "partitions")


@pytest.mark.parametrize("fault", ["leader-crash", "leader-crash-behind", "leader-pause", "none"])
def test_each_cell_of_quick_is_run_once_under_another_fault(fault: str) -> None:
    """Its two products differ in the fault and in the session time-out that the fault needs."""
    cells = apply_overrides(load_experiment("quick"), Overrides({"fault": (fault,)})).axes
    points = Counter(
        tuple(point[name] for name in _CORE) for cross in cells for point in points_of(cross)
    )

    assert set(points.values()) == {1}
    assert len(points) == 24


def test_the_product_that_had_the_fault_keeps_its_cells() -> None:
    """A pause needs a session that outlasts it, a rolling restart a longer load."""
    pause = apply_overrides(load_experiment("quick"), Overrides({"fault": ("leader-pause",)}))
    sessions = {
        point["broker.session.timeout.ms"]
        for cross in pause.axes
        for point in points_of(cross)
        if point["replication.factor"] == 3 and point["partitions"] == 1
    }
    assert sessions == set(load_experiment("quick").axes[1]["broker.session.timeout.ms"])


def test_products_that_test_different_settings_stay_apart() -> None:
    """`acks` and `min.insync.replicas` are tested; a session time-out is tuned."""
    products: list[CrossProduct] = [
        {"acks": ("all",), "tested": (1,), "tuned": (1,), "fault": ("a",)},
        {"acks": ("all",), "tested": (2,), "tuned": (2,), "fault": ("b",)},
    ]

    assert len(replace_axis(products, "fault", ("c",), lambda name: name == "tuned")) == 2


def test_an_axis_that_did_not_divide_the_products_divides_none() -> None:
    """`--set acks=1` leaves each fault its own session."""
    axes = apply_overrides(load_experiment("quick"), Overrides({"acks": (1,)})).axes

    assert [cross["fault"] for cross in axes] == [("leader-crash-behind",), ("leader-pause",)]


def points_of(cross: CrossProduct) -> list[dict[str, Scalar]]:
    """Return the points of a product."""
    return [dict(zip(cross, values, strict=True)) for values in itertools.product(*cross.values())]


_VALUES = st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True).map(tuple)
_PRODUCTS = st.lists(
    st.fixed_dictionaries({"fault": _VALUES, "a": _VALUES, "b": _VALUES, "tuned": _VALUES}),
    min_size=1,
    max_size=4,
)


@given(_PRODUCTS, _VALUES)
def test_no_tested_cell_is_lost(products: list[CrossProduct], values: tuple[Scalar, ...]) -> None:
    """Whatever the products: what is dropped differs from what is kept in tuned constants only."""

    def tested(crosses: list[CrossProduct]) -> set[tuple[Scalar, ...]]:
        return {
            (point["fault"], point["a"], point["b"])
            for cross in crosses
            for point in points_of(cross)
        }

    plain: list[CrossProduct] = [{**product, "fault": values} for product in products]

    kept = replace_axis(products, "fault", values, lambda name: name == "tuned")

    assert tested(kept) == tested(plain)
