"""Trends of planted histories: changes are found where they are, and nothing else."""

from __future__ import annotations

import random

import pytest
from support.builders.nights import CELLS, MACHINE, a_night, history, shifted
from support.golden_files import Says

from ackbench.experiments.pages.site.trend_page import render_trend
from ackbench.experiments.results.history.change_points import find_shifts
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.results.history.trend import FALSE_ALARMS, TrendMeasure, trend_of
from ackbench.experiments.results.history.wording import (
    change_line,
    lowest_and_highest,
    point_text,
    trend_head,
    unusual_line,
)
from ackbench.experiments.sweep.cell_names import cell_label

ACK = (TrendMeasure.ACK_P50, TrendMeasure.ACK_P99, TrendMeasure.ACK_P99_9)


def test_a_shift_of_8_percent_is_found_at_its_night() -> None:
    """In the cell and the measures that it was planted in, and in no other."""
    found = trend_of(history(45, seed=1, level=shifted(at=30, factor=1.08)))
    nights = {change.measure: found.sweeps.index(change.sweep_id) for change in found.changes}
    assert nights == {
        TrendMeasure.ACK_P50: 30,
        TrendMeasure.ACK_P99: 30,
        TrendMeasure.ACK_P99_9: 30,
    }
    assert {change.cell for change in found.changes} == {cell_label(CELLS[0])}
    assert all(change.worse and not change.changed for change in found.changes)
    assert all(change.ratio == pytest.approx(1.08, abs=0.02) for change in found.changes)


def test_a_shift_down_is_better_and_a_shift_up_in_throughput_would_be_too() -> None:
    """Whether more is worse depends on the measure."""
    found = trend_of(history(45, seed=2, level=shifted(at=20, factor=0.9)))
    assert found.changes
    assert not any(change.worse for change in found.changes)
    assert not TrendMeasure.THROUGHPUT.more_is_worse


def test_two_shifts_are_both_found() -> None:
    """Both parts of a divided series are searched again."""
    level = lambda night, cell: 1.2 if cell == 0 and 20 <= night < 40 else 1.0  # noqa: E731
    found = trend_of(history(60, seed=3, level=level))
    nights = {
        found.sweeps.index(change.sweep_id)
        for change in found.changes
        if change.measure is TrendMeasure.ACK_P99
    }
    assert nights == {20, 40}


def test_a_change_with_another_version_names_the_version(says: Says) -> None:
    """The figures before and after it are compared, even if both segments are short."""
    rng = random.Random(4)  # noqa: S311 - not used for secrets
    level = shifted(at=12, factor=1.3)
    nights = [
        a_night(number, rng, level=level, version="4.3.1" if number < 12 else "4.4.0")
        for number in range(20)
    ]
    found = trend_of(nights)
    change = next(one for one in found.changes if one.measure is TrendMeasure.ACK_P99)
    assert found.sweeps.index(change.sweep_id) == 12
    assert change.version == "4.4.0"
    assert [(one.name, one.a, one.b) for one in change.changed] == [
        ("kafka.version", "4.3.1", "4.4.0")
    ]
    says(change_line(change))


def test_a_changed_setting_is_named_even_if_no_figure_changed() -> None:
    """As a boundary, with the cells that it concerns."""
    rng = random.Random(5)  # noqa: S311 - not used for secrets
    nights = [
        a_night(number, rng, settings={"producer linger.ms": "5" if number < 10 else "0"})
        for number in range(20)
    ]
    found = trend_of(nights)
    assert found.changes == ()
    (boundary,) = found.boundaries
    assert boundary.sweep_id == nights[10].sweep_id
    assert [(one.scope, one.name, one.a, one.b) for one in boundary.changed] == [
        ("producer", "linger.ms", "5", "0")
    ]
    assert len(boundary.cells) == len(CELLS)
    assert not boundary.machine


def test_figures_of_two_machines_are_not_compared() -> None:
    """A machine twice as fast is no change of Kafka's."""
    rng = random.Random(6)  # noqa: S311 - not used for secrets
    fast = {**MACHINE, "cores": "64"}
    level = shifted(at=15, factor=0.5)
    nights = [
        a_night(number, rng, level=level, machine=MACHINE if number < 15 else fast)
        for number in range(30)
    ]
    found = trend_of(nights)
    assert found.changes == ()
    assert [boundary.machine for boundary in found.boundaries] == [True]


def test_a_cell_that_starts_to_lose_is_a_change_of_loss() -> None:
    """A share is followed like a figure."""
    found = trend_of(
        history(40, seed=7, loss=lambda night, cell: 0.8 if cell == 3 and night >= 25 else 0.0)
    )
    (change,) = found.changes
    assert change.measure is TrendMeasure.LOSS
    assert change.cell == cell_label(CELLS[3])
    assert abs(found.sweeps.index(change.sweep_id) - 25) <= 1
    assert change.worse


def test_histories_without_a_change_show_none_but_for_the_stated_share() -> None:
    """A short form of `tests/perf/false_alarms.py`: 1 in 1,000 sets of 20 would have 3 at 1 %."""
    alarms = [seed for seed in range(20) if trend_of(history(25, seed=1000 + seed)).changes]
    assert len(alarms) <= 2


