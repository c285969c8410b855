"""The runs of trials, cells and sweeps as plain values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.sweeps import LOSING, SAFE, Truth, a_cell, measured_sweep

from ackbench.experiments.orchestration.tracking.cell_runs import cell_runs, verdict_in_words
from ackbench.experiments.orchestration.tracking.runs import (
    MOST_POINTS,
    RunContent,
    timeline_series,
    trial_run,
)
from ackbench.experiments.results.rows import Row
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.order import ORDER
from ackbench.experiments.verdicts.guarantees.read_loss import NO_READ_LOSS
from ackbench.experiments.verdicts.judge import Judgement, Verdict
from ackbench.experiments.verdicts.statistics import share


def runs_of_cells(*truths: Truth) -> list[RunContent]:
    """Return the runs of a sweep's cells."""
    data = measured_sweep(truths)
    return list(cell_runs(data.results, data.axes))


def test_the_name_of_a_run_has_what_the_cells_differ_in() -> None:
    """Settings that all of them share would only make it longer."""
    data = measured_sweep((LOSING, SAFE))
    spec = data.plan.trials[1]
    trial = next(one for one in data.results.trials if one.trial_id == spec.trial_id)

    assert [run.name for run in cell_runs(data.results, data.axes)] == [
        "acks=1 idem=off",
        "acks=all idem=on",
    ]
    assert trial_run(trial, spec, None, data.axes).name == "acks=1 idem=off #2"


def test_a_cell_has_the_sums_of_its_trials_and_the_shares_with_their_interval() -> None:
    """Four of five trials lost records."""
    (run,) = runs_of_cells(LOSING)
    shares = {"loss": share(4, 5), "duplication": share(1, 5), "reordering": share(0, 5)}

    assert run.metrics["lost_high"] == sum(LOSING.lost)
    assert next(iter(run.metrics)) == "lost_low"  # with which MLflow's comparison opens
    assert run.metrics["sealed_trials"] == 5
    for name, expected in shares.items():
        assert run.metrics[f"{name}_share"] == expected.seen / 5
        assert run.metrics[f"{name}_share_low"] == expected.interval.low
        assert run.metrics[f"{name}_share_high"] == expected.interval.high


def slots(acked: dict[int, int]) -> list[Row]:
    """Return rows of the table `timeline`."""
    return [
        {"slot": slot, "sent_records": 9, "acked_records": records, "read_records": 2 * records}
        for slot, records in acked.items()
    ]


def test_an_outage_is_a_row_of_zeros_in_the_series_of_a_trial() -> None:
    """Steps are milliseconds of the load, and values records per second."""
    series = timeline_series(slots({-1: 5, 0: 30, 3: 7}), begin_ms=1_000)

    assert series["timeline_acked_records_per_s"] == (
        (-100, 900, 50.0),
        (0, 1_000, 300.0),
        (100, 1_100, 0.0),
        (200, 1_200, 0.0),
        (300, 1_300, 70.0),
    )
    assert [point.value for point in series["timeline_read_records_per_s"]][:2] == [100, 600]


@given(
    st.dictionaries(st.integers(-50, 5_000), st.integers(0, 10**6), min_size=1),
    st.integers(0, 2**41),
)
def test_a_series_has_few_points_and_all_records(acked: dict[int, int], begin_ms: int) -> None:
    """A point of a long trial is the mean of several slots, the last one of what is left."""
    points = timeline_series(slots(acked), begin_ms)["timeline_acked_records_per_s"]
    end = 100 * (max(acked) + 1)
    ends = [*(point.step for point in points[1:]), end]
    shown = [(end - one.step) * one.value / 1000 for one, end in zip(points, ends, strict=True)]

    assert len(points) <= MOST_POINTS
    assert points[0].step == 100 * min(acked)
    assert all(one.at_ms - one.step == begin_ms for one in points)
    assert sum(shown) == pytest.approx(sum(acked.values()))


def test_a_trial_that_was_not_measured_has_no_series() -> None:
    """No zeros that look like an outage."""
    assert timeline_series([], begin_ms=0) == {}


def judged(verdict: Verdict, guarantee: Guarantee, *, seen: bool | None = False) -> Judgement:
    """Return a judgement."""
    return Judgement(
        guarantee=guarantee, verdict=verdict, violation_seen=seen, share=None, mechanism="rule"
    )


HELD = judged(Verdict.HELD, ORDER)
UNSEEN = judged(Verdict.NOT_GUARANTEED, NO_DUPLICATES)
SEEN = judged(Verdict.NOT_GUARANTEED, NO_ACKED_LOSS, seen=True)
UNKNOWN = judged(Verdict.UNKNOWN, NO_READ_LOSS, seen=None)
VIOLATED = judged(Verdict.VIOLATED, AVAILABILITY, seen=True)


@pytest.mark.parametrize(
    ("judgements", "words"),
    [
        ([HELD, UNSEEN, SEEN, UNKNOWN, VIOLATED], "VIOLATED: availability"),
        ([HELD, UNSEEN, SEEN, UNKNOWN], "not guaranteed, observed: no acked loss"),
        ([HELD, UNSEEN, UNKNOWN], "unknown: no read loss"),
        ([HELD, UNSEEN], "held: order"),
        ([HELD], "held"),
        ([UNSEEN], "nothing is guaranteed, and nothing was observed"),
        ([], ""),
    ],
    ids=["violated", "observed", "unknown", "held in part", "held", "nothing", "not judged"],
)
def test_the_verdict_of_a_cell_names_the_worst_first(
    judgements: list[Judgement], words: str
) -> None:
    """A guarantee that is not given and was not seen broken did not hold."""
    assert verdict_in_words(judgements) == words


def test_cells_have_keys_of_their_own() -> None:
    """A run is found again by its key when the sweep is tracked again."""
    runs = runs_of_cells(*(Truth(a_cell(1, partitions=n), (0,), (0,)) for n in (1, 3, 6)))

    assert len({run.key for run in runs}) == 3
