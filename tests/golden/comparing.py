"""Compares outputs with the golden files, or updates these."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILES: Final = Path(__file__).with_name("files")
_SHOWN_LINES: Final = 60
"""Of a difference; the rest is counted."""
_SHOWN_CHARACTERS: Final = 400


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
        if self.update:
            self.differences += found
        else:
            assert not found, "\n".join(
                [*found, "as intended? pytest tests/golden --update-golden"]
            )


def difference(name: str, before: str, after: str) -> Iterator[str]:
    """Yield a short unified difference; long lines are cut off around what differs."""
    lines = list(
        difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=1)
    )
    for line in lines[:_SHOWN_LINES]:
        yield line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]} ..."
    if len(lines) > _SHOWN_LINES:
        yield f"... and {len(lines) - _SHOWN_LINES:,} more lines in {name}"
