"""Which nodes may exit by themselves because of a fault, and when."""

from __future__ import annotations

import pytest

from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.core.exits import ExpectedExits, MayExit

DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(
    ("may_exit", "target_now", "target_later", "other_now", "other_later"),
    [
        ("none", False, False, False, False),
        ("targets", True, False, False, False),
        ("brokers", True, True, True, True),
    ],
)
def test_a_fault_allows_exits_of_its_targets_while_it_lasts_or_of_any_broker_from_then_on(
    may_exit: MayExit, *, target_now: bool, target_later: bool, other_now: bool, other_later: bool
) -> None:
    """A command may have stopped any broker, which may leave after its session only."""
    expected, before_ns = ExpectedExits(), now_ns() - 1
    with expected.allowed(may_exit, [2]):
        now = now_ns()
    assert [expected.covers(node, at_ns) for node in (2, 3) for at_ns in (now, now + DAY_NS)] == [
        target_now,
        target_later,
        other_now,
        other_later,
    ]
    assert not expected.covers(2, before_ns)


def test_only_faults_whose_effect_ends_a_node_allow_that() -> None:
    """A full, removed or slow disk, a power loss; and commands, whose effect is not known."""
    assert {name: kind.may_exit for name, kind in FAULTS.items() if kind.may_exit != "none"} == {
        **dict.fromkeys(
            (
                "disk-full",
                "log-dir-gone",
                "slow-disk",
                "leader-power-loss",
                "all-power-loss",
                "power-loss-in-recovery",
            ),
            "targets",
        ),
        "command": "brokers",
    }
