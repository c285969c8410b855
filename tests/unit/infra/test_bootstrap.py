"""`make setup` on an interpreter that is too old: it must be able to read the script to say so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from ackbench.infra.machine.home import REPOSITORY

OLD: Final = (3, 6)
"""Debian 10 and Ubuntu 18.04 have 3.7 and 3.6."""


def evaluated_annotations(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations that Python evaluates when it defines the functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.returns:
            yield node.returns
        if isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation:
            yield node.annotation


def test_an_old_interpreter_can_read_the_script_and_its_annotations() -> None:
    """Python 3.9 ended with a traceback at `dict[str, str] | None`, and 3.8 at `dict[str, str]`."""
    source = (REPOSITORY / "infra" / "bootstrap.py").read_text()
    tree = ast.parse(source, feature_version=OLD)
    too_new = [
        ast.unparse(one)
        for one in evaluated_annotations(tree)
        if isinstance(one, (ast.Subscript, ast.BinOp))
    ]
    assert too_new == []
    assert "from __future__ import annotations" not in source
