"""The timelines that stand open below the answer of a report."""

from __future__ import annotations

from dataclasses import replace

from support.builders.sweeps import (
    DUPLICATING,
    LOSING,
    SAFE,
    WITHOUT_FAULT,
    Truth,
    a_cell,
    measured_sweep,
)

from ackbench.experiments.pages.report.open_timelines import OpenTimelines, open_timelines
from ackbench.experiments.verdicts.judge import Verdict


def chosen(*truths: Truth) -> OpenTimelines:
    """Return the timelines of a sweep with these outcomes."""
    timelines = open_timelines(measured_sweep(truths))
    assert timelines is not None
    return timelines


def test_the_trial_that_lost_the_most_stands_beside_one_that_lost_nothing() -> None:
    """With what was lost, and its cause."""
    worst, best = chosen(SAFE, DUPLICATING, LOSING).timelines

    assert (worst.cell, best.cell) == ("acks=1 idem=off", "acks=all idem=on")
    assert worst.caption.startswith("Lost 4,448, duplicates 0;")
    assert best.caption.startswith("Lost 0, duplicates 0;")
    assert "lost records" in worst.cause
    assert best.cause == ""


def test_a_violated_guarantee_comes_before_a_greater_loss_that_is_allowed() -> None:
    """The one is Kafka's promise, the other is not."""
    data = measured_sweep((LOSING, DUPLICATING))
    losing, duplicating, *others = data.results.cells
    judgements = tuple(
        one.model_copy(update={"verdict": Verdict.VIOLATED}) for one in duplicating.judgements
    )
    cells = (losing, duplicating.model_copy(update={"judgements": judgements}), *others)
    changed = replace(data, results=data.results.model_copy(update={"cells": cells}))
    timelines = open_timelines(changed)

    assert timelines is not None
    assert timelines.timelines[0].cell == "acks=all"


def test_the_timelines_are_of_one_fault() -> None:
    """Two faults side by side would look like two settings."""
    paused = Truth(a_cell("all", fault="leader-pause"), (0,), (0,))
    timelines = chosen(LOSING, paused)

    assert timelines.fault == "leader-crash-behind"
    assert [one.cell for one in timelines.timelines] == ["acks=1"]


def test_of_cells_without_damage_the_one_with_the_nearest_settings_is_shown() -> None:
    """The difference between both is then what decides."""
    near = Truth(a_cell("all", partitions=1), (0,), (0,))
    far = Truth(a_cell("all", idempotence=True, partitions=6), (0,), (0,))
    _, best = chosen(far, LOSING, near).timelines

    assert best.cell == "acks=all idem=off P=1"


def test_trials_with_acks_0_are_shown_only_if_there_are_no_others() -> None:
    """Their client does not see an outage."""
    unseen = Truth(a_cell(0), (90_000,), (0,))

    assert chosen(unseen, LOSING).timelines[0].cell == "acks=1"
    assert chosen(unseen).timelines[0].caption.startswith("Lost 90,000")


def test_a_sweep_without_a_fault_or_without_timelines_has_none() -> None:
    """Nothing is drawn that was not measured."""
    assert open_timelines(measured_sweep([WITHOUT_FAULT])) is None
    assert open_timelines(replace(measured_sweep([LOSING]), timeline={})) is None
