"""The mutants of the measuring code: which kinds there are, one change each."""

import ast
from pathlib import Path

import pytest
from mutations.mutator import mutants_of


def mutants(code: str, folder: Path) -> dict[str, str]:
    """Return the mutants of some code by name, each as source text."""
    (folder / "some.py").write_text(code)
    return {
        mutant.name: ast.unparse(mutant.tree())
        for mutant in mutants_of("ackbench.spark_jobs.some", folder / "some.py")
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
        ("rows.filter(a)", ["rows"]),
        ("np.unique(a)", ["a"]),
        ("np.zeros(a)", ["np.ones(a)"]),
        ("rows['intended_ns']", ["rows['settled_ns']"]),
        ("Fate.PHANTOM", ["Fate.CORRUPT"]),
        ("[row for row in rows if row]", ["[row for row in rows]"]),
        ("a if b else c", ["a", "c"]),
    ],
)
def test_each_kind_of_mutant_is_made(line: str, wrong: list[str], tmp_path: Path) -> None:
    """One line of code has exactly these."""
    made = mutants(f"def judge():\n    return {line}\n", tmp_path)
    assert sorted(made.values()) == sorted(f"def judge():\n    return {other}" for other in wrong)


def test_prose_is_not_mutated(tmp_path: Path) -> None:
    """Docstrings, annotations, imports and error messages are not mutated."""
    code = (
        "from a import seq\n\n"
        'def judge(a: int = None) -> "seq":\n    """seq > 0"""\n'
        '    raise UnfitLedger(f"seq {a} > 0")\n'
    )
    assert mutants(code, tmp_path) == {}


def test_equal_mutants_of_one_function_have_distinct_names(tmp_path: Path) -> None:
    """One of them can be listed as equivalent without the other."""
    assert list(mutants("def judge():\n    return ~a, ~a\n", tmp_path)) == [
        "some.judge: ~a -> a",
        "some.judge: ~a -> a (2)",
    ]
