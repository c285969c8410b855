"""The house rules of CONTRIBUTING.md: where code is, how long a line is, which words are used."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("dags", "experiments", "infra", "spark_jobs", "src")
MOST_MODULES: Final = 20
"""In one folder: more than a reader keeps in mind."""
COLUMNS: Final = 100
WORDS: Final = {
    "told": "name what was reported: rows, events, sentences",
    "foretold": "expected, predicted",
    "lodging": "cluster assignment",
    "nursery": "fork server",
    "testimony": "log capture",
    "lookout": "metadata poller",
    "undoubted": "first unfenced view",
    "stands still": "is paused, is unavailable",
    "stood still": "was paused, was unavailable",
    "in good order": "cleanly (SIGTERM, controlled shutdown)",
    "somebody else": "external, another process",
    "taken for dead": "fenced, removed from the ISR",
    "let in again": "unfenced",
    "reader along": "concurrent consumer",
    "reads along": "concurrent consumer",
    "reading back": "final read",
    "arrived twice": "duplicated",
    "stored twice": "duplicated",
    "did not bite": "had no observable effect",
    "ended without a word": "exited without output",
    "the request cannot be": "invalid request",
    "behind such": "after such",
}
"""Words of a private dialect, and what Kafka's own documentation would write."""
PROSE: Final = (".py", ".md", ".yaml", ".html", ".js")


def tracked(*folders: str) -> tuple[Path, ...]:
    """Return the project's files below some folders; without git, all but hidden ones."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if listed.returncode == 0:
        paths = [ROOT / line for line in listed.stdout.splitlines()]
    else:
        roots = [ROOT / folder for folder in folders]
        paths = [path for root in roots for path in (root, *root.rglob("*"))]
    hidden = re.compile(r"/(\.|__pycache__)")
    return tuple(
        path for path in paths if path.is_file() and not hidden.search(f"/{path.relative_to(ROOT)}")
    )


def modules() -> tuple[Path, ...]:
    """Return the product's Python files."""
    return tuple(path for path in tracked(*PACKAGES) if path.suffix == ".py")


def lines_with(pattern: re.Pattern[str], files: tuple[Path, ...]) -> Iterator[str]:
    """Yield `file:line: text` of each line that a pattern is found in."""
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if pattern.search(line):
                yield f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_no_folder_has_more_modules_than_a_reader_keeps_in_mind() -> None:
    """A package that grows further is several."""
    folders: dict[Path, int] = defaultdict(int)
    for path in modules():
        folders[path.parent] += path.name != "__init__.py"
    assert len(folders) > len(PACKAGES)
    assert {str(folder): count for folder, count in folders.items() if count > MOST_MODULES} == {}


def test_no_module_stands_beside_the_packages() -> None:
    """Each is in a room."""
    loose = {path.name for path in (ROOT / "experiments").glob("*.py")}
    assert loose == {"__init__.py"}


def test_every_package_states_what_belongs_there() -> None:
    """In the docstring of its `__init__`."""
    folders = {path.parent for path in modules()}
    silent = [str(folder) for folder in folders if not docstring(folder / "__init__.py")]
    assert folders
    assert silent == []


def docstring(path: Path) -> str | None:
    """Return a module's docstring; None when the file is missing or has none."""
    return ast.get_docstring(ast.parse(path.read_text())) if path.is_file() else None


def test_no_two_classes_share_a_name() -> None:
    """One name, one meaning; private names may repeat from module to module."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert places
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_conditional_expression_stands_inside_another() -> None:
    """It is an if statement, or a table."""
    nested = []
    for path in tracked(*PACKAGES, "tests"):
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.IfExp):
                    continue
                parts = (node.test, node.body, node.orelse)
                if any(isinstance(inner, ast.IfExp) for part in parts for inner in ast.walk(part)):
                    nested.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert nested == []


def test_each_file_that_a_document_names_is_there() -> None:
    """A module that moves takes its mentions along."""
    named = re.compile(rf"\b(?:{'|'.join((*PACKAGES, 'tests'))})/[\w/-]+\.(?:py|yaml)")
    documents = [
        path for path in tracked("docs", "README.md", "CONTRIBUTING.md") if path.suffix == ".md"
    ]
    found = {name for path in documents for name in named.findall(path.read_text())}
    assert len(found) > len(documents)
    assert sorted(name for name in found if not (ROOT / name).is_file()) == []


def test_lines_of_the_documents_fit_on_a_screen() -> None:
    """Code is checked by ruff; tables, links and code blocks of documents may be longer."""
    long = []
    for path in tracked("docs", "README.md", "CONTRIBUTING.md"):
        fenced = False
        if path.suffix != ".md":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            fenced ^= line.startswith("```")
            free = fenced or line.startswith(("|", "![", "<!--")) or "](" in line
            if len(line) > COLUMNS and not free:
                long.append(f"{path.relative_to(ROOT)}:{number}")
    assert long == []


def test_every_decision_has_a_number_of_its_own() -> None:
    """Two branches may each add the next one."""
    files = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [int(path.name[:4]) for path in files]
    assert numbers == list(range(1, len(files) + 1))
    assert [int(path.read_text().split(".")[0].lstrip("# ")) for path in files] == numbers


def test_the_words_are_those_of_kafka_s_own_documentation() -> None:
    """In code, docstrings, messages, the catalogue, the report and the documents."""
    files = tuple(
        path
        for path in tracked(*PACKAGES, "tests", "docs", "README.md", "CONTRIBUTING.md")
        if path.suffix in PROSE and path != Path(__file__)
    )
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, WORDS))})\b", re.IGNORECASE)
    assert len(files) > len(PACKAGES)
    assert list(lines_with(pattern, files)) == []


def test_nothing_names_a_host_of_a_package_registry_or_a_path_of_a_machine() -> None:
    """Packages and jars come from where pip and jgo are set to look."""
    pattern = re.compile(r"/root/|/home/\w+/|pypi\.org|repo1?\.maven|files\.pythonhosted")
    files = tuple(path for path in tracked(*PACKAGES, "docs", "README.md") if path.suffix in PROSE)
    assert list(lines_with(pattern, files)) == []
