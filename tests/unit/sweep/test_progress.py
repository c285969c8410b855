"""How far a sweep is, from its folder, and the bar and the table that show it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.builders.records import a_record, a_spec, no_rows

from experiments.commands.progress_bar import render_progress
from experiments.ledger.record import Cell, Status
from experiments.ledger.seal import seal
from experiments.results.models import (
    CellResult,
    FaultResult,
    LatencySpreads,
    MedianAndMax,
    QuantileSpreads,
    SweepResults,
    TrialResult,
)
from experiments.results.tables import cell_status, console_for_results, print_cells, refusal_lines
from experiments.results.wording import LEGEND, result_notes, short_share_text, verdict_mark
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan
from experiments.sweep.progress import (
    TAIL_S,
    TRIAL_S,
    Progress,
    ProgressReader,
    format_duration,
    format_duration_with_units,
    seconds_left,
)
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.judge import HarnessCheck, Judgement, NamedRecord, Verdict
from experiments.verdicts.statistics import share

LABEL = "acks=all idem=off RF=3 P=6 leader-crash-behind"
REFUSAL = "`acks` must be set to `all` when `enable.idempotence` is true"


def a_sweep(folder: Path, trials: int = 3) -> tuple[SweepFolder, Plan]:
    """Return a planned sweep."""
    sweep = SweepFolder(folder / "s")
    specs = tuple(
        a_spec(trial_id=f"{n:03d}-abcdef", order=n, label=f"cell {n}") for n in range(trials)
    )
    plan = Plan(
        sweep_id="s", experiment="e", question="q", seed=1, repeats=1, trials=specs, refused=()
    )
    sweep.write_plan(plan)
    return sweep, plan


def a_cell(acks: int | str, fault: str = "none", **changes: Any) -> CellResult:
    """Return a cell with one sealed trial."""
    cell: Cell = {
        "acks": acks,
        "enable.idempotence": False,
        "replication.factor": 3,
        "partitions": 1,
        "fault": fault,
    }
    latency = LatencySpreads(ack=QuantileSpreads(p99=MedianAndMax(median=1234.5, max=2000)))
    row = CellResult(
        cell=cell,
        label="c",
        planned_trials=1,
        sealed_trials=1,
        lost=(3918, 4101),
        duplicates=7,
        latency_ms=latency,
    )
    return row.model_copy(update=changes)


def a_judgement(verdict: Verdict, seen: bool | None, **changes: Any) -> Judgement:
    """Return a judgement on the order, with some fields changed."""
    return Judgement(
        guarantee=Guarantee.ORDER,
        verdict=verdict,
        seen=seen,
        share=None,
        reasons=("by design", "nobody looked"),
    ).model_copy(update=changes)


def a_result(
    cells: Sequence[CellResult],
    trials: tuple[TrialResult, ...] = (),
    harness: HarnessCheck | None = None,
) -> SweepResults:
    """Return a sweep's results."""
    told = harness or HarnessCheck()
    return SweepResults(
        sweep_id="s",
        experiment="e",
        question="q",
        seed=1,
        trials=trials,
        cells=tuple(cells),
        pending=(),
        unmeasured=(),
        harness=told,
    )


def printed(rows: list[CellResult], width: int = 100) -> str:
    """Return the table as text."""
    out = StringIO()
    print_cells(Console(file=out, width=width, color_system=None), rows)
    return out.getvalue()


def test_progress_counts_what_is_whole_and_what_failed(tmp_path: Path) -> None:
    """An unfinished trial is not counted; the one under way is named, with what it is doing."""
    sweep, plan = a_sweep(tmp_path)
    sweep.partial("000-abcdef").mkdir()
    seal(sweep.partial("000-abcdef"), sweep.trial("000-abcdef"), a_record(), no_rows())
    watcher = ProgressReader(sweep, plan)
    sweep.failed("001-abcdef").mkdir()
    sweep.partial("002-abcdef").mkdir()
    sweep.say("trial", "waiting for the full ISR", "002-abcdef")
    seen = watcher.look()

    assert (seen.done, seen.failed, seen.total, seen.trial, seen.what) == (
        2,
        1,
        3,
        "cell 2",
        "waiting for the full ISR",
    )


def test_a_trial_that_failed_before_is_still_to_do(tmp_path: Path) -> None:
    """A sweep that is gone on with runs it again; when it fails again, it has ended."""
    sweep, plan = a_sweep(tmp_path)
    failed = sweep.failed("001-abcdef")
    failed.mkdir()
    watcher = ProgressReader(sweep, plan)
    before = watcher.look()
    os.utime(failed)
    after = watcher.look()

    assert (before.done, before.failed, after.done, after.failed) == (0, 0, 1, 1)


