"""The cells of one sweep side by side: those that differ in one axis alone, trials of one repeat in pairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.sweeps import Truth, a_cell, measured

from experiments.comparing.comparison import ComparedSweep, Comparison, compare
from experiments.comparing.differences import (
    Difference,
    MeasuredValues,
    number_difference,
    share_difference,
)
from experiments.comparing.within import compare_within, of_value, values_of
from experiments.errors import NotComparable, UnknownName
from experiments.ledger.record import Cell, Scalar
from experiments.report.changes import MOST_SHOWN, changes_view, kind_of
from experiments.report.drawing import prepare
from experiments.report.page import render
from experiments.report.side_by_side import both_labels, render_within
from infra.machine.home import Home

MANY = 8


def truth(cell: Cell, *, lost: int = 0, p99_ms: float = 1000.0, trials: int = MANY) -> Truth:
    """Return a cell that loses so many records in each trial."""
    return Truth(cell, (lost,) * trials, (0,) * trials, p99_ms=p99_ms, outage_ms=2000.0)


ACKS = tuple(
    truth(a_cell(acks, partitions=partitions), lost=5 if acks != "all" else 0)
    for acks in ("all", 0, 1)
    for partitions in (1, 6)
)
"""Three levels of acks with one and with six partitions; all but `all` lose in every trial."""


def a_sweep(
    *truths: Truth, added: tuple[int, ...] = (), void: tuple[str, ...] = ()
) -> ComparedSweep:
    """Return a measured sweep of these cells; those whose places are named were added as controls."""
    evidence = measured(truths, sweep_id="a", void=void)
    cells = tuple(
        cell.model_copy(update={"added": place in added})
        for place, cell in enumerate(evidence.results.cells)
    )
    return ComparedSweep(evidence.plan, evidence.results.model_copy(update={"cells": cells}))


def of(comparison: Comparison, measure: MeasuredValues, cell: int = 0) -> Difference:
    """Return what was found of a measure in one pair of cells."""
    return comparison.cells[cell].of(measure)


def test_the_first_value_stands_beside_each_other_one() -> None:
    """Whichever cell ran first: 0 beside 1, 0 beside all, with as many partitions on both sides."""
    within = compare_within(a_sweep(*ACKS), "acks")
    assert within.values == (0, 1, "all")
    assert [(comparison.a, comparison.b) for comparison in within.comparisons] == [
        ("acks=0", "acks=1"),
        ("acks=0", "acks=all"),
    ]
    for comparison in within.comparisons:
        sides = [(cell.a_label, cell.b_label) for cell in comparison.cells]
        assert [("partitions=6" in a, "partitions=6" in b) for a, b in sides] == [
            (False, False),
            (True, True),
        ]
        assert all("acks=0" in a and comparison.b in b for a, b in sides)


def test_trials_of_one_repeat_are_pairs() -> None:
    """They have one seed; eight that lost, and then eight that did not: p = 2 / 2^8, and all that differ go one way."""
    _, against_all = compare_within(a_sweep(*ACKS), "acks").comparisons
    found = of(against_all, MeasuredValues.LOSS)
    assert against_all.paired
    assert (found.trials, found.difference, found.effect, found.test) == (
        MANY,
        -1,
        -1,
        "McNemar's, exact",
    )
    assert found.p_value == pytest.approx(2 / 2**MANY)
    assert [change.guarantee.value for change in against_all.cells[0].verdicts] == [
        "no-acked-loss",
        "order",
    ]


def test_a_sweep_that_was_split_shows_what_two_sweeps_would() -> None:
    """The same cells, cut in two by hand and run under the same seeds."""
    fast, slow = truth(a_cell(1)), truth(a_cell("all"), p99_ms=2000)
    (comparison,) = compare_within(a_sweep(fast, slow), "acks").comparisons
    cut = a_sweep(fast, slow)
    one, other = (
        ComparedSweep(cut.plan, cut.results.model_copy(update={"cells": (cell,)}))
        for cell in cut.results.cells[:2]
    )
    assert comparison.cells == compare(one, other).cells
    assert of(comparison, MeasuredValues.LATENCY_P99).ratio == pytest.approx(2, rel=0.2)
    assert [
        kind_of(of(comparison, measure))
        for measure in (MeasuredValues.LOSS, MeasuredValues.LATENCY_P99)
    ] == ["same", "worse"]


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["all", 1, 0], [0, 1, "all"]),
        ([True, False], [False, True]),
        (["leader-pause", "none", "crash"], ["none", "crash", "leader-pause"]),
        ([10, 9, None], [None, 9, 10]),
        ([True, 1], [True, 1]),
    ],
)
def test_the_values_of_an_axis_have_one_order(given: list[Scalar], ordered: list[Scalar]) -> None:
    """What is not said, numbers by size, words, `none` before the others; 1 and on are two values."""
    cells = a_sweep(*(truth({**a_cell(1), "x": value}, trials=1) for value in given)).results.cells
    assert list(map(repr, values_of(cells, "x"))) == list(map(repr, ordered))
    assert [len(of_value(cells, "x", value)) for value in ordered] == [1] * len(given)


def test_cells_without_an_equal_are_left_out_and_named() -> None:
    """As in a union of cross products: the pause was tried with one partition only; a control that was added is no cell of the axes."""
    crash = [truth(a_cell(1, partitions=partitions)) for partitions in (1, 6)]
    sweep = a_sweep(
        *crash, truth(a_cell(1, fault="leader-pause")), truth(a_cell(1, fault="none")), added=(3,)
    )
    within = compare_within(sweep, "fault")
    assert [
        (comparison.a, comparison.b, len(comparison.cells)) for comparison in within.comparisons
    ] == [("fault=leader-crash-behind", "fault=leader-pause", 1)]
    assert [("partitions=6" in label, "fault=none" in label) for label in within.left_out] == [
        (True, False),
        (False, True),
    ]


def test_a_value_without_any_partner_is_left_out_alone() -> None:
    """The others are compared all the same."""
    sweep = a_sweep(truth(a_cell(0)), truth(a_cell(1)), truth(a_cell("all", idempotence=True)))
    within = compare_within(sweep, "acks")
    assert [comparison.b for comparison in within.comparisons] == ["acks=1"]
    assert len(within.left_out) == 1
    assert "acks=all" in within.left_out[0]


def test_void_trials_are_in_no_pair_within_a_sweep() -> None:
    """They say nothing of the fault."""
    (comparison,) = compare_within(
        a_sweep(truth(a_cell(1)), truth(a_cell("all")), void=("001-000003",)), "acks"
    ).comparisons
    assert of(comparison, MeasuredValues.LOSS).trials == MANY - 1


def test_another_load_within_a_sweep_is_said_to_be_one() -> None:
    """Who asks for it by its name gets it, and is told what the pairs are."""
    (comparison,) = compare_within(
        a_sweep(*(truth({**a_cell(1), "workload.keys": keys}) for keys in (1, 64))), "workload.keys"
    ).comparisons
    assert comparison.remarks == (
        "the load itself differs: trials of one repeat share their seed, but not their schedule",
    )


@pytest.mark.parametrize(
    ("axis", "error", "words"),
    [
        ("ackz", UnknownName, "--by ackz: a has no axis ackz; did you mean acks?"),
        (
            "fault",
            NotComparable,
            "--by fault: a has one value of it only, leader-crash-behind; several values: acks, enable.idempotence, partitions",
        ),
        (
            "enable.idempotence",
            NotComparable,
            "a: no cell with enable.idempotence=off has one with another value beside it that is alike in all other axes",
        ),
    ],
)
def test_an_axis_that_compares_nothing_is_told_in_a_line(
    axis: str, error: type[Exception], words: str
) -> None:
    """With what there is instead."""
    with pytest.raises(error) as told:
        compare_within(a_sweep(*ACKS, truth(a_cell(1, idempotence=True, partitions=12))), axis)
    assert str(told.value) == words


def test_a_sweep_that_was_not_measured_is_not_split() -> None:
    """Nothing is known of it."""
    sweep = a_sweep(*ACKS)
    trials = tuple(trial.model_copy(update={"attempted": None}) for trial in sweep.results.trials)
    with pytest.raises(NotComparable, match="a has no sealed trial that was measured"):
        compare_within(
            ComparedSweep(sweep.plan, sweep.results.model_copy(update={"trials": trials})), "acks"
        )


@pytest.mark.parametrize("paired", [True, False])
def test_the_effect_says_which_way_and_how_much_of_it(paired: bool) -> None:
    """Three of four go up: of the ranks 1 to 4, of which the third goes down, 7 - 3 of 10; of four yeses and noes, all that differ. Swapped, the other sign."""
    a, b = {1: 10.0, 2: 10.0, 3: 10.0, 4: 10.0}, {1: 11.0, 2: 12.0, 3: 7.0, 4: 14.0}
    expected = 0.4 if paired else 0.5
    assert number_difference(MeasuredValues.OUTAGE, a, b, paired=paired).effect == pytest.approx(
        expected
    )
    assert number_difference(MeasuredValues.OUTAGE, b, a, paired=paired).effect == pytest.approx(
        -expected
    )
    assert number_difference(MeasuredValues.OUTAGE, a, a, paired=paired).effect == 0
    no, yes = dict.fromkeys(range(4), False), {0: True, 1: False, 2: True, 3: True}
    assert share_difference(MeasuredValues.LOSS, no, yes, paired=paired).effect == (
        1 if paired else 0.75
    )
    assert share_difference(MeasuredValues.LOSS, yes, no, paired=paired).effect == (
        -1 if paired else -0.75
    )
    assert share_difference(MeasuredValues.LOSS, no, {}, paired=paired).effect is None


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        ("acks=0 RF=3 crash", "acks=1 RF=3 crash", "acks=0|1 RF=3 crash"),
        ("acks=0 crash", "acks=0 pause", "acks=0 crash|pause"),
        ("acks=0", "acks=0", "acks=0"),
        ("acks=0 crash", "acks=0 crash linger.ms=5", "acks=0 crash | acks=0 crash linger.ms=5"),
    ],
)
def test_two_labels_are_told_as_one(a: str, b: str, told: str) -> None:
    """What both say is said once."""
    assert both_labels(a, b) == told


def test_the_page_of_a_split_sweep_holds_every_pair_and_is_the_same_each_time(
    tmp_path: Path,
) -> None:
    """No id stands twice, though each comparison has its charts."""
    prepare(Home(tmp_path))
    within = compare_within(a_sweep(*ACKS), "acks")
    page = render_within(within)
    assert page == render_within(within)
    assert (
        page.count("<h3>") == sum(len(comparison.cells) for comparison in within.comparisons) == 4
    )
    ids = Counter(part.split('"')[0] for part in page.split(' id="')[1:])
    assert not [name for name, times in ids.items() if times > 1]


def test_what_each_setting_changes_is_told_for_every_pair_of_values() -> None:
    """Three pairs of values of acks with each number of partitions, and one of the partitions with each acks; those stand first whose shares moved most."""
    view = changes_view(measured(ACKS))
    acks, partitions = view.axes
    rows = [*acks.shown, *acks.folded]
    assert (acks.axis, len(acks.shown), len(rows)) == ("acks", MOST_SHOWN, 6)
    moved = [
        ("0 \N{RIGHTWARDS ARROW} all", "P=1"),
        ("1 \N{RIGHTWARDS ARROW} all", "P=1"),
        ("0 \N{RIGHTWARDS ARROW} all", "P=6"),
    ]
    assert [(row.values, row.name) for row in rows[:3]] == moved
    assert {(row.values, row.name) for row in acks.folded} == {
        ("0 \N{RIGHTWARDS ARROW} 1", "P=1"),
        ("0 \N{RIGHTWARDS ARROW} 1", "P=6"),
    }
    assert (rows[0].changes[0].told, rows[0].changes[0].detail) == ("8 of 8 → 0 of 8", "p = 0.0078")
    assert (partitions.axis, [row.values for row in partitions.shown], partitions.folded) == (
        "P",
        ["1 → 6"] * 3,
        (),
    )


def test_a_slower_setting_is_marked_with_its_interval() -> None:
    """Three times the p99; nobody lost on either side."""
    view = changes_view(measured([truth(a_cell(1)), truth(a_cell("all"), p99_ms=3000)]))
    changes = {change.head: change for change in view.axes[0].shown[0].changes}
    assert (changes["trials with loss"].kind, changes["trials with loss"].told) == (
        "same",
        "0 of 8 \N{RIGHTWARDS ARROW} 0 of 8",
    )
    assert changes["ack p99"].kind == "worse"
    assert float(changes["ack p99"].told.removeprefix("\N{MULTIPLICATION SIGN} ")) == pytest.approx(
        3, rel=0.2
    )
    low, high = changes["ack p99"].detail.removesuffix(", p = 0.0078").split(" to ")
    assert 2.4 < float(low) < float(high) < 3.7


@pytest.mark.parametrize(
    ("trials", "few"),
    [
        (2, "p-value needs 6, an interval 5."),
        (5, "more than 5 pairs of trials, and a p-value needs 6."),
        (6, ""),
    ],
)
def test_too_few_pairs_of_trials_are_said_to_be(trials: int, few: str) -> None:
    """With how many it takes."""
    notes = changes_view(
        measured([truth(a_cell(1), trials=trials), truth(a_cell("all"), trials=trials)])
    ).notes
    assert any(note.startswith("Too few to tell") for note in notes) is bool(few)
    assert few in " ".join(notes)


def test_cells_of_which_nothing_is_known_change_nothing() -> None:
    """All void on one side: left out, and counted."""
    view = changes_view(
        measured(
            [truth(a_cell(1)), truth(a_cell("all"))],
            void=[f"001-{repeat:06d}" for repeat in range(MANY)],
        )
    )
    assert view.axes == ()
    assert view.notes == (
        "1 pair of cells without two trials of one repeat that were measured: left out, as nothing is known of them.",
    )


def test_the_sweeps_page_holds_what_each_setting_changes(tmp_path: Path) -> None:
    """Four pairs of an axis stand open, the others are folded away; a sweep of one cell has none."""
    prepare(Home(tmp_path))
    few = [replace(cell, lost=cell.lost[:2], copies=cell.copies[:2]) for cell in ACKS]
    page = render(measured(few))
    section = page[
        page.index('<section id="changes">') : page.index(
            "</section>", page.index('<section id="changes">')
        )
    ]
    assert "2 more pairs of cells that differ in acks" in section
    assert section.count('<th scope="row">') == 9
    assert "Not known: no two cells that were measured differ in one setting alone." in render(
        measured(few[:1])
    )
