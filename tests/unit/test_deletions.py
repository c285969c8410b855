"""The table of docs/security.md names every place in the code that deletes, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("dags", "experiments", "infra", "spark_jobs")
FUNCTIONS: Final = {
    *("rmtree", "unlink", "rmdir", "removedirs", "TemporaryDirectory", "mkdtemp", "truncate"),
    *("delete", "delete_file", "delete_dir", "delete_dir_contents"),
    *(
        "delete_topic",
        "delete_topics",
        "delete_run",
        "delete_tag",
        "delete_experiment",
        "delete_records",
        "delete_consumer_groups",
    ),
}
"""Functions that delete files, topics or runs, or make a folder that is deleted."""
MODULES_OF_REMOVE: Final = {"os"}
"""Modules whose function `remove` deletes a file; others have a method of that name."""
TOOLS: Final = {"rm", "umount", "--detach", "delete", "del"}
"""Words of commands that delete, unmount or detach, where `infra` runs system tools.

`_programs` only looks whether there are such tools.
"""
TABLE: Final = re.compile(r"^\| `(?P<module>[\w/]+\.py)` `(?P<function>[\w.]+)` \|")


def deletes(module: Path, call: ast.Call) -> bool:
    """Return whether a call deletes something."""
    function = call.func
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        if function.attr in FUNCTIONS or (
            function.attr in {"remove", "removexattr"} and owner in MODULES_OF_REMOVE
        ):
            return True
    elif isinstance(function, ast.Name) and function.id in FUNCTIONS:
        return True
    runs_a_tool = module.parts[0] == "infra" and getattr(function, "id", "") != "_programs"
    return runs_a_tool and any(
        isinstance(word, ast.Constant) and word.value in TOOLS
        for argument in call.args
        for word in (argument.elts if isinstance(argument, ast.Tuple) else [argument])
    )


def deletions(module: Path, node: ast.AST, inside: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the functions of a module that delete something."""
    for child in ast.iter_child_nodes(node):
        names = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*inside, child.name)
        if isinstance(child, ast.Call) and deletes(module, child):
            yield f"{module} {'.'.join(names)}"
        yield from deletions(module, child, names)


@cache
def deletions_of_the_code() -> frozenset[str]:
    """Return every function of the code that deletes something."""
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return frozenset(
        deletion
        for path in modules
        for deletion in deletions(path.relative_to(ROOT), ast.parse(path.read_text()))
    )


def deletions_of_the_table() -> list[str]:
    """Return the functions that the table names."""
    section = (ROOT / "docs" / "security.md").read_text().partition("## What is deleted")[2]
    rows = map(TABLE.match, section.partition("\n## ")[0].splitlines())
    return [f"{row['module']} {row['function']}" for row in rows if row]


def test_every_deletion_of_the_code_has_its_proof_in_the_table() -> None:
    """A new one needs a row: what it deletes, and how it knows that this is ackbench's."""
    assert deletions_of_the_code() - set(deletions_of_the_table()) == set()


def test_the_table_names_no_deletion_that_is_gone() -> None:
    """Or that was renamed; and none twice."""
    rows = deletions_of_the_table()
    assert set(rows) - deletions_of_the_code() == set()
    assert len(rows) == len(set(rows))


def test_a_deletion_is_recognized() -> None:
    """As a method, a function, a word of a command, or of the module `os`."""
    source = """
class A:
    def method(self): self.path.unlink()
def function(): rmtree("x")
def tool(): run(("ip", "link", "delete", "x"))
def word(): run_system_tool("umount", "x")
def own(): names.remove("x")
def module(): os.remove("x")
"""
    found = list(deletions(Path("infra/x.py"), ast.parse(source)))
    names = ("A.method", "function", "tool", "word", "module")
    assert found == [f"infra/x.py {name}" for name in names]
