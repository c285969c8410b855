"""Golden files are compared, updated, and have nothing that no test says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support.golden_files import MESSAGES, TESTS, GoldenFiles, difference, messages_in


def test_a_text_that_differs_fails_with_a_short_difference(tmp_path: Path) -> None:
    """The rest of it is counted."""
    before, after = ("".join(f"{word} {n}\n" for n in range(100)) for word in ("old", "new"))
    lines = list(difference("x", before, after))
    assert lines[:2] == ["--- x", "+++ x"]
    assert lines[-1] == "... and 143 more lines in x"
    golden = GoldenFiles(update=False)
    with pytest.raises(AssertionError, match="--update-golden"):
        golden.compare_message(tmp_path / "x.txt", "test_it", "new\n")


def test_an_update_writes_the_text_and_prints_the_difference(tmp_path: Path) -> None:
    """Texts of other tests stay, also those with lines that are empty or headings."""
    path, golden = tmp_path / "x.txt", GoldenFiles(update=True)
    golden.compare_message(path, "test_b", "## Head\n\ntext\n")
    golden.compare_message(path, "test_a", "one\n")
    golden.compare_message(path, "test_a", "two\n")
    assert messages_in(path) == {"test_a": "two\n", "test_b": "## Head\n\ntext\n"}
    assert golden.differences[-2:] == ["-one", "+two"]
    GoldenFiles(update=False).compare_message(path, "test_a", "two\n")


@pytest.mark.further
def test_each_stored_message_is_one_of_a_test() -> None:
    """The message of a removed test is removed too."""
    stale = [
        f"{path.name}: {key}"
        for path in MESSAGES.rglob("*.txt")
        for key in messages_in(path)
        if re.split(r"[\[ (]", key)[0] not in _saying(path)
    ]
    assert list(MESSAGES.rglob("*.txt"))
    assert stale == []


def _saying(path: Path) -> set[str]:
    """Return the tests of a file's module that say something."""
    folder = TESTS / path.relative_to(MESSAGES).parent
    tree = ast.parse((folder / f"test_{path.stem}.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(argument.arg == "says" for argument in node.args.args)
    }
