"""The table of faults against client settings."""

from __future__ import annotations

from support.builders.sweeps import Truth, a_cell, measured_sweep
from support.golden_files import Says

from ackbench.experiments.results.comparing.matrix import (
    Matrix,
    as_markdown,
    column_heads,
    duplicates_text,
    loss_text,
    matrix_notes,
    matrix_of,
)
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.judge import Judgement, Verdict

CRASH = [
    Truth(a_cell(1), (3, 0, 9), (0, 0, 0)),
    Truth(a_cell("all"), (0, 0, 0), (7, 0, 0)),
    Truth(a_cell("all", idempotence=True), (0, 0, 0), (0, 0, 0)),
]
PAUSE = [
    Truth({**truth.cell, "fault": "leader-pause"}, truth.lost, truth.copies) for truth in CRASH[:2]
]


def matrix(*truths: Truth, void: tuple[str, ...] = ()) -> Matrix:
    """Return the table of a sweep with these true results."""
    return matrix_of([measured_sweep(truths, void=void).results])


def test_rows_are_faults_and_columns_are_client_settings() -> None:
    """Columns have numbers before words, and idempotence last."""
    found = matrix(*CRASH, *PAUSE)
    assert column_heads(found) == ("acks=1", "acks=all", "acks=all idempotent")
    assert [row.fault for row in found.rows] == ["leader-crash-behind", "leader-pause"]


def test_a_cell_shows_trials_interval_and_records(says: Says) -> None:
    """It shows them for loss and for duplicates, each with a sign."""
    lost, repeated, _ = matrix(*CRASH).rows[0].cells
    says(loss_text(lost))
    says(duplicates_text(repeated))


def test_a_cell_that_no_sweep_has_is_empty() -> None:
    """It does not show zero."""
    row = next(row for row in matrix(*CRASH, *PAUSE).rows if row.fault == "leader-pause")
    assert loss_text(row.cells[2]) == ""
    assert next(
        line for line in as_markdown(matrix(*CRASH, *PAUSE)) if "leader-pause" in line
    ).endswith("|  |")


def test_void_trials_are_counted_and_have_no_figures(says: Says) -> None:
    """A void trial shows nothing about its fault."""
    row = matrix(CRASH[0], void=("000-000000", "000-000001", "000-000002")).rows[0]
    assert (row.took_effect, row.injected) == (0, 3)
    says(loss_text(row.cells[0]))


def test_rows_state_only_settings_that_distinguish_them() -> None:
    """Common settings are not repeated: here the partitions of one fault differ."""
    found = matrix(CRASH[0], Truth(a_cell(1, partitions=6), (0,), (0,)), PAUSE[0])
    assert [row.circumstances for row in found.rows] == ["P=1", "P=6", ""]
    assert found.common == {"replication.factor": 3, "partitions": 1}


def test_of_equal_cells_of_several_sweeps_the_last_counts() -> None:
    """A cell that ran again replaces the older one."""
    older, newer = (
        measured_sweep(CRASH[:1]).results,
        measured_sweep(
            [Truth(a_cell(1), (0, 0), (0, 0)), *PAUSE], sweep_id="newer-20260101T000000-abcd"
        ).results,
    )
    found = matrix_of([older, newer])
    assert "0 of 2" in loss_text(found.rows[0].cells[0])
    assert len(found.rows) == 2


def test_a_violation_is_listed_with_its_sweep() -> None:
    """It is listed below the table."""
    results = measured_sweep(CRASH[:1]).results
    judged = [
        cell.model_copy(update={"judgements": (_violated(cell),)}) if cell.refused is None else cell
        for cell in results.cells
    ]
    found = matrix_of([results.model_copy(update={"cells": tuple(judged)})])
    assert [line.split(":")[0] for line in found.violations] == [results.sweep_id]


def test_the_markdown_table_has_a_line_per_fault() -> None:
    """A head and a rule come before them, and a list follows."""
    lines = [line for line in as_markdown(matrix(*CRASH, *PAUSE)) if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in lines] == [
        "fault",
        "---",
        "`leader-crash-behind`",
        "`leader-pause`",
    ]


def _violated(cell: CellResult) -> Judgement:
    return Judgement(
        guarantee=NO_ACKED_LOSS,
        verdict=Verdict.VIOLATED,
        violation_seen=True,
        mechanism="it lost",
        share=cell.loss,
    )


def test_the_notes_count_the_verdicts() -> None:
    """Every guarantee of every cell is counted once."""
    found = matrix(*CRASH)
    judged = [
        judgement
        for row in found.rows
        for cell in row.cells
        if cell
        for judgement in cell.judgements
    ]
    assert sum(found.verdicts.values()) == len(judged) > 0
    *_, counts = matrix_notes(found)
    assert counts.startswith("3 cells: ")
    assert f"{found.verdicts[Verdict.VIOLATED]} VIOLATED" in counts
    assert f"- {counts}" in list(as_markdown(found))
