"""What several faults do together, as far as promises hang on it: at the worst, and unknown where nobody has thought of it."""

from __future__ import annotations

import pytest

from experiments.faults.composition.composite import effects_of, heals_at_s
from experiments.faults.composition.notation import parse_fault
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.planning.experiment import parse_experiment
from experiments.planning.faults import fault_request
from experiments.sweep.plan import FaultRequest

SHAPE = Topology(nodes=3, partitions=1, replication_factor=3)
EXPERIMENT = parse_experiment(
    {"name": "a", "title": "t", "question": "q", "axes": {"acks": [1]}}, "a.yaml"
)


def fault(text: str) -> FaultRequest:
    """Return the faults with all their parameters."""
    return fault_request(EXPERIMENT, text, {})


def effects(text: str) -> FaultEffects:
    """Return what they do."""
    return effects_of(fault(text), SHAPE)


def test_at_the_same_time_the_dead_add_up() -> None:
    """Two killed, one standing still."""
    joined = effects("leader-crash & follower-crash & leader-pause")
    assert (joined.nodes_down, joined.nodes_paused, joined.parts) == (2, 1, 3)


def test_in_turn_no_more_are_dead_than_in_the_worst_part() -> None:
    """A node runs again, with its page cache, when the next one dies."""
    joined = effects("leader-crash >> follower-crash >> controller-crash")
    assert (joined.nodes_down, joined.parts) == (1, 3)


def test_pauses_at_the_same_time_may_follow_each_other_on_one_node() -> None:
    """It then stands still for as long as both together; in turn each has an end."""
    pauses = ("leader-pause(pause_s=2)", "leader-pause(pause_s=3)")
    assert (effects(" & ".join(pauses)).pause_ms, effects(" >> ".join(pauses)).pause_ms) == (
        5000,
        3000,
    )


@pytest.mark.parametrize(
    ("text", "ends", "lasts_ms"),
    [
        ("leader-crash(at_s=1, restart_after_s=4)", 5, 4000),
        ("leader-crash(at_s=1, restart_after_s=4) & leader-pause(at_s=3, pause_s=1)", 5, 4000),
        ("leader-crash(at_s=1, restart_after_s=4) & leader-pause(at_s=3, pause_s=6)", 9, 8000),
        ("leader-crash(at_s=1, restart_after_s=4) >> leader-pause(at_s=3, pause_s=6)", 14, 13_000),
        (
            "(leader-crash(at_s=1, restart_after_s=4) & leader-pause(at_s=2, pause_s=6)) >> leader-pause(at_s=3, pause_s=1)",
            12,
            11_000,
        ),
    ],
)
def test_the_whole_lasts_from_the_first_strike_to_the_last_heal(
    text: str, ends: float, lasts_ms: float
) -> None:
    """At the same time the later heal counts; in turn the times between them count too."""
    assert (heals_at_s(fault(text)), effects(text).heals_after_ms) == (ends, lasts_ms)


def test_a_leader_is_struck_where_one_of_the_parts_strikes_it() -> None:
    """A follower of the only partition leads nothing."""
    assert [
        effects(text).may_affect_leader
        for text in ("follower-crash >> follower-crash", "follower-crash >> leader-pause")
    ] == [False, True]


def test_of_what_no_rule_is_known_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that nobody has thought of joining must not vanish."""
    monkeypatch.setattr(
        "experiments.faults.composition.composite._TOGETHER", {"nodes_down": sum, "known": all}
    )
    assert not effects("leader-pause & follower-crash").known


def test_a_single_fault_is_as_its_kind_says() -> None:
    """Brackets change its parameters, and nothing else."""
    assert effects("leader-crash(restart_after_s=7)") == effects("leader-crash").model_copy(
        update={"heals_after_ms": 7000, "heals_within_ms": 17_000}
    )
    assert parse_fault("leader-crash").leaves() == (FaultRequest(kind="leader-crash"),)
