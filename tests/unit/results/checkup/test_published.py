"""Ten published configurations: what vendors recommend, and what charts and tools have by default.

Each file has its source, its settings, and what `ackbench check` says of them. What it says was
compared with Kafka's documentation by hand; a change of the contract that changes it shows here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from ackbench.experiments.results.checkup.assembly import configuration_of
from ackbench.experiments.results.checkup.changes import ChangeSearch
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.diagnosis import Diagnosis, diagnose
from ackbench.experiments.results.checkup.files.found import SCOPES
from ackbench.experiments.results.checkup.files.reading import read_file
from ackbench.experiments.verdicts.guarantees import Guarantee, guarantee_named
from ackbench.infra.machine.home import REPOSITORY

FILES: Final = sorted((Path(__file__).parent / "published").glob("*.yaml"))


class Said(BaseModel):
    """What the check says of one guarantee."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    guaranteed: int
    """Under how many faults."""
    of: int
    """Faults that are possible with the settings."""
    under: tuple[str, ...] = ()
    """Some faults under which it is guaranteed."""
    not_under: tuple[str, ...] = ()
    """Some faults under which it is not."""
    smallest_change: str | None = None
    """`None`: no change is proposed."""


class Published(BaseModel):
    """One published configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    publishes: str
    nodes: int = 3
    replication_factor: int | None = None
    broker: dict[str, str] = Field(default_factory=dict)
    topic: dict[str, str] = Field(default_factory=dict)
    producer: dict[str, str] = Field(default_factory=dict)
    consumer: dict[str, str] | None = None
    says: dict[str, Said]


def read(path: Path) -> Published:
    """Return a published configuration."""
    return Published.model_validate(yaml.safe_load(path.read_text()))


def checked(published: Published, folder: Path) -> Configuration:
    """Return the settings as the command reads them, from property files."""
    found = []
    for scope in SCOPES:
        properties = getattr(published, scope)
        if properties:
            path = folder / f"{scope}.properties"
            lines = [f"{name}={value}" for name, value in properties.items()]
            path.write_text("\n".join(lines) + "\n")
            found.append(read_file(path, (scope,)))
    return configuration_of(
        found, nodes=published.nodes, replication_factor=published.replication_factor
    )


def said(diagnosis: Diagnosis, guarantee: Guarantee, expected: Said) -> Said:
    """Return what the check says, with the same faults named as are expected if that is right."""
    clauses = dict(diagnosis.of(guarantee))
    given = diagnosis.guaranteed(guarantee)
    first = next(ChangeSearch(diagnosis).improvements(guarantee), None)
    return Said(
        guaranteed=len(given),
        of=len(clauses),
        under=tuple(fault for fault in expected.under if fault in given),
        not_under=tuple(
            fault for fault in expected.not_under if fault in clauses and fault not in given
        ),
        smallest_change=" and ".join(map(str, first.changes)) if first else None,
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_published_configuration_has_the_guarantees_that_its_settings_have(
    path: Path, tmp_path: Path
) -> None:
    """Every guarantee that the file names: faults, how many, and the smallest change."""
    published = read(path)
    diagnosis = diagnose(checked(published, tmp_path))
    found = {
        name: said(diagnosis, guarantee_named(name), expected)
        for name, expected in published.says.items()
    }

    assert published.says
    assert found == published.says


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_document_has_the_figures_of_each(path: Path) -> None:
    """A new fault changes them."""
    published = read(path)
    text = (REPOSITORY / "docs/check.md").read_text().replace("**", "")
    (row,) = (line for line in text.splitlines() if f"({published.source})" in line)
    loss, duplicates, order = (
        published.says[name] for name in ("no-acked-loss", "no-duplicates", "order")
    )

    assert [cell.strip() for cell in row.split("|")[2:4]] == [
        f"{loss.guaranteed} of {loss.of}",
        f"{duplicates.guaranteed}, {order.guaranteed}",
    ]


def test_there_are_ten_with_a_source_each() -> None:
    """Of ten publishers or more kinds of use."""
    sources = [read(path).source for path in FILES]

    assert len(set(sources)) == len(FILES) == 10
    assert all(source.startswith("https://") for source in sources)
