"""What a plan cannot show is said before it runs, with the cells or the repeats that could."""

from __future__ import annotations

from typing import Any

from support.fakes.client_rules import RULES
from support.golden_files import Says

from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.verdicts.power import power_remarks


def planned(axes: Any, **changes: Any) -> Plan:
    """Return the plan of a small experiment with these axes."""
    small = {
        "name": "small",
        "title": "t",
        "question": "q",
        "axes": {"fault": "leader-crash", "min.insync.replicas": 2, "acks": "all", **axes},
        "workload": {"duration_s": 10},
        "repeats": 5,
    }
    return plan(parse_experiment(small | changes, "small.yaml"), "small-1", RULES)


def remarks(axes: Any, **changes: Any) -> tuple[str, ...]:
    """Return the remarks on the plan of a small experiment with these axes.

    Those on what consumers receive are left out: they need an unclean election.
    """
    found = power_remarks(planned(axes, **changes))
    return tuple(remark for remark in found if "unclean-election" not in remark)


def test_a_sweep_with_idempotence_alone_names_the_cells_that_could_show_its_power(
    says: Says,
) -> None:
    """The added positive control shows loss; nothing shows duplicates or order."""
    (remark,) = remarks({"enable.idempotence": True})
    says(remark)


def test_cells_without_the_guarantee_show_its_power() -> None:
    """Under a fault: five trials without idempotence are enough."""
    assert remarks({"enable.idempotence": [False, True]}) == ()


def test_too_few_trials_name_the_repeats_that_are_enough(says: Says) -> None:
    """One trial may miss what happens in every other one; the positive control must lose."""
    (remark,) = remarks({"enable.idempotence": [False, True]}, repeats=1)
    says(remark)


def test_without_controls_nothing_shows_that_a_loss_would_be_detected(says: Says) -> None:
    """Every cell has acks=all and enough replicas."""
    (remark,) = remarks({"enable.idempotence": [False, True]}, controls=False)
    says(remark)


def test_a_sweep_that_asks_about_nothing_has_no_remark() -> None:
    """Without a fault no guarantee is tested, and without a guarantee none can hold."""
    assert remarks({"fault": "none", "enable.idempotence": True}) == ()
    assert remarks({"acks": 1, "enable.idempotence": False, "min.insync.replicas": 1}) == ()


def test_what_only_added_controls_are_guaranteed_is_no_question_of_the_sweep() -> None:
    """The same cells, once as the experiment's own, and once as added by the planner."""
    made = planned({"enable.idempotence": True})
    added = tuple(trial.model_copy(update={"added": True}) for trial in made.trials)
    assert power_remarks(made) != ()
    assert power_remarks(made.model_copy(update={"trials": added})) == ()


def test_cells_that_may_lose_need_trials_where_no_control_must() -> None:
    """One trial with acks=1 may keep all its records."""
    found = remarks({"acks": [1, "all"], "enable.idempotence": False}, controls=False, repeats=1)
    assert any(one.startswith("power: only 1 trial may violate no-acked-loss") for one in found)


def test_what_every_sweep_measures_needs_no_cell_that_violates_it() -> None:
    """Damage that is planted into a copy of a sweep shows that read losses are seen."""
    experiment = parse_experiment(
        {
            "name": "small",
            "title": "t",
            "question": "q",
            "axes": {
                "fault": "leader-crash",
                "min.insync.replicas": 2,
                "acks": "all",
                "enable.idempotence": [False, True],
            },
            "workload": {"duration_s": 10},
        },
        "small.yaml",
    )
    assert not any("no-read-loss" in one for one in power_remarks(plan(experiment, "s-1", RULES)))
