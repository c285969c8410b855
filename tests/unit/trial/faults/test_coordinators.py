"""Coordinators: the partition that an id maps to, and loads that have no coordinator."""

from __future__ import annotations

import pytest

from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.process.coordinators import coordinating_partition

PLAIN = Topology(nodes=3, partitions=1, replication_factor=3)


@pytest.mark.parametrize(
    ("coordinated", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("hello world, hello", -531_983_206),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_an_id_belongs_to_the_partition_of_the_absolute_value_of_its_java_hash(
    coordinated: str, hash_code: int
) -> None:
    """The smallest integer has no positive, and counts as 0."""
    absolute = 0 if hash_code == -(2**31) else abs(hash_code)
    assert coordinating_partition(coordinated, 2**31) == absolute
    assert coordinating_partition(coordinated, 50) == absolute % 50


@pytest.mark.parametrize("action", ["crash", "stop", "pause"])
@pytest.mark.parametrize(
    ("target", "missing", "load"),
    [
        ("coordinator", "transactions.records is 0; ", {"transactional": True}),
        ("group-coordinator", "group.consumers is 0; ", {"consumers": 2}),
    ],
)
def test_a_load_without_what_is_coordinated_is_refused(
    target: str, missing: str, load: dict[str, int], action: str
) -> None:
    """Planning says what is allowed."""
    parameters = FAULTS[f"{target}-{action}"].parameters()
    assert str(parameters.impossible_reason(PLAIN)).startswith(missing)
    assert parameters.impossible_reason(PLAIN.model_copy(update=load)) is None
