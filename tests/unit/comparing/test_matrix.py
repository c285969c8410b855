"""Faults down, clients' settings across: each cell where it belongs, with its interval, and nothing shown that was not measured."""

from __future__ import annotations

from support.builders.sweeps import Truth, a_cell, measured

from experiments.comparing.matrix import (
    Matrix,
    as_markdown,
    below,
    duplicates_text,
    heads,
    loss_text,
    matrix_of,
)
from experiments.results.models import CellResult
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.judge import Judgement, Verdict

CRASH = [
    Truth(a_cell(1), (3, 0, 9), (0, 0, 0)),
    Truth(a_cell("all"), (0, 0, 0), (7, 0, 0)),
    Truth(a_cell("all", idempotence=True), (0, 0, 0), (0, 0, 0)),
]
PAUSE = [
    Truth({**truth.cell, "fault": "leader-pause"}, truth.lost, truth.copies) for truth in CRASH[:2]
]


def matrix(*truths: Truth, void: tuple[str, ...] = ()) -> Matrix:
    """Return the table of a sweep in which that is true."""
    return matrix_of([measured(truths, void=void).results])


def test_a_row_is_a_fault_and_a_column_the_clients_settings() -> None:
    """Numbers before words, idempotence last."""
    found = matrix(*CRASH, *PAUSE)
    assert heads(found) == ("acks=1", "acks=all", "acks=all idempotent")
    assert [row.fault for row in found.rows] == ["leader-crash-behind", "leader-pause"]


def test_a_cell_says_in_how_many_trials_with_the_interval_and_how_many_records() -> None:
    """Of loss and of duplicates, each with its sign."""
    lost, repeated, _ = matrix(*CRASH).rows[0].cells
    assert "lost 2 of 3 (9-100 %): 12" in loss_text(lost)
    assert "dup. 1 of 3 (0-91 %): 7" in duplicates_text(repeated)


def test_a_cell_that_no_sweep_holds_is_empty() -> None:
    """Not zero."""
    row = next(row for row in matrix(*CRASH, *PAUSE).rows if row.fault == "leader-pause")
    assert loss_text(row.cells[2]) == ""
    assert next(
        line for line in as_markdown(matrix(*CRASH, *PAUSE)) if "leader-pause" in line
    ).endswith("|  |")


def test_faults_that_did_not_bite_are_counted_and_no_figure_is_made_of_them() -> None:
    """A void trial says nothing about its fault."""
    row = matrix(CRASH[0], void=("000-000000", "000-000001", "000-000002")).rows[0]
    assert (row.took_effect, row.struck) == (0, 3)
    assert loss_text(row.cells[0]) == "lost - (3 void)"


def test_what_tells_rows_apart_stands_in_them_and_what_is_usual_does_not() -> None:
    """Partitions of one fault differ; the replication factor is everywhere the same, and so are the other fault's partitions."""
    found = matrix(CRASH[0], Truth(a_cell(1, partitions=6), (0,), (0,)), PAUSE[0])
    assert [row.circumstances for row in found.rows] == ["P=1", "P=6", ""]
    assert found.usual == {"replication.factor": 3, "partitions": 1}


def test_several_sweeps_make_one_table_and_the_last_one_counts() -> None:
    """A cell that was run again is the newer one."""
    older, newer = (
        measured(CRASH[:1]).results,
        measured(
            [Truth(a_cell(1), (0, 0), (0, 0)), *PAUSE], sweep_id="newer-20260101T000000-abcd"
        ).results,
    )
    found = matrix_of([older, newer])
    assert "0 of 2" in loss_text(found.rows[0].cells[0])
    assert len(found.rows) == 2


def test_a_broken_promise_is_named_with_its_sweep() -> None:
    """Below the table, as everywhere."""
    results = measured(CRASH[:1]).results
    judged = [
        cell.model_copy(update={"judgements": (_violated(cell),)}) if cell.refused is None else cell
        for cell in results.cells
    ]
    found = matrix_of([results.model_copy(update={"cells": tuple(judged)})])
    assert [line.split(":")[0] for line in found.violations] == [results.sweep_id]


def test_the_documents_table_has_a_line_a_fault() -> None:
    """Under a head and a rule; what stands below it is a list."""
    lines = [line for line in as_markdown(matrix(*CRASH, *PAUSE)) if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in lines] == [
        "fault",
        "---",
        "`leader-crash-behind`",
        "`leader-pause`",
    ]


def _violated(cell: CellResult) -> Judgement:
    return Judgement(
        guarantee=Guarantee.NO_ACKED_LOSS,
        verdict=Verdict.VIOLATED,
        seen=True,
        reasons=("it lost",),
        share=cell.loss,
    )


def test_it_says_how_often_what_was_seen_differs_from_what_is_promised() -> None:
    """Over every promise of every cell, each counted once."""
    found = matrix(*CRASH)
    judged = [
        judgement
        for row in found.rows
        for cell in row.cells
        if cell
        for judgement in cell.judgements
    ]
    assert sum(found.verdicts.values()) == len(judged) > 0
    *_, counts = below(found)
    assert counts.startswith("3 cells: ")
    assert f"{found.verdicts[Verdict.VIOLATED]} VIOLATED" in counts
    assert f"- {counts}" in list(as_markdown(found))
