"""Mutants of a module: every small, plausible mistake in one place.

Each mutant differs from the module in one expression. Changes that only rewrite an expression
(`a & b` to `b & a`) are not made, nor changes in docstrings, messages, annotations and imports.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutations.siblings import OTHER_NAME, siblings_of

COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
REPLACED: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
DROPPED: Final = frozenset({"filter", "copy", "merge"})
"""Methods whose call is replaced by its receiver."""
FIRST_ARGUMENT: Final = frozenset(
    {"np.unique", "np.sort", "np.minimum", "np.maximum", "np.flatnonzero", "np.append", "sorted"}
)
"""Functions whose call is replaced by its first argument."""


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake."""

    module: str
    where: str
    """The function, method or constant that contains the mistake."""
    mistake: str
    """Old and new expression; equal texts of one function are numbered."""
    original: ast.Module
    old: ast.AST
    new: ast.AST

    def tree(self) -> ast.Module:
        """Return the module with the mistake."""
        new = copy.deepcopy(self.new)
        return ast.fix_missing_locations(
            copy.deepcopy(
                self.original,
                {
                    id(self.old): ast.copy_location(new, self.old)
                    if hasattr(self.old, "lineno")
                    else new
                },
            )
        )

    @property
    def name(self) -> str:
        """A name that changes only with the code."""
        return f"{self.module.removeprefix('ackbench.spark_jobs.')}.{self.where}: {self.mistake}"


def mutants_of(module: str, path: Path) -> Iterator[Mutant]:
    """Yield a module's mutants, in the order of its lines."""
    tree = ast.parse(path.read_text())
    seen: Counter[tuple[str, str]] = Counter()
    for where, statement in _named(tree):
        for node in _expressions(statement):
            for other in _alternatives(node):
                mistake = f"{_short(node)} -> {_short(other)}"
                seen[where, mistake] += 1
                number = seen[where, mistake]
                yield Mutant(
                    module,
                    where,
                    mistake if number == 1 else f"{mistake} ({number})",
                    tree,
                    node,
                    other,
                )


def _named(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the module's functions, methods and constants, by name."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield from (
                (f"{statement.name}.{part.name}", part)
                for part in statement.body
                if isinstance(part, ast.FunctionDef)
            )
        elif isinstance(statement, ast.FunctionDef):
            yield statement.name, statement
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            yield ast.unparse(target), statement


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all executed nodes below a node: no annotations, docstrings or error messages."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if (
                not isinstance(child, ast.AST)
                or isinstance(child, (ast.Raise, ast.JoinedStr))
                or _is_text(child)
            ):
                continue
            yield child
            yield from _expressions(child)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that replace a node."""
    if isinstance(node, ast.Compare):
        yield from (
            ast.Compare(node.left, [other(), *node.ops[1:]], node.comparators)
            for other in COMPARED[type(node.ops[0])]
        )
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.BinOp) and type(node.op) in REPLACED:
        yield ast.BinOp(node.left, REPLACED[type(node.op)](), node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in REPLACED:
        yield ast.AugAssign(node.target, REPLACED[type(node.op)](), node.value)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.If):
        yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    elif isinstance(node, ast.comprehension) and node.ifs:
        yield ast.comprehension(node.target, node.iter, node.ifs[1:], node.is_async)
    else:
        yield from _other_word(node)


def _other_word(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the replacements of a call, a name or a constant."""
    if isinstance(node, ast.Call):
        yield from _other_call(node)
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int)
        and not isinstance(node.value, bool)
    ):
        yield from (ast.Constant(node.value + step) for step in (1, -1))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from (ast.Constant(other) for other in siblings_of(node.value))
    elif isinstance(node, ast.Attribute):
        yield from (ast.Attribute(node.value, other, node.ctx) for other in siblings_of(node.attr))
    elif isinstance(node, ast.Name) and node.id in OTHER_NAME:
        yield ast.Name(OTHER_NAME[node.id], node.ctx)


def _other_call(node: ast.Call) -> Iterator[ast.AST]:
    """Yield a call's receiver or first argument, as if the call were missing."""
    if ast.unparse(node.func) in FIRST_ARGUMENT and node.args:
        yield node.args[0]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in DROPPED:
        yield node.func.value


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:50]} ... {text[-15:]}"
