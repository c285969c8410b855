"""The mistakes that are planted in the code that judges: which there are, and that each is in one place."""

import ast
from pathlib import Path

import pytest
from mutations.mutator import mutants_of


def mistakes(code: str, folder: Path) -> dict[str, str]:
    """Return the mutants of some code: what was changed, and the whole."""
    (folder / "some.py").write_text(code)
    return {
        mutant.name: ast.unparse(mutant.tree())
        for mutant in mutants_of("spark_jobs.some", folder / "some.py")
    }


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a == b", ["a != b"]),
        ("a and b", ["a or b"]),
        ("a & b", ["a | b"]),
        ("a - 1", ["a + 1", "a - 2", "a - 0"]),
        ("~a", ["a"]),
        ("rows.where(a)", ["rows"]),
        ("sf.when(a, b).otherwise(c)", ["sf.when(a, b)", "b.otherwise(c)"]),
        ("'further > 0'", ["'further >= 0'", "'further > 1'"]),
        ("rows['intended_ns']", ["rows['settled_ns']"]),
        ("Fate.PHANTOM", ["Fate.CORRUPT"]),
        ("[row for row in rows if row]", ["[row for row in rows]"]),
        ("a if b else c", ["a", "c"]),
    ],
)
def test_each_kind_of_mistake_is_made(line: str, wrong: list[str], tmp_path: Path) -> None:
    """And no other, in one line of code."""
    made = mistakes(f"def judge():\n    return {line}\n", tmp_path)
    assert sorted(made.values()) == sorted(f"def judge():\n    return {other}" for other in wrong)


def test_words_for_people_are_left_alone(tmp_path: Path) -> None:
    """Docstrings, annotations, imports and the texts of errors are no code that judges."""
    code = 'from a import seq\n\ndef judge(a: int = None) -> "seq":\n    """seq > 0"""\n    raise UnfitLedger(f"seq {a} > 0")\n'
    assert mistakes(code, tmp_path) == {}


def test_equal_mistakes_of_one_function_have_names_of_their_own(tmp_path: Path) -> None:
    """So that one can be listed as none, and the other not."""
    assert list(mistakes("def judge():\n    return ~a, ~a\n", tmp_path)) == [
        "some.judge: ~a -> a",
        "some.judge: ~a -> a (2)",
    ]