def test_the_rate_of_false_alarms_of_a_series_is_at_most_the_significance() -> None:
    """Also with outliers: 400 heavy-tailed series, of which 5 % may show a change."""
    rng = random.Random(8)  # noqa: S311 - not used for secrets
    series = [[rng.paretovariate(1.5) for _ in range(25)] for _ in range(400)]
    alarms = sum(bool(find_shifts(values, 0.05)) for values in series)
    assert alarms <= 32  # 1 in 1,000 samples of a rate of 5 % has more


def test_one_outlier_is_no_change_of_level() -> None:
    """A level has at least two values."""
    values = [100.0 + place % 3 for place in range(30)]
    values[15] = 10_000.0
    assert find_shifts(values, 0.001) == ()


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0, 3.0], [5.0] * 50])
def test_a_short_or_constant_series_has_no_change(values: list[float]) -> None:
    """There is nothing to compare."""
    assert find_shifts(values, 0.05) == ()


def test_a_newest_sweep_that_is_worse_than_expected_is_unusual(says: Says) -> None:
    """One night is no change of level yet, but it is said at once."""
    found = trend_of(history(20, seed=9, level=shifted(at=19, factor=1.6)))
    assert found.changes == ()
    assert [unusual.measure for unusual in found.unusual] == list(ACK)
    says(unusual_line(found.unusual[0]))


def test_a_newest_sweep_that_is_better_is_not_unusual() -> None:
    """An alert is about what got worse."""
    assert trend_of(history(20, seed=9, level=shifted(at=19, factor=0.6))).unusual == ()


def test_a_newest_sweep_that_loses_for_the_first_time_is_unusual() -> None:
    """By Fisher's exact test against all trials before."""
    found = trend_of(
        history(20, seed=10, loss=lambda night, cell: 1.0 if cell == 3 and night == 19 else 0.0)
    )
    assert [unusual.measure for unusual in found.unusual] == [TrendMeasure.LOSS]


def test_the_head_states_the_rate_of_false_alarms() -> None:
    """A reader has to know how far a change can be trusted."""
    found = trend_of(history(10, seed=11))
    assert list(trend_head(found))[1].endswith(
        f"of histories without a change, at most {100 * FALSE_ALARMS:.0f} % show one"
    )


def test_a_history_that_is_too_short_says_so() -> None:
    """It is not said to be without a change."""
    found = trend_of(history(3, seed=11))
    assert (found.tests, found.changes) == (0, ())
    assert list(trend_head(found))[1].endswith("to test for a change: 4 are needed")


def test_added_controls_have_no_trend() -> None:
    """They are not what the experiment asks about."""
    nights = history(5, seed=12)
    controls = [
        night.model_copy(
            update={"cells": (*night.cells[:1], night.cells[1].model_copy(update={"added": True}))}
        )
        for night in nights
    ]
    assert [cell.label for cell in trend_of(controls).cells] == [cell_label(CELLS[0])]


def overloaded(night: SweepSummary) -> SweepSummary:
    """Return a night in which the machine was overloaded in a trial of the first cell."""
    first, *others = night.cells
    cells = (first.model_copy(update={"overloaded_trials": 1}), *others)
    return night.model_copy(update={"cells": cells})


def test_times_of_an_overloaded_machine_are_marked() -> None:
    """They say nothing of the settings; a share of trials and a throughput are not times."""
    *before, newest = history(5, seed=13, level=shifted(at=4, factor=2.0))
    first, second, *_ = trend_of([*before, overloaded(newest)]).cells
    newest_texts = {one.measure: point_text(one.measure, one.points[-1]) for one in first.series}
    p99 = next(one for one in first.series if one.measure is TrendMeasure.ACK_P99)

    marked = {measure for measure, text in newest_texts.items() if text.startswith("~")}
    assert marked == {*ACK, TrendMeasure.OUTAGE}
    assert [text.startswith("~") for text in lowest_and_highest(p99)] == [False, True]
    assert not any(point.overloaded for one in second.series for point in one.points)


def test_the_page_says_what_the_mark_of_an_overloaded_machine_means() -> None:
    """Only where there is one."""
    before, newest = history(2, seed=13)
    legend = "the machine was overloaded in a trial of the cell"
    marked = render_trend(trend_of([before, overloaded(newest)]))

    assert legend in marked
    assert 'class="overloaded"' in marked
    assert legend not in render_trend(trend_of([before, newest]))


def test_a_change_to_overloaded_sweeps_says_that_the_machine_was(says: Says) -> None:
    """It may be the only cause."""
    nights = history(45, seed=1, level=shifted(at=30, factor=1.08))
    found = trend_of([*nights[:30], *map(overloaded, nights[30:])])

    assert {change.overloaded_sweeps for change in found.changes} == {15}
    says(change_line(found.changes[0]))


def test_an_unusual_figure_of_an_overloaded_sweep_says_that_the_machine_was(says: Says) -> None:
    """An alert on it is not about Kafka."""
    *before, newest = history(20, seed=9, level=shifted(at=19, factor=1.6))

    says(unusual_line(trend_of([*before, overloaded(newest)]).unusual[0]))
