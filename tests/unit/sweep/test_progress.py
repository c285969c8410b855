"""The progress of a sweep is read from its folder; the progress bar and the tables show it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.builders.records import a_spec, no_rows, record_of
from support.golden_files import Says

from ackbench.experiments.commands.progress_display import Lines, render_progress
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.ledger.trial_manifest import Cell, Status
from ackbench.experiments.messages.console import console_for_results
from ackbench.experiments.results.formats.tables import cell_status, print_cells, refusal_lines
from ackbench.experiments.results.models import (
    CellResult,
    FaultResult,
    LatencySpreads,
    MedianAndMax,
    QuantileSpreads,
    SweepResults,
    TrialResult,
)
from ackbench.experiments.results.wording import (
    LEGEND,
    result_notes,
    short_share_text,
    verdict_mark,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import (
    EndedTrial,
    Progress,
    ProgressReader,
    expected_results_s,
    expected_trial_s,
    format_duration,
    format_duration_with_units,
    remaining_duration_s,
    report_queued,
)
from ackbench.experiments.verdicts.evidence import Inconclusive
from ackbench.experiments.verdicts.guarantees.order import ORDER
from ackbench.experiments.verdicts.guarantees.violations import Doubt
from ackbench.experiments.verdicts.judge import HarnessCheck, Judgement, NamedRecord, Verdict
from ackbench.experiments.verdicts.statistics import share

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
        guarantee=ORDER,
        verdict=verdict,
        violation_seen=seen,
        share=None,
        mechanism="by design",
        evidence=(Inconclusive(doubt=Doubt.NOT_MEASURED, trials=("000-a",), of=1),),
    ).model_copy(update=changes)


def a_result(
    cells: Sequence[CellResult],
    trials: tuple[TrialResult, ...] = (),
    harness: HarnessCheck | None = None,
) -> SweepResults:
    """Return a sweep's results."""
    checked = harness or HarnessCheck()
    return SweepResults(
        sweep_id="s",
        experiment="e",
        question="q",
        seed=1,
        trials=trials,
        cells=tuple(cells),
        pending=(),
        unmeasured=(),
        harness=checked,
        plan=Plan(
            sweep_id="s", experiment="e", question="q", seed=1, repeats=1, trials=(), refused=()
        ),
    )


def printed(rows: list[CellResult], width: int = 100) -> str:
    """Return the table as text."""
    out = StringIO()
    print_cells(Console(file=out, width=width, color_system=None), rows)
    return out.getvalue()


def test_progress_counts_complete_and_failed_trials(tmp_path: Path) -> None:
    """A running trial is not counted; it is named, with its current activity."""
    sweep, plan = a_sweep(tmp_path)
    sweep.partial("000-abcdef").mkdir()
    seal(
        sweep.partial("000-abcdef"), sweep.trial("000-abcdef"), record_of(plan.trials[0]), no_rows()
    )
    reader = ProgressReader(sweep, plan)
    sweep.failed("001-abcdef").mkdir()
    sweep.partial("002-abcdef").mkdir()
    sweep.report_activity("trial", "waiting for the full ISR", "002-abcdef")
    progress = reader.read()

    assert (progress.done, progress.failed, progress.total, progress.trial, progress.activity) == (
        2,
        1,
        3,
        "cell 2",
        "waiting for the full ISR",
    )


def test_a_trial_that_failed_before_is_pending(tmp_path: Path) -> None:
    """A resumed sweep runs it again; when it fails again, it is finished."""
    sweep, plan = a_sweep(tmp_path)
    failed = sweep.failed("001-abcdef")
    failed.mkdir()
    reader = ProgressReader(sweep, plan)
    before = reader.read()
    os.utime(failed)
    after = reader.read()

    assert (before.done, before.failed, after.done, after.failed) == (0, 0, 1, 1)


def test_without_a_reported_activity_airflow_is_starting(tmp_path: Path) -> None:
    """A sweep that is only planned has no activity."""
    progress = ProgressReader(*a_sweep(tmp_path)).read()

    assert (progress.done, progress.trial, progress.activity) == (0, None, "starting")


