"""The chapters' Markdown: which lines are wrapped, and how."""

from __future__ import annotations

import pytest

from ackbench.experiments.pages.report.chapters import index_lines, wrap_markdown
from ackbench.experiments.pages.report.tour_page import ClaimResult
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.tour import TourStop

LONG = " ".join(["record"] * 30)


@pytest.mark.parametrize(
    ("prefix", "indent"), [("", ""), ("> ", "> "), ("- ", "  "), ("**", "")], ids=repr
)
def test_prose_is_wrapped_at_100_columns(prefix: str, indent: str) -> None:
    """The further lines of a quotation or a list item belong to it."""
    first, *others = wrap_markdown(f"{prefix}{LONG}").split("\n")

    assert first.startswith(prefix)
    assert others
    assert all(line.startswith(f"{indent}record") for line in others)
    assert all(len(line) <= 100 for line in (first, *others))
    assert " ".join([first, *(line.removeprefix(indent) for line in others)]) == f"{prefix}{LONG}"


@pytest.mark.parametrize(
    "text",
    [f"# {LONG}", f"| {LONG} |", f"![{LONG}](05-acks-levels.svg)", f"```sh\n{LONG}\n```", ""],
    ids=["heading", "table", "image", "code", "empty"],
)
def test_headings_tables_images_and_code_keep_their_lines(text: str) -> None:
    """A break would change what they are."""
    assert wrap_markdown(text) == text


def test_prose_after_a_code_block_is_wrapped_again() -> None:
    """The second fence ends the block."""
    code = f"```sh\n{LONG}\n```"
    wrapped = wrap_markdown(f"{code}\n\n{LONG}")

    assert wrapped.startswith(f"{code}\n\n")
    assert max(map(len, wrapped.removeprefix(code).split("\n"))) <= 100


def test_a_long_word_is_not_broken() -> None:
    """A link must stay in one piece, and a hyphen is part of a name."""
    word = f"https://kafka.apache.org/{'kip-' * 30}"
    assert wrap_markdown(f"{LONG} {word}").split("\n")[-1] == word


@pytest.mark.parametrize("marker", ["-", "+", "*", ">", "#", "###", "1.", "2)"])
@pytest.mark.parametrize("characters", range(90, 102))
def test_no_line_of_prose_begins_as_another_block(marker: str, characters: int) -> None:
    """`n - 1` is no list item, and a sentence that ends with `2.` begins none."""
    text = f"{'n' * (characters - 2)} n {marker} 1 crashes"
    wrapped = wrap_markdown(text)

    assert all(not line.startswith(marker) for line in wrapped.split("\n"))
    assert wrapped.replace("\n", " ") == text


@pytest.mark.parametrize("unbroken", ["95 %", "9.4 s", "350 ms", "`ackbench tour --resume newest`"])
@pytest.mark.parametrize("characters", range(85, 101))
def test_a_figure_keeps_its_unit_and_a_command_its_arguments(
    unbroken: str, characters: int
) -> None:
    """They are read as one word."""
    assert unbroken in wrap_markdown(f"{'n' * characters} {unbroken} records")


def a_result(lesson: int, finding: Finding | None) -> ClaimResult:
    """Return the result of a lesson; without a finding it was not tested by this tour."""
    claim = load_experiment("acks-levels").claim
    assert claim is not None
    return ClaimResult(
        stop=TourStop(lesson=lesson, experiment=f"experiment-{lesson}"),
        title=f"Question {lesson}?",
        claim=claim,
        construction=None,
        drawing=("1 producer",),
        shortened=None,
        finding=finding,
        plot=None,
        took=None,
        trials=0,
        report=None,
    )


def a_finding(lesson: int, remark: str) -> Finding:
    """Return a finding of a lesson."""
    return Finding(
        lesson=lesson, conclusion=Conclusion.SUPPORTED, sentences=("It was so.",), remark=remark
    )


def test_a_tour_of_one_lesson_keeps_the_answers_of_the_others_in_the_index() -> None:
    """One lesson can be tested again without the hour and a half of all."""
    results = [a_result(1, a_finding(1, "New.")), a_result(2, None), a_result(3, None)]
    written = {1: "| 1 | old | supported | Old. |", 2: "| 2 | old | refuted | Kept. |"}

    rows = [line for line in index_lines(results, written) if line.startswith("| ")][1:]

    assert [row.split(" | ")[2:] for row in rows] == [
        ["supported", "New. |"],
        ["refuted", "Kept. |"],
        ["no finding", " |"],
    ]
