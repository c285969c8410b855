"""Comparisons of two sweeps, and the gate on them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.sweeps import (
    DUPLICATING,
    LOSING,
    SAFE,
    TRUTHS,
    WITHOUT_FAULT,
    Truth,
    a_cell,
    measured_sweep,
)
from support.golden_files import Says

from ackbench.experiments.messages.errors import NotComparable
from ackbench.experiments.pages.report.comparison_page import render_comparison
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.results.comparing.comparison import ComparedSweep, Comparison, compare
from ackbench.experiments.results.comparing.differences import Difference
from ackbench.experiments.results.comparing.findings import (
    ComparedMeasure,
    LimitExceeded,
    LimitUndecided,
    TooFewCells,
)
from ackbench.experiments.results.comparing.gate import Gate
from ackbench.experiments.results.comparing.sentences import failure_sentence, inspected_sentence
from ackbench.experiments.verdicts.judge import HarnessCheck
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

MANY = 12
FAST = Truth(SAFE.cell, (0,) * MANY, (0,) * MANY, p99_ms=2000, outage_ms=3000)
SLOW = replace(FAST, p99_ms=3000)
LOSES = replace(FAST, lost=(7,) * MANY)


def a_sweep(*truths: Truth, sweep_id: str = "a", seed: int = 42) -> ComparedSweep:
    """Return a measured sweep of these cells."""
    evidence = measured_sweep(truths, sweep_id=sweep_id, seed=seed)
    return ComparedSweep(evidence.plan, evidence.results)


def difference_in(comparison: Comparison, measure: ComparedMeasure, cell: int = 0) -> Difference:
    """Return the difference of one cell in a measure."""
    return comparison.cells[cell].difference_in(measure)


def test_a_sweep_does_not_differ_from_itself() -> None:
    """All differences are 0, all ratios 1, and no verdict or setting differs."""
    six_each = (replace(one, lost=(*one.lost, 0), copies=(*one.copies, 0)) for one in TRUTHS)
    sweep = a_sweep(*six_each)
    comparison = compare(sweep, sweep)
    assert comparison.paired
    assert (comparison.settings, comparison.only_a, comparison.only_b) == ((), (), ())
    for cell in comparison.cells:
        assert cell.verdicts == ()
        assert {found.difference for found in cell.differences} == {0}
        assert {found.ratio for found in cell.differences if not found.measure.is_share} == {1}
        assert {found.measure.is_share for found in cell.differences} == {True, False}
        for found in cell.differences:  # six pairs are too few for a difference of shares
            expected = "unknown" if found.measure.is_share else "same"
            assert found.change == expected


@pytest.mark.parametrize("seed", [42, 43])
def test_swapping_two_sweeps_swaps_the_signs(seed: int) -> None:
    """The figures have the opposite sign and equal p-values, paired and (other seeds) unpaired."""
    a, b = a_sweep(FAST), a_sweep(replace(SLOW, lost=LOSES.lost), sweep_id="b", seed=seed)
    forth, back = compare(a, b), compare(b, a)
    assert forth.paired == back.paired == (seed == 42)
    assert a.plan.sweep_id == forth.a == back.b
    for measure in ComparedMeasure:
        there, here = difference_in(forth, measure), difference_in(back, measure)
        assert here.difference == pytest.approx(-(there.difference or 0))
        assert here.p_value == there.p_value
        if there.ratio is not None:
            assert here.ratio == pytest.approx(1 / there.ratio, rel=0.02)
        assert {there.change, here.change} in ({"same"}, {"worse", "better"})


def test_a_slower_sweep_is_worse_in_latency_and_in_nothing_else() -> None:
    """The latency is 50 % higher in each of twelve pairs."""
    comparison = compare(a_sweep(FAST), a_sweep(SLOW, sweep_id="b"))
    found = difference_in(comparison, ComparedMeasure.LATENCY_P99)
    assert found.ratio == pytest.approx(1.5)
    assert found.p_value == pytest.approx(2 / 2**MANY)
    assert [difference_in(comparison, measure).change for measure in ComparedMeasure] == [
        "same",
        "same",
        "worse",
        "same",
        "same",
    ]


def test_trials_with_other_seeds_are_compared_unpaired() -> None:
    """A remark states it."""
    comparison = compare(a_sweep(FAST), a_sweep(SLOW, sweep_id="b", seed=43))
    assert not comparison.paired
    assert any("seeds differ" in remark for remark in comparison.remarks)
    assert difference_in(comparison, ComparedMeasure.LATENCY_P99).test == "Mann and Whitney's"
    assert difference_in(comparison, ComparedMeasure.LATENCY_P99).change == "worse"


def test_a_trial_that_cannot_tell_a_loss_is_in_no_pair() -> None:
    """Only records of unknown outcome are absent: it has neither lost nor kept records."""
    b = a_sweep(FAST, sweep_id="b")
    first, *others = b.results.trials
    unclear = first.model_copy(update={"lost": (0, 7)})
    results = b.results.model_copy(update={"trials": (unclear, *others)})
    found = difference_in(
        compare(a_sweep(FAST), ComparedSweep(b.plan, results)), ComparedMeasure.LOSS
    )
    assert found.trials == MANY - 1


def test_void_trials_are_in_no_pair() -> None:
    """They show nothing about the fault."""
    b = measured_sweep([SLOW], sweep_id="b", void=("000-000000", "000-000004"))
    assert (
        difference_in(
            compare(a_sweep(FAST), ComparedSweep(b.plan, b.results)), ComparedMeasure.OUTAGE
        ).trials
        == MANY - 2
    )


def test_an_axis_with_one_value_per_sweep_is_compared() -> None:
    """acks=1 is compared with acks=all, and the cells are paired by all other axes."""
    a = a_sweep(
        *(Truth(a_cell(1, partitions=partitions), (5,) * 5, (0,) * 5) for partitions in (1, 6))
    )
    b = a_sweep(
        *(Truth(a_cell("all", partitions=partitions), (0,) * 5, (0,) * 5) for partitions in (1, 6)),
        sweep_id="b",
    )
    comparison = compare(a, b)
    assert [
        ("partitions=1" in cell.a_label, "partitions=1" in cell.b_label)
        for cell in comparison.cells
    ] == [(True, True), (False, False)]
    assert ("producer", "acks", "1", "all") in [
        (change.scope, change.name, change.a, change.b) for change in comparison.settings
    ]
    assert difference_in(comparison, ComparedMeasure.LOSS).difference == -1
    assert [change.guarantee.name for change in comparison.cells[0].verdicts] == [
        "no-acked-loss",
        "order",
    ]


def test_cells_without_a_partner_are_listed() -> None:
    """No cell is dropped silently."""
    comparison = compare(
        a_sweep(SAFE, DUPLICATING), a_sweep(SAFE, LOSING, WITHOUT_FAULT, sweep_id="b")
    )
    assert (len(comparison.cells), len(comparison.only_a), len(comparison.only_b)) == (1, 1, 2)


def without_results(sweep: ComparedSweep) -> ComparedSweep:
    """Return the sweep before it was measured."""
    trials = tuple(trial.model_copy(update={"attempted": None}) for trial in sweep.results.trials)
    return ComparedSweep(sweep.plan, sweep.results.model_copy(update={"trials": trials}))


def with_another_load(sweep: ComparedSweep) -> ComparedSweep:
    """Return the sweep with half the load."""
    specs = tuple(
        spec.model_copy(
            update={"workload": spec.workload.model_copy(update={"rate_records_per_s": 5000.0})}
        )
        for spec in sweep.plan.trials
    )
    return ComparedSweep(sweep.plan.model_copy(update={"trials": specs}), sweep.results)


@pytest.mark.parametrize(
    ("b", "words"),
    [
        (a_sweep(LOSING, WITHOUT_FAULT, sweep_id="b"), "a and b have no cell in common"),
        (
            without_results(a_sweep(FAST, sweep_id="b")),
            "b has no sealed trial that was measured; measure its trials with: ackbench measure b",
        ),
        (
            with_another_load(a_sweep(FAST, sweep_id="b")),
            "different loads: workload.rate_records_per_s is 10000.0 and 5000.0 records/s",
        ),
    ],
)
def test_incomparable_sweeps_are_refused(b: ComparedSweep, words: str) -> None:
    """The figures of one show nothing about the other."""
    with pytest.raises(NotComparable, match=words):
        compare(a_sweep(FAST, DUPLICATING), b)


def test_a_remark_names_a_sweep_whose_controls_failed() -> None:
    """Its figures prove nothing."""
    b = a_sweep(FAST, sweep_id="b")
    dirty = b.results.harness.model_copy(update={"control_clean": False})
    comparison = compare(
        a_sweep(FAST), ComparedSweep(b.plan, b.results.model_copy(update={"harness": dirty}))
    )
    assert any(
        remark.startswith("do not trust b: its controls failed") for remark in comparison.remarks
    )


def test_the_page_shows_every_cell_and_is_deterministic(tmp_path: Path) -> None:
    """Names are escaped."""
    set_matplotlib_cache(Home(tmp_path))
    unescaped = replace(FAST, cell={**FAST.cell, "linger.ms": "<i>5</i>"})
    comparison = compare(
        a_sweep(unescaped, DUPLICATING), a_sweep(unescaped, DUPLICATING, sweep_id="b")
    )
    page = render_comparison(comparison)
    assert page == render_comparison(comparison)
    assert "<i>5" not in page
    assert page.count("<h3>") == len(comparison.cells) == 2


@pytest.mark.parametrize(
    ("expression", "fails"),
    [
        ("worse:latency_p99>20%", True),
        ("worse:latency_p99>60%", False),
        ("worse: latency_p99 > 20%", True),
        ("worse:outage>5%", False),
        ("worse:throughput>0%", False),
        ("worse:loss>0%", False),
        ("violated", False),
    ],
)
def test_the_gate_fails_if_the_whole_interval_is_beyond_the_bound(
    expression: str, fails: bool
) -> None:
    """A latency 50 % higher fails at 20 % and passes at 60 %."""
    a, b = a_sweep(FAST), a_sweep(SLOW, sweep_id="b")
    reasons = Gate.parse([expression], two_sweeps=True).comparison_failures(
        [compare(a, b)], (a.results, b.results)
    )
    assert bool(reasons) is fails


def test_the_gate_fails_on_loss_by_points() -> None:
    """Loss in twelve of twelve trials instead of none is at least 38 points more."""
    a, b = a_sweep(FAST), a_sweep(LOSES, sweep_id="b")
    comparisons = [compare(a, b)]
    reasons = Gate.parse(["worse:loss>30%"], two_sweeps=True).comparison_failures(comparisons, ())
    (reason,) = reasons
    assert isinstance(reason, LimitExceeded)
    assert (reason.difference, reason.worse_by > 0.3) == (1.0, True)
    gate = Gate.parse(["worse:duplicates>30%"], two_sweeps=True)
    assert gate.comparison_failures(comparisons, ()) == []


FEW = replace(FAST, lost=(0,) * 3, copies=(0,) * 3)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("worse:latency_p99>20%", "an interval of a median needs 6 pairs; there are 3"),
        ("worse:loss>60%", "20 trials per cell are needed on each side; the most are 3"),
    ],
)
def test_a_limit_that_no_cell_can_decide_is_an_invalid_request(
    expression: str, reason: str
) -> None:
    """A gate that no result could fail would pass in silence."""
    a, b = a_sweep(FEW), a_sweep(replace(FEW, p99_ms=9000), sweep_id="b")
    gate = Gate.parse([expression], two_sweeps=True)
    with pytest.raises(NotComparable, match=re.escape(reason)):
        gate.comparison_failures([compare(a, b)], ())


def test_a_limit_that_some_cell_can_decide_is_decided_there(says: Says) -> None:
    """The summary counts the cells with enough trials."""
    other = replace(FEW, cell={**FEW.cell, "acks": 0})
    comparison = compare(a_sweep(FAST, other), a_sweep(FAST, other, sweep_id="b"))
    gate = Gate.parse(["worse:latency_p99>20%"], two_sweeps=True)

    assert gate.comparison_failures([comparison], ()) == []
    says(list(map(inspected_sentence, gate.comparison_summary([comparison]))))


def test_cells_of_one_sweep_only_are_counted_and_a_minimum_fails(says: Says) -> None:
    """Without a minimum, a comparison of the one cell in common passes."""
    other = replace(FAST, cell={**FAST.cell, "acks": 0})
    comparison = compare(a_sweep(FAST, other), a_sweep(FAST, sweep_id="b"))
    gates = [Gate.parse([], two_sweeps=True, min_cells=cells) for cells in (1, 2)]

    says(list(map(inspected_sentence, gates[0].comparison_summary([comparison]))))
    assert [gate.comparison_failures([comparison], ()) for gate in gates] == [
        [],
        [TooFewCells(compared=1, required=2)],
    ]


def test_a_share_cannot_be_worse_by_more_than_all_points() -> None:
    """The message has the largest bound."""
    with pytest.raises(InputError, match="allowed: 0 to 95%"):
        Gate.parse(["worse:loss>200%"], two_sweeps=True)


def test_an_undecidable_limit_fails_with_the_expression_unknown() -> None:
    """Three pairs have no interval."""
    a, b = a_sweep(FEW), a_sweep(replace(FEW, p99_ms=9000), sweep_id="b")
    reasons = Gate.parse(["worse:latency_p99>20%", "unknown"], two_sweeps=True).comparison_failures(
        [compare(a, b)], ()
    )
    assert [type(reason) for reason in reasons] == [LimitUndecided]


@pytest.mark.parametrize("failed", [{"control_clean": False}, {"positive_control_lost": False}])
@pytest.mark.parametrize("expression", ["violated", "unknown", "worse:loss>90%"])
def test_a_sweep_whose_controls_failed_passes_no_gate(
    expression: str, failed: dict[str, bool], says: Says
) -> None:
    """It proves nothing about Kafka; without a gate there is nothing to fail."""
    harness = HarnessCheck(**failed, sentences=("the control was not clean",))
    results = a_sweep(FAST).results.model_copy(update={"harness": harness})
    reasons = list(Gate.parse([expression], two_sweeps=True).sweep_failures(results))
    says(failure_sentence(reasons[0]))
    assert list(Gate.parse([]).sweep_failures(results)) == []


def test_the_gate_reports_the_share_of_trials(says: Says) -> None:
    """The sentence has it once."""
    sweep = a_sweep(replace(FAST, lost=(3,) * 5, copies=(0,) * 5))
    reasons = [
        reason
        for reason in map(failure_sentence, Gate.parse(["violated"]).sweep_failures(sweep.results))
        if "no-acked-loss" in reason
    ]
    assert len(reasons) == 1
    says(reasons[0])
    assert reasons[0].count("trials") == 1


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "broken",
        "worse",
        "worse:latency_p50>20%",
        "worse:latency_p99>",
        "worse:latency_p99>20",
        "worse:latency_p99<20%",
    ],
)
def test_an_invalid_gate_expression_is_refused(expression: str) -> None:
    """The message lists what is allowed."""
    with pytest.raises(
        InputError,
        match=r"allowed: violated, unknown, worse:MEASURE>N% .* bound: run --expect lost=0",
    ):
        Gate.parse([expression], two_sweeps=True)
