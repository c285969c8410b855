"""Golden files: outputs and messages in `tests/golden`, each compared in one place.

A plugin of pytest: `--update-golden` writes the files and prints what has changed in them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[1]
FILES: Final = TESTS / "golden" / "files"
MESSAGES: Final = TESTS / "golden" / "messages"
"""One file per module of tests, with what its tests say, by their names."""
_SHOWN_LINES: Final = 60
"""Of a difference; the rest is counted."""
_SHOWN_CHARACTERS: Final = 400
_HEAD: Final = "==== "
_SECTION: Final = re.compile(rf"^{_HEAD}(.*)\n((?:(?!{_HEAD}).*\n)*)", re.MULTILINE)


@dataclass
class GoldenFiles:
    """The golden files; with `--update-golden` they become what is compared with them."""

    update: bool
    differences: list[str] = field(default_factory=list)
    """Of the files that were updated."""

    def compare(self, folder: str, outputs: Mapping[str, str]) -> None:
        """Compare outputs with the files of a folder, by their names.

        Raises:
            AssertionError: some differ; the message is a short unified difference.
        """
        found = list[str]()
        for name, text in outputs.items():
            path = FILES / folder / name
            before = path.read_text(encoding="utf-8") if path.is_file() else ""
            if text != before:
                found += difference(f"{folder}/{name}", before, text)
                if self.update:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
        self._report(found)

    def compare_message(self, path: Path, key: str, text: str) -> None:
        """Compare a message with that of a test in the file of its module.

        Raises:
            AssertionError: as in `compare`.
        """
        known = messages_in(path)
        if known.get(key) == text:
            return
        found = list(difference(key, known.get(key, ""), text))
        if self.update:
            sections = sorted({**known, key: text}.items())
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(f"{_HEAD}{name}\n{said}" for name, said in sections))
        self._report(found)

    def compare_rows(self, document: Path, section: str, rows: Iterable[str]) -> None:
        """Compare rows with those of a section's table in a Markdown document.

        Args:
            document: the file.
            section: its heading, such as `## trials`.
            rows: without the table's head.

        Raises:
            AssertionError: as in `compare`.
        """
        text = document.read_text(encoding="utf-8")
        head = rf"(?<=\n{re.escape(section)}\n)(?:(?!\|---)[^\n]*\n)*\|---[^\n]*\n"
        table = re.compile(rf"{head}((?:\|[^\n]*\n)+)")
        found = table.search(text)
        assert found, f"{document.name} has no table in the section {section}"
        now = "".join(f"{row}\n" for row in rows)
        if now != found[1]:
            if self.update:
                document.write_text(text[: found.start(1)] + now + text[found.end(1) :])
            self._report(list(difference(f"{document.name} {section}", found[1], now)))

    def _report(self, found: list[str]) -> None:
        if self.update:
            self.differences += found
        else:
            assert not found, "\n".join([*found, "as intended? Run pytest with --update-golden"])


class Says:
    """Compares what a test gets to read with the file of its module in `tests/golden/messages`."""

    def __init__(self, golden: GoldenFiles, item: pytest.Item) -> None:
        module = item.path.relative_to(TESTS)
        stem = module.stem.removeprefix("test_")
        self._golden, self._path = golden, MESSAGES / module.parent / f"{stem}.txt"
        self._name, self._calls = item.name, 0

    def __call__(self, said: str | Iterable[str] | None) -> None:
        """Compare a text, or several lines.

        Raises:
            AssertionError: it is another one; the message is a short unified difference.
        """
        self._calls += 1
        key = self._name if self._calls == 1 else f"{self._name} ({self._calls})"
        text = said if isinstance(said, str) else "\n".join(said or ["(nothing)"])
        self._golden.compare_message(self._path, key, f"{text.rstrip()}\n")


def messages_in(path: Path) -> dict[str, str]:
    """Return the messages of a file by test."""
    if not path.is_file():
        return {}
    text = f"{path.read_text(encoding='utf-8')}\n"
    return {key: f"{said.rstrip()}\n" for key, said in _SECTION.findall(text)}


def difference(name: str, before: str, after: str) -> Iterator[str]:
    """Yield a short unified difference; long lines are cut off."""
    lines = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=1)
    )
    for line in lines[:_SHOWN_LINES]:
        yield line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]} ..."
    if len(lines) > _SHOWN_LINES:
        yield f"... and {len(lines) - _SHOWN_LINES:,} more lines in {name}"


_FILES: Final = pytest.StashKey[GoldenFiles]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that updates the golden files."""
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files, print what changed"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make the golden files of this session."""
    config.stash[_FILES] = GoldenFiles(config.getoption("--update-golden"))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what has changed in the files that were updated."""
    for line in config.stash[_FILES].differences:
        terminalreporter.write_line(line)


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> GoldenFiles:
    """Return the golden files."""
    return pytestconfig.stash[_FILES]


@pytest.fixture
def says(golden: GoldenFiles, request: pytest.FixtureRequest) -> Says:
    """Return the function that compares what this test gets to read."""
    return Says(golden, request.node)
