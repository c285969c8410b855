"""Comparisons of the cells of one sweep that differ in one axis alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.sweeps import Truth, a_cell, measured_sweep
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.errors import NotComparable, UnknownName
from ackbench.experiments.pages.report.changes import MAX_SHOWN, changes_view
from ackbench.experiments.pages.report.comparison_page import render_comparison
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.results.comparing.cell_texts import merge_labels
from ackbench.experiments.results.comparing.comparison import ComparedSweep, Comparison, compare
from ackbench.experiments.results.comparing.differences import (
    Difference,
    number_difference,
    share_difference,
)
from ackbench.experiments.results.comparing.findings import ComparedMeasure
from ackbench.experiments.results.comparing.within import (
    axis_values,
    cells_with_value,
    compare_within,
)
from ackbench.infra.machine.home import Home

MANY = 8


def truth(cell: Cell, *, lost: int = 0, p99_ms: float = 1000.0, trials: int = MANY) -> Truth:
    """Return a cell that loses this many records in each trial."""
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
    """Return a measured sweep of these cells; `added` are the indices of added controls."""
    evidence = measured_sweep(truths, sweep_id="a", void=void)
    cells = tuple(
        cell.model_copy(update={"added": index in added})
        for index, cell in enumerate(evidence.results.cells)
    )
    return ComparedSweep(evidence.plan, evidence.results.model_copy(update={"cells": cells}))


def difference_in(comparison: Comparison, measure: ComparedMeasure, cell: int = 0) -> Difference:
    """Return the difference of one pair of cells in a measure."""
    return comparison.cells[cell].difference_in(measure)


def test_the_first_value_is_compared_with_each_other_value() -> None:
    """0 with 1 and 0 with all, at equal partitions, whichever cell ran first."""
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


def test_trials_of_the_same_repeat_are_pairs() -> None:
    """They have the same seed. Eight pairs differ in the same direction: p = 2 / 2^8."""
    _, against_all = compare_within(a_sweep(*ACKS), "acks").comparisons
    found = difference_in(against_all, ComparedMeasure.LOSS)
    assert against_all.paired
    assert (found.trials, found.difference, found.effect, found.test) == (
        MANY,
        -1,
        -1,
        "McNemar's, exact",
    )
    assert found.p_value == pytest.approx(2 / 2**MANY)
    assert [change.guarantee.name for change in against_all.cells[0].verdicts] == [
        "no-acked-loss",
        "order",
    ]


def test_a_split_sweep_shows_the_same_as_two_sweeps() -> None:
    """The two sweeps have the same cells and seeds."""
    fast, slow = truth(a_cell(1)), truth(a_cell("all"), p99_ms=2000)
    (comparison,) = compare_within(a_sweep(fast, slow), "acks").comparisons
    whole = a_sweep(fast, slow)
    one, other = (
        ComparedSweep(whole.plan, whole.results.model_copy(update={"cells": (cell,)}))
        for cell in whole.results.cells[:2]
    )
    assert comparison.cells == compare(one, other).cells
    assert difference_in(comparison, ComparedMeasure.LATENCY_P99).ratio == pytest.approx(2, rel=0.2)
    assert [
        difference_in(comparison, measure).change
        for measure in (ComparedMeasure.LOSS, ComparedMeasure.LATENCY_P99)
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
    """The missing value, numbers by size, `none`, other words; 1 and on are different values."""
    cells = a_sweep(*(truth({**a_cell(1), "x": value}, trials=1) for value in given)).results.cells
    assert list(map(repr, axis_values(cells, "x"))) == list(map(repr, ordered))
    assert [len(cells_with_value(cells, "x", value)) for value in ordered] == [1] * len(given)


def test_cells_without_a_partner_are_listed_as_left_out() -> None:
    """The pause ran with one partition only, and an added control is no cell of the axes."""
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


def test_only_the_value_without_a_partner_is_left_out() -> None:
    """The other values are compared."""
    sweep = a_sweep(truth(a_cell(0)), truth(a_cell(1)), truth(a_cell("all", idempotence=True)))
    within = compare_within(sweep, "acks")
    assert [comparison.b for comparison in within.comparisons] == ["acks=1"]
    assert len(within.left_out) == 1
    assert "acks=all" in within.left_out[0]


def test_void_trials_are_in_no_pair_within_a_sweep() -> None:
    """They show nothing about the fault."""
    (comparison,) = compare_within(
        a_sweep(truth(a_cell(1)), truth(a_cell("all")), void=("001-000003",)), "acks"
    ).comparisons
    assert difference_in(comparison, ComparedMeasure.LOSS).trials == MANY - 1


def test_a_remark_states_that_loads_differ(says: Says) -> None:
    """An axis of the workload can be compared, but its pairs differ in schedule."""
    (comparison,) = compare_within(
        a_sweep(*(truth({**a_cell(1), "keys.count": keys}) for keys in (1, 64))), "keys.count"
    ).comparisons
    says(comparison.remarks)


@pytest.mark.parametrize(
    ("axis", "error", "words"),
    [
        ("ackz", UnknownName, "--by ackz: a has no axis ackz; did you mean acks?"),
        (
            "fault",
            NotComparable,
            (
                "--by fault: a has only one value of it, leader-crash-behind; "
                "axes with several values: acks, enable.idempotence, partitions"
            ),
        ),
        (
            "enable.idempotence",
            NotComparable,
            (
                "a: no cell with enable.idempotence=off has a partner with another value that "
                "is equal in all other axes"
            ),
        ),
    ],
)
def test_an_axis_without_pairs_is_refused(axis: str, error: type[Exception], words: str) -> None:
    """The message has the alternatives."""
    with pytest.raises(error) as raised:
        compare_within(a_sweep(*ACKS, truth(a_cell(1, idempotence=True, partitions=12))), axis)
    assert str(raised.value) == words


def test_an_unmeasured_sweep_is_not_split() -> None:
    """It has no figures."""
    sweep = a_sweep(*ACKS)
    trials = tuple(trial.model_copy(update={"attempted": None}) for trial in sweep.results.trials)
    with pytest.raises(NotComparable, match="a has no sealed trial that was measured"):
        compare_within(
            ComparedSweep(sweep.plan, sweep.results.model_copy(update={"trials": trials})), "acks"
        )


@pytest.mark.parametrize("paired", [True, False])
def test_the_effect_has_direction_and_size(paired: bool) -> None:
    """Swapping the sides swaps its sign.

    Five of six numbers rise. Of the ranks 1 to 6 the third falls: (18 - 3) / 21. Of the shares all
    that differ rise.
    """
    a = dict.fromkeys(range(6), 10.0)
    b = dict(enumerate((11.0, 12.0, 7.0, 14.0, 15.0, 16.0)))
    expected = 15 / 21 if paired else 4 / 6
    assert number_difference(ComparedMeasure.OUTAGE, a, b, paired=paired).effect == pytest.approx(
        expected
    )
    assert number_difference(ComparedMeasure.OUTAGE, b, a, paired=paired).effect == pytest.approx(
        -expected
    )
    assert number_difference(ComparedMeasure.OUTAGE, a, a, paired=paired).effect == 0
    no, yes = dict.fromkeys(range(8), False), {n: n > 1 for n in range(8)}
    assert share_difference(ComparedMeasure.LOSS, no, yes, paired=paired).effect == (
        1 if paired else 0.75
    )
    assert share_difference(ComparedMeasure.LOSS, yes, no, paired=paired).effect == (
        -1 if paired else -0.75
    )
    assert share_difference(ComparedMeasure.LOSS, no, {}, paired=paired).effect is None


@pytest.mark.parametrize(
    ("a", "b", "label"),
    [
        ("acks=0 RF=3 crash", "acks=1 RF=3 crash", "acks=0|1 RF=3 crash"),
        ("acks=0 crash", "acks=0 pause", "acks=0 crash|pause"),
        ("acks=0", "acks=0", "acks=0"),
        ("acks=0 crash", "acks=0 crash linger.ms=5", "acks=0 crash | acks=0 crash linger.ms=5"),
    ],
)
def test_two_labels_become_one(a: str, b: str, label: str) -> None:
    """Their common parts appear once."""
    assert merge_labels(a, b) == label


@pytest.mark.further
def test_the_page_of_a_split_sweep_shows_every_pair_and_is_deterministic(tmp_path: Path) -> None:
    """Element ids are unique, although each comparison has the same charts."""
    set_matplotlib_cache(Home(tmp_path))
    within = compare_within(a_sweep(*ACKS), "acks")
    page = render_comparison(within)
    assert page == render_comparison(within)
    assert (
        page.count("<h3>") == sum(len(comparison.cells) for comparison in within.comparisons) == 4
    )
    ids = Counter(part.split('"')[0] for part in page.split(' id="')[1:])
    assert not [name for name, times in ids.items() if times > 1]


def test_changes_are_shown_for_every_pair_of_values() -> None:
    """Pairs whose shares differ most come first.

    There are three pairs of values of acks per number of partitions, and one pair of partitions per
    value of acks.
    """
    view = changes_view(measured_sweep(ACKS))
    acks, partitions = view.axes
    rows = [*acks.shown, *acks.folded]
    assert (acks.axis, len(acks.shown), len(rows)) == ("acks", MAX_SHOWN, 6)
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
    assert (rows[0].changes[0].text, rows[0].changes[0].detail) == ("8 of 8 → 0 of 8", "p = 0.0078")
    assert (partitions.axis, [row.values for row in partitions.shown], partitions.folded) == (
        "P",
        ["1 → 6"] * 3,
        (),
    )


def test_a_slower_setting_is_marked_with_its_interval() -> None:
    """The p99 triples, and no trial lost a record."""
    view = changes_view(measured_sweep([truth(a_cell(1)), truth(a_cell("all"), p99_ms=3000)]))
    changes = {change.measure: change for change in view.axes[0].shown[0].changes}
    assert (changes["trials with loss"].kind, changes["trials with loss"].text) == (
        "same",
        "0 of 8 \N{RIGHTWARDS ARROW} 0 of 8",
    )
    assert changes["ack p99"].kind == "worse"
    assert float(changes["ack p99"].text.removeprefix("\N{MULTIPLICATION SIGN} ")) == pytest.approx(
        3, rel=0.2
    )
    low, high = changes["ack p99"].detail.removesuffix(", p = 0.0078").split(" to ")
    assert 2.4 < float(low) < float(high) < 3.7


@pytest.mark.parametrize(
    ("trials", "few"),
    [(5, "more than 5 pairs of trials, and p-values and intervals need 6."), (6, "")],
)
def test_a_note_states_that_pairs_are_too_few(trials: int, few: str) -> None:
    """It has the required number."""
    notes = changes_view(
        measured_sweep([truth(a_cell(1), trials=trials), truth(a_cell("all"), trials=trials)])
    ).notes
    assert any(note.startswith("Too few trials") for note in notes) is bool(few)
    assert few in " ".join(notes)


def test_pairs_without_known_values_are_left_out(says: Says) -> None:
    """All trials of one side are void; a note counts the pair."""
    view = changes_view(
        measured_sweep(
            [truth(a_cell(1)), truth(a_cell("all"))],
            void=[f"001-{repeat:06d}" for repeat in range(MANY)],
        )
    )
    assert view.axes == ()
    says(view.notes)


def test_the_page_of_a_sweep_shows_the_changes_by_setting(tmp_path: Path) -> None:
    """It shows four pairs per axis and folds the others; a sweep of one cell has none."""
    set_matplotlib_cache(Home(tmp_path))
    few = [replace(cell, lost=cell.lost[:2], copies=cell.copies[:2]) for cell in ACKS]
    page = render_page(measured_sweep(few))
    section = page[
        page.index('<section id="changes">') : page.index(
            "</section>", page.index('<section id="changes">')
        )
    ]
    assert "2 more pairs of cells that differ in acks" in section
    assert section.count('<th scope="row">') == 9
    assert "Unknown: no two measured cells differ in one setting only." in render_page(
        measured_sweep(few[:1])
    )
