"""The combined effects of several faults: the worst case, and unknown without a rule."""

from __future__ import annotations

import pytest

from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.faults import fault_request
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.faults.composition.composite import effects_of, needs_load_s
from ackbench.experiments.trial.faults.composition.notation import parse_fault
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology

TOPOLOGY = Topology(nodes=3, partitions=1, replication_factor=3)
EXPERIMENT = parse_experiment(
    {"name": "a", "title": "t", "question": "q", "axes": {"acks": [1]}}, "a.yaml"
)


def fault(text: str) -> FaultRequest:
    """Return the faults of a notation with all their parameters."""
    return fault_request(EXPERIMENT, text, {})


def effects(text: str) -> FaultEffects:
    """Return the combined effects of the faults."""
    return effects_of(fault(text), TOPOLOGY)


def test_in_parallel_crashed_nodes_add_up() -> None:
    """Two nodes are crashed, one is paused."""
    combined = effects("leader-crash & follower-crash & leader-pause")
    assert (combined.nodes_down, combined.nodes_paused, combined.parts) == (2, 1, 3)


def test_in_sequence_the_part_with_most_crashed_nodes_counts() -> None:
    """A node runs again, with its page cache, when the next one crashes."""
    combined = effects("leader-crash >> follower-crash >> controller-crash")
    assert (combined.nodes_down, combined.parts) == (1, 3)


def test_parallel_pauses_may_follow_each_other_on_one_node() -> None:
    """It is then paused for the sum of both; in sequence each pause ends."""
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
            (
                "(leader-crash(at_s=1, restart_after_s=4) & leader-pause(at_s=2, pause_s=6))"
                " >> leader-pause(at_s=3, pause_s=1)"
            ),
            12,
            11_000,
        ),
    ],
)
def test_combined_faults_last_from_the_first_injection_to_the_last_heal(
    text: str, ends: float, lasts_ms: float
) -> None:
    """In parallel the later heal counts; in sequence the times between them count too."""
    assert (needs_load_s(fault(text), TOPOLOGY), effects(text).heals_after_ms) == (ends, lasts_ms)


def test_a_leader_is_affected_if_one_of_the_parts_affects_it() -> None:
    """A follower of the only partition is no leader."""
    assert [
        effects(text).may_affect_leader
        for text in ("follower-crash >> follower-crash", "follower-crash >> leader-pause")
    ] == [False, True]


def test_without_a_rule_for_a_field_the_effects_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A field without a rule must not be ignored."""
    monkeypatch.setattr(
        "ackbench.experiments.trial.faults.composition.composite._COMMON_RULES", {"known": all}
    )
    assert not effects("leader-pause & follower-crash").known


def test_a_single_fault_has_the_effects_of_its_kind() -> None:
    """Parameters in parentheses change only what depends on them."""
    assert effects("leader-crash(restart_after_s=7)") == effects("leader-crash").model_copy(
        update={"heals_after_ms": 7000, "heals_within_ms": 17_000}
    )
    assert parse_fault("leader-crash").leaves() == (FaultRequest(kind="leader-crash"),)
