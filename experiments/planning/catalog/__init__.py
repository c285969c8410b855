"""The catalogue's experiments: their files, and how large they are, without reading or planning.

`extents.json` has the extents with the digest of each experiment's file, for lists and forms:
planning the whole catalogue takes seconds. `make extents` writes it (`planning.extents`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pydantic import RootModel

from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.markdown import table
from ackbench.experiments.messages.phrases import format_count

CATALOG: Final = Path(__file__).parents[2] / "catalog"
EXTENTS: Final = CATALOG / "extents.json"


@cache
def catalog_files() -> Mapping[str, Path]:
    """Return the files of the catalogue's experiments by their names, sorted, without reading them.

    Those of known bugs are in a folder of their own.
    """
    return MappingProxyType(dict(sorted((path.stem, path) for path in CATALOG.rglob("*.yaml"))))


def catalog_names() -> tuple[str, ...]:
    """Return the names of the catalogue's experiments, sorted, without reading the files."""
    return tuple(catalog_files())


class ExperimentExtent(Frozen):
    """An experiment in a list: what it asks, and how large it is."""

    title: str
    lesson: int | None
    """Of its claim; `None`: it has none."""
    is_bug: bool
    """It is about a known bug."""
    schedule: str | None
    compared: str
    """The axes in which its cells differ, with their values; empty: it has one cell."""
    cells: int
    refused: int
    """Cells that the client refuses."""
    repeats: int
    controls: int
    """Trials that are only controls."""
    minutes: int
    """Expected duration of its sweep."""

    def text(self) -> str:
        """Return the number of cells, repeats and controls, and the expected minutes."""
        refused = f", {format_count(self.refused, 'cell')} refused by the client"
        return (
            f"{format_count(self.cells, 'cell')} x {format_count(self.repeats, 'repeat')}"
            f"{refused if self.refused else ''}, {format_count(self.controls, 'control trial')}: "
            f"about {format_count(self.minutes, 'minute')}"
            f"{f'; scheduled {self.schedule}' if self.schedule else ''}"
        )


class StoredExtent(ExperimentExtent):
    """An extent, and what it was planned from."""

    digest: str
    """SHA-256 of the experiment's file."""


class StoredExtents(RootModel[dict[str, StoredExtent]]):
    """The content of `extents.json`, by experiment."""


@cache
def stored_extents() -> Mapping[str, ExperimentExtent]:
    """Return the extents of the experiments whose files are as they were when they were planned."""
    stored = StoredExtents.model_validate_json(EXTENTS.read_bytes()).root
    return MappingProxyType(
        {
            name: stored[name]
            for name in catalog_files()
            if name in stored and stored[name].digest == digest_of_file(name)
        }
    )


def as_markdown() -> str:
    """Return a table of the experiments, with their cells and minutes."""
    rows = (
        (f"`{name}`", one.title, f"{one.cells}", f"{one.repeats}", f"{one.minutes}")
        for name, one in stored_extents().items()
    )
    return "\n".join(table(("experiment", "question", "cells", "trials of each", "minutes"), rows))


def digest_of_file(name: str) -> str:
    """Return the SHA-256 of an experiment's file."""
    return hashlib.sha256(catalog_files()[name].read_bytes()).hexdigest()