def test_before_anything_was_said_airflow_is_starting(tmp_path: Path) -> None:
    """A sweep that was only planned has done nothing."""
    seen = ProgressReader(*a_sweep(tmp_path)).look()

    assert (seen.done, seen.trial, seen.what) == (0, None, "starting Airflow")


def test_the_time_left_is_planned_first_and_measured_later() -> None:
    """Before the first trial ended, loads and a usual overhead; afterwards what the trials really took."""
    waiting = [a_spec(), a_spec()]
    planned_s = 2 * (1 + TRIAL_S)

    assert seconds_left(waiting, finished=0, spent_s=0) == planned_s + TAIL_S
    assert seconds_left(waiting, finished=4, spent_s=90) == 2 * 20 + TAIL_S


def test_the_time_left_does_not_run_below_the_trials_that_wait() -> None:
    """A first trial that takes for ever does not use up the others' time."""
    assert seconds_left([a_spec(), a_spec()], finished=0, spent_s=1000) == 1 + TRIAL_S + TAIL_S


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (65.4, "1:05"), (3661, "1:01:01")])
def test_durations_are_clocks(seconds: float, text: str) -> None:
    """Minutes and seconds, hours where there are any."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(65.4, "1:05 (minutes:seconds)"), (3661, "1:01:01 (hours:minutes:seconds)")],
)
def test_a_duration_that_stands_alone_says_what_its_numbers_are(seconds: float, text: str) -> None:
    """A tour of an hour said "1:01:01 (minutes:seconds)"."""
    assert format_duration_with_units(seconds) == text


@pytest.mark.parametrize("width", [100, 70, 40])
def test_the_bar_is_two_lines_of_the_terminals_width(width: int) -> None:
    """A label too long for the terminal is cut, never wrapped."""
    out = StringIO()
    Console(file=out, width=width).print(
        render_progress(Progress(7, 1, 20, LABEL, "waiting for the last acknowledgements", 130))
    )
    lines = out.getvalue().splitlines()

    assert len(lines) == 2
    assert max(map(len, lines)) <= width
    assert "7/20 trials, 1 failed" in lines[0]
    assert "2:10 left" in lines[0]


def test_the_table_has_a_row_a_cell_and_a_block_a_fault() -> None:
    """In the order that the results have them in."""
    text = printed([a_cell(0), a_cell(1), a_cell("all"), a_cell("all", "leader-pause")])
    rows = [
        line.split()[0] for line in text.splitlines() if line.startswith(("0", "1", "all", "fault"))
    ]

    assert rows == ["fault:", "0", "1", "all", "fault:", "all"]
    assert "3,918..4,101" in text
    assert "1,234" in text


def test_what_was_not_measured_is_no_zero() -> None:
    """A void cell has no figures, and says that it is void."""
    void = a_cell(
        1, sealed_trials=0, void_trials=1, lost=None, duplicates=None, latency_ms=LatencySpreads()
    )
    line = next(line for line in printed([void]).splitlines() if line.startswith("1"))

    assert line.split() == ["1", "off", "3", "1", "-", "-", "-", "-", "-", "1", "void"]


def test_refused_cells_stand_below_the_table_once_a_reason() -> None:
    """They are counted and never dropped."""
    rows = [a_cell(acks, sealed_trials=0, planned_trials=0, refused=REFUSAL) for acks in (0, 1)]

    assert refusal_lines(rows) == (f"refused: 2 cells (acks=0/1, idem=off): {REFUSAL}",)
    assert REFUSAL in printed(rows)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "sealed"),
        ({"planned_trials": 3}, "2 not run"),
        ({"planned_trials": 3, "void_trials": 1, "failed_trials": 1}, "1 void, 1 failed"),
    ],
)
def test_a_cells_status_says_what_is_not_sealed(changes: dict[str, Any], text: str) -> None:
    """Void, failed and missing trials are counted apart."""
    assert cell_status(a_cell(1, **changes)) == text


def test_an_axis_beyond_the_usual_has_a_column_where_it_differs() -> None:
    """One that is the same everywhere says nothing, and has none."""
    rows = [a_cell(1), a_cell(1)]
    for row, linger in zip(rows, (0, 50), strict=True):
        row.cell.update({"linger.ms": linger, "socket.timeout.ms": 1000})
    text = printed(rows)

    assert "linger.ms" in text
    assert "socket" not in text


def test_a_share_stands_with_its_bounds() -> None:
    """Both where it lies between, one where nothing or everything was seen; rounded outwards."""
    shares = [share(3, 5), share(0, 5), share(5, 5), share(0, 100), None]

    assert [short_share_text(given, "-") for given in shares] == [
        "3 of 5 (14-95 %)",
        "0 of 5 (<46 %)",
        "5 of 5 (>54 %)",
        "0 of 100 (<3 %)",
        "-",
    ]


@pytest.mark.parametrize(
    ("verdict", "seen", "sign"),
    [
        (Verdict.HELD, False, "✓"),
        (Verdict.VIOLATED, True, "✗"),
        (Verdict.UNKNOWN, False, "?"),
        (Verdict.NOT_GUARANTEED, True, "!"),
        (Verdict.NOT_GUARANTEED, False, "·"),
        (Verdict.NOT_GUARANTEED, None, "-"),
    ],
)
def test_each_verdict_has_a_sign_that_the_legend_explains(
    verdict: Verdict, seen: bool | None, sign: str
) -> None:
    """No two share one, and none is told by its colour alone."""
    row = a_cell(1, judgements=(a_judgement(verdict, seen),))

    assert verdict_mark(row, Guarantee.ORDER) == sign
    assert f" {sign} " in LEGEND
    assert f"{sign:^3}" in printed([row])


def test_a_violation_is_named_with_its_trials_and_records_below_the_table() -> None:
    """What is not known has its reason, once for all cells that share it."""
    records = tuple(NamedRecord(trial_id="000-a", producer=0, seq=seq) for seq in (3, 7))
    found = {"share": share(1, 4), "trials": ("000-a",), "records": records, "records_total": 2100}
    cells = [
        a_cell(1, judgements=(a_judgement(Verdict.VIOLATED, True, **found),)),
        *(a_cell(acks, judgements=(a_judgement(Verdict.UNKNOWN, None),)) for acks in (0, "all")),
    ]
    told = [line.text for line in result_notes(a_result(cells))]

    assert (
        told[0]
        == "VIOLATED order: c: in 1 of 4 trials (000-a), 2,100 records: 0/3 of 000-a, 0/7 of 000-a, ..."
    )
    assert told[1] == "not known, order: 2 cells (c; c): nobody looked"
    assert [line.violated for line in result_notes(a_result(cells))][:2] == [True, False]


def test_added_controls_are_no_rows_of_the_table_and_their_axes_no_columns() -> None:
    """What they showed is said below it."""
    control = a_cell("all", "leader-crash-behind", added=True)
    control.cell["linger.ms"] = 7
    rows = [a_cell(1), control]
    rows[0].cell["linger.ms"] = 5
    text = printed(rows)

    assert "leader-crash-behind" not in text
    assert "linger" not in text
    assert [
        line.text
        for line in result_notes(a_result(rows, harness=HarnessCheck(sentences=("it was clean",))))
    ] == ["it was clean"]


@pytest.mark.parametrize("failed", [{"control_clean": False}, {"positive_control_lost": False}])
def test_controls_that_fail_are_as_loud_as_a_violation(failed: dict[str, bool]) -> None:
    """Nothing else in the sweep can be believed then, whichever of the two it was."""
    harness = HarnessCheck(**failed, sentences=("it lost, or it did not",))

    assert [line.violated for line in result_notes(a_result([a_cell(1)], harness=harness))] == [
        True
    ]


def test_too_few_trials_are_told_how_many_would_do() -> None:
    """To see at 95 % what happens in one trial of ten takes 29; a cell that lost, and one that was added, needs none."""
    told = [
        line.text
        for line in result_notes(
            a_result([a_cell(1, loss=share(0, 5)), a_cell("all", loss=share(0, 40))])
        )
    ]

    assert told[0].startswith(
        "power: 5 trials of a cell may all miss a loss that happens in 1 of 10; 29 show it with 95 % certainty (--repeats 29)"
    )
    assert (
        list(
            result_notes(
                a_result(
                    [
                        a_cell(1, loss=share(1, 5)),
                        a_cell(0, loss=share(0, 5), added=True),
                        a_cell("all", loss=share(0, 29)),
                    ]
                )
            )
        )
        == []
    )


def test_a_late_generator_is_named() -> None:
    """It is judged all the same."""
    late = TrialResult(
        trial_id="007-a",
        cell={},
        label="",
        repeat=0,
        status=Status.SEALED,
        fault=FaultResult(kind=None),
        generator_late=True,
        lateness_p99_ms=91.2,
    )

    assert next(result_notes(a_result([], trials=(late,)))).text.startswith(
        "late generator: 007-a (91 ms): the producer itself fell behind"
    )


def test_the_status_column_is_there_where_a_trial_is_missing() -> None:
    """Where all are sealed it would say nothing."""
    assert "status" not in printed([a_cell(1)])
    assert "1 void" in printed([a_cell(1), a_cell(0, void_trials=1, planned_trials=2)])


def test_piped_results_are_plain() -> None:
    """No colours, and no terminal's width to fit."""
    console = console_for_results(terminal=False)

    assert (console.color_system, console.width > 100) == (None, True)
