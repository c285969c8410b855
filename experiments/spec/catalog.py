"""Finding experiments: by name in the catalogue, or in a file of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from experiments.errors import UnknownName
from experiments.spec.errors import nearest
from experiments.spec.model import Experiment, read_experiment

CATALOG: Final = Path(__file__).parents[1] / "catalog"


def catalogue() -> tuple[Experiment, ...]:
    """Return the catalogue's experiments, by name.

    Raises:
        ExperimentError: an entry is no experiment.
    """
    return tuple(read_experiment(path) for path in sorted(CATALOG.glob("*.yaml")))


def names() -> tuple[str, ...]:
    """Return the catalogue's names; no file is read."""
    return tuple(sorted(path.stem for path in CATALOG.glob("*.yaml")))


def load(name_or_file: str) -> Experiment:
    """Return an experiment of the catalogue, or of a file: what ends in `.yaml` or `.yml` or holds a slash is one.

    Raises:
        UnknownName: the catalogue has no such name; the text names the nearest.
        ExperimentError: the file cannot be read or is no experiment.
    """
    if "/" in name_or_file or name_or_file.endswith((".yaml", ".yml")):
        return read_experiment(Path(name_or_file).expanduser())
    if name_or_file not in names():
        raise UnknownName(f"unknown experiment {name_or_file}{nearest(name_or_file, names())} (`ackbench list`; a file's name ends in .yaml)")
    return read_experiment(CATALOG / f"{name_or_file}.yaml")