def remaining_s(
    remaining: int, finished: int = 0, spent_s: float = 0, since_last_s: float = 0
) -> float | None:
    """Return the estimate for trials that are planned to take the same time."""
    return remaining_duration_s(
        [a_spec()] * remaining,
        [a_spec()] * finished,
        trials=remaining + finished,
        spent_s=spent_s,
        since_last_s=since_last_s,
    )


def test_the_remaining_time_is_planned_first_and_measured_later() -> None:
    """Until a trial finishes: load and usual overhead; afterwards: at the pace of the finished."""
    assert remaining_s(2) == 2 * expected_trial_s(a_spec()) + expected_results_s(2)
    assert remaining_s(2, finished=4, spent_s=80) == 2 * 20 + expected_results_s(6)


def test_the_remaining_time_decreases_while_a_trial_runs() -> None:
    """Second by second, until the trial takes longer than the finished ones did."""
    estimates = [
        remaining_s(3, finished=2, spent_s=40, since_last_s=second) for second in range(21)
    ]

    assert estimates == [60 - second + expected_results_s(5) for second in range(21)]
    assert remaining_s(3, finished=2, spent_s=40, since_last_s=1000) == 40 + expected_results_s(5)


def test_a_longer_trial_is_expected_to_take_longer() -> None:
    """The pace is a factor of the planned duration, so long cells at the end are no surprise."""
    short = a_spec()
    workload = short.workload.model_copy(update={"duration_s": 100})
    long = a_spec(workload=workload)
    estimates = [
        remaining_duration_s([left], [short], trials=2, spent_s=9, since_last_s=0)
        for left in (short, long)
    ]

    assert estimates[0] == 9 + expected_results_s(2)
    assert estimates[1] == pytest.approx(
        9 * expected_trial_s(long) / expected_trial_s(short) + expected_results_s(2)
    )


