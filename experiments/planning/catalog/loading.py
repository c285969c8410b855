"""The catalogue of experiments: one YAML file per experiment in `experiments/catalog/`.

An experiment is found by its name in the catalogue, or as any YAML file by its path. The finding of
its claim is a file of `experiments/results/lessons/findings`, known here by its name only.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.errors import ExperimentError, UnknownName
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.planning.catalog import catalog_files
from ackbench.experiments.planning.experiment import Experiment, parse_experiment
from ackbench.experiments.planning.yaml_reader import read_yaml, without_units
from ackbench.infra.machine.paths import user_path

FINDINGS: Final = Path(__file__).parents[2] / "results" / "lessons" / "findings"


@cache  # the files belong to the installation, and parsing them takes a second
def catalog_experiments() -> tuple[Experiment, ...]:
    """Return the experiments of the catalogue, sorted by name.

    Raises:
        ExperimentError: a file of the catalogue is not a valid experiment.
    """
    return tuple(read_experiment(path) for path in catalog_files().values())


def load_experiment(name_or_file: str) -> Experiment:
    """Return an experiment of the catalogue, or the one in a file.

    Args:
        name_or_file: as of `experiment_file`.

    Raises:
        UnknownName, InputError: as `experiment_file`.
        ExperimentError: the file cannot be read or is not a valid experiment.
    """
    return read_experiment(experiment_file(name_or_file))


def experiment_file(name_or_file: str) -> Path:
    """Return the file of an experiment.

    Args:
        name_or_file: a path if it contains a slash or ends in `.yaml` or `.yml`, else a name of the
            catalogue.

    Raises:
        UnknownName: the catalogue has no experiment of that name; the message suggests one.
        InputError: the path begins with `~` and a user who does not exist.
    """
    if "/" in name_or_file or name_or_file.endswith((".yaml", ".yml")):
        return user_path(name_or_file)
    files = catalog_files()
    if name_or_file not in files:
        raise UnknownName(
            f"unknown experiment {name_or_file}{did_you_mean(name_or_file, files)} "
            "(`ackbench list` shows all; the name of a file ends in .yaml)"
        )
    return files[name_or_file]


def read_experiment(path: Path) -> Experiment:
    """Return the experiment in a file. Names of axes, properties and faults are not resolved yet.

    Raises:
        ExperimentError: the file cannot be read, is not YAML or not a valid experiment.
    """
    return parse_experiment(without_units(read_yaml(path)), str(path))


def finding_names() -> tuple[str, ...]:
    """Return the names that `claim.finding` may have, sorted."""
    files = (*FINDINGS.glob("*.yaml"), *FINDINGS.glob("*.py"))
    return tuple(sorted(path.stem for path in files if path.stem != "__init__"))


def check_finding(name: str) -> None:
    """Check that a finding exists, without loading it.

    Raises:
        ExperimentError: `experiments/results/lessons/findings` has no file of that name.
    """
    names = finding_names()
    if name not in names:
        raise ExperimentError(
            f"claim.finding is {name}, which is no lesson of experiments/results/lessons/findings"
            f"{did_you_mean(name, names)}"
        )