def test_the_remaining_time_of_a_measurement_that_is_late_is_unknown() -> None:
    """No second is promised again and again."""
    assert remaining_s(0, finished=2, spent_s=9, since_last_s=5) == expected_results_s(2) - 5
    assert remaining_s(0, finished=2, spent_s=9, since_last_s=100) is None


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (65.4, "1:05"), (3661, "1:01:01")])
def test_durations_are_formatted_as_clocks(seconds: float, text: str) -> None:
    """Minutes and seconds, and hours if there are any."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(65.4, "1:05 (minutes:seconds)"), (3661, "1:01:01 (hours:minutes:seconds)")],
)
def test_a_single_duration_names_its_units(seconds: float, text: str) -> None:
    """From one hour on, hours are named too."""
    assert format_duration_with_units(seconds) == text


@pytest.mark.parametrize("width", [100, 70, 40])
def test_the_progress_bar_has_two_lines_of_the_terminals_width(width: int) -> None:
    """A label too long for the terminal is truncated, not wrapped."""
    out = StringIO()
    Console(file=out, width=width).print(render_progress(a_progress()))
    lines = out.getvalue().splitlines()

    assert len(lines) == 2
    assert max(map(len, lines)) <= width
    assert "7/20 trials, 1 failed" in lines[0]
    assert "5:00, 2:10 left" in lines[0]
    assert "(0:03)" in lines[1] or width < 70


def a_progress(**changes: Any) -> Progress:
    """Return the progress of a sweep in its eighth trial, with some fields changed."""
    progress = Progress(
        done=7,
        failed=1,
        total=20,
        trial=LABEL,
        activity="waiting for the last acknowledgements",
        activity_s=3,
        elapsed_s=300,
        remaining_s=130,
    )
    return replace(progress, **changes)


def test_without_a_terminal_there_is_a_line_per_trial_and_per_stage(says: Says) -> None:
    """A stage within a trial has none; each line has the time of day."""
    out = StringIO()
    lines = Lines(
        Console(file=out, width=40), clock=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    for progress in (
        a_progress(done=0, trial=None, activity="starting the cluster"),
        a_progress(done=0, trial=None, activity="starting the cluster", remaining_s=129),
        a_progress(done=0),
        a_progress(done=2, ended=(EndedTrial("cell 0", "sealed"), EndedTrial("cell 1", "void"))),
        a_progress(done=2, trial=None, activity="measuring", remaining_s=None),
    ):
        lines.show(progress)

    says(out.getvalue().splitlines())


def test_each_trial_that_ends_is_reported_once_with_its_outcome(tmp_path: Path) -> None:
    """Trials that were complete before are not among them."""
    sweep, plan = a_sweep(tmp_path)
    sweep.partial("000-abcdef").mkdir()
    seal(
        sweep.partial("000-abcdef"), sweep.trial("000-abcdef"), record_of(plan.trials[0]), no_rows()
    )
    reader = ProgressReader(sweep, plan)
    second = record_of(plan.trials[1])
    sweep.partial("001-abcdef").mkdir()
    seal(sweep.partial("001-abcdef"), sweep.trial("001-abcdef"), second, no_rows())
    sweep.failed("002-abcdef").mkdir()

    assert reader.read().ended == (EndedTrial("cell 1", "sealed"), EndedTrial("cell 2", "failed"))
    assert reader.read().ended == ()


def test_a_queued_sweep_names_what_it_waits_for_and_has_no_time_left(
    tmp_path: Path, says: Says
) -> None:
    """When the other load ends is not known."""
    sweep, plan = a_sweep(tmp_path)
    reader = ProgressReader(sweep, plan)
    report_queued(sweep, "quick-1 (process 7, started 17:13, home /a)")
    queued = reader.read()
    sweep.report_activity("start")

    says(queued.activity)
    assert queued.remaining_s is None
    assert reader.read().remaining_s is not None


def test_the_activity_of_an_earlier_run_is_not_shown(tmp_path: Path) -> None:
    """A resumed sweep starts Airflow; what it did last when it was interrupted is over."""
    sweep, plan = a_sweep(tmp_path)
    sweep.report_activity("destroy", "destroying the cluster")

    assert ProgressReader(sweep, plan).read().activity == "starting"


def test_the_table_has_one_row_per_cell_and_one_block_per_fault() -> None:
    """They have the order of the results."""
    text = printed([a_cell(0), a_cell(1), a_cell("all"), a_cell("all", "leader-pause")])
    rows = [
        line.split()[0] for line in text.splitlines() if line.startswith(("0", "1", "all", "fault"))
    ]

    assert rows == ["fault:", "0", "1", "all", "fault:", "all"]
    assert "3,918 to 4,101" in text
    assert "1,234" in text


def test_values_that_were_not_measured_are_not_zero() -> None:
    """A cell without sealed trials has no figures, and its status is void."""
    void = a_cell(
        1, sealed_trials=0, void_trials=1, lost=None, duplicates=None, latency_ms=LatencySpreads()
    )
    line = next(line for line in printed([void]).splitlines() if line.startswith("1"))

    assert line.split() == ["1", "off", "3", "1", "-", "-", "-", "-", "-", "1", "void"]


def test_refused_cells_are_listed_below_the_table_once_per_reason() -> None:
    """They are counted, not dropped."""
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
def test_the_status_of_a_cell_counts_trials_that_are_not_sealed(
    changes: dict[str, Any], text: str
) -> None:
    """Void, failed and missing trials are counted separately."""
    assert cell_status(a_cell(1, **changes)) == text


def test_a_further_axis_has_a_column_if_its_values_differ() -> None:
    """An axis with one value has no column."""
    rows = [a_cell(1), a_cell(1)]
    for row, linger in zip(rows, (0, 50), strict=True):
        row.cell.update({"linger.ms": linger, "socket.timeout.ms": 1000})
    text = printed(rows)

    assert "linger.ms" in text
    assert "socket" not in text


def test_a_share_is_shown_with_its_interval(says: Says) -> None:
    """One bound for none or all of the trials, otherwise two; rounded outwards."""
    shares = [share(3, 5), share(0, 5), share(5, 5), share(0, 100), None]

    says([short_share_text(given, "-") for given in shares])


@pytest.mark.parametrize(
    ("verdict", "observed", "mark"),
    [
        (Verdict.HELD, False, "✓"),
        (Verdict.VIOLATED, True, "✗"),
        (Verdict.UNKNOWN, False, "?"),
        (Verdict.NOT_GUARANTEED, True, "!"),
        (Verdict.NOT_GUARANTEED, False, "none"),
        (Verdict.NOT_GUARANTEED, None, "-"),
    ],
)
def test_each_verdict_has_a_mark_that_the_legend_explains(
    verdict: Verdict, observed: bool | None, mark: str
) -> None:
    """No two verdicts share a mark, and none differs by colour alone."""
    row = a_cell(1, judgements=(a_judgement(verdict, observed),))

    assert verdict_mark(row, ORDER) == mark
    assert re.search(rf" {re.escape(mark)}:? ", LEGEND)
    assert f"{mark:^4}" in printed([row])


def test_a_violation_is_listed_below_the_table_with_its_trials_and_records(says: Says) -> None:
    """An unknown verdict has its reason, once for all cells that share it."""
    records = tuple(NamedRecord(trial_id="000-a", producer=0, seq=seq) for seq in (3, 7))
    violation = {
        "share": share(1, 4),
        "trials": ("000-a",),
        "records": records,
        "records_total": 2100,
    }
    cells = [
        a_cell(1, judgements=(a_judgement(Verdict.VIOLATED, True, **violation),)),
        *(a_cell(acks, judgements=(a_judgement(Verdict.UNKNOWN, None),)) for acks in (0, "all")),
    ]
    notes = [line.text for line in result_notes(a_result(cells))]

    says(notes[0])
    says(notes[1])
    assert [line.violated for line in result_notes(a_result(cells))][:2] == [True, False]


def test_added_controls_add_no_rows_and_no_columns_to_the_table() -> None:
    """Their outcome is listed below the table."""
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
def test_failed_controls_are_shown_like_a_violation(failed: dict[str, bool]) -> None:
    """If either control fails, no other result of the sweep is reliable."""
    harness = HarnessCheck(**failed, sentences=("it lost, or it did not",))

    assert [line.violated for line in result_notes(a_result([a_cell(1)], harness=harness))] == [
        True
    ]


def test_the_notes_name_the_number_of_trials_that_would_suffice() -> None:
    """Observing a loss in 1 of 10 trials with 95 % certainty takes 29 trials.

    A cell with loss, and an added control, needs no further trials.
    """
    notes = [
        line.text
        for line in result_notes(
            a_result([a_cell(1, loss=share(0, 5)), a_cell("all", loss=share(0, 40))])
        )
    ]

    assert notes[0].startswith(
        "power: 5 trials per cell may all miss a loss that occurs in 1 of 10 trials; "
        "29 show it with 95 % confidence (--repeats 29)"
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


def a_sealed_trial(**values: object) -> TrialResult:
    """Return a trial without a fault, with some values."""
    return TrialResult.model_validate(
        {
            "trial_id": "007-a",
            "cell": {},
            "label": "",
            "repeat": 0,
            "status": Status.SEALED,
            "fault": FaultResult(kind=None),
            **values,
        }
    )


def test_a_late_generator_is_listed() -> None:
    """The trial is judged all the same."""
    late = a_sealed_trial(generator_late=True, lateness_p99_ms=91.2)

    assert next(result_notes(a_result([], trials=(late,)))).text.startswith(
        "warning: the load generator was late in trial 007-a (91 ms at p99; limit 50 ms)"
    )


def test_what_kept_the_processes_of_a_trial_from_running_is_listed(says: Says) -> None:
    """The longest ones, and how many more there are."""
    stalled = a_sealed_trial(
        stalls=tuple(f"producer 0 was stopped for {seconds} s" for seconds in (5, 4, 3, 2, 1))
    )
    says(next(result_notes(a_result([], trials=(stalled,)))).text)


def test_the_status_column_is_shown_if_a_trial_is_not_sealed() -> None:
    """If all trials are sealed, there is no such column."""
    assert "status" not in printed([a_cell(1)])
    assert "1 void" in printed([a_cell(1), a_cell(0, void_trials=1, planned_trials=2)])


def test_piped_results_are_plain() -> None:
    """They have no colours, and are not fitted to a terminal's width."""
    console = console_for_results(terminal=False)

    assert (console.color_system, console.width > 100) == (None, True)
