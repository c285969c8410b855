"""The DAGs of the experiments that have a schedule, with the tasks of `ackbench_sweep`.

The experiments are those of the catalogue, and of the operator's folder (`ackbench up --experiments
FOLDER`). A file that cannot be read is a DAG of its own that says so, and keeps no other from its
schedule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Final

from airflow.sdk import DAG, dag, task

from ackbench.dags.tasks import failing_in_one_line, sweep_dag
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_value, one_line
from ackbench.experiments.messages.visible import visible
from ackbench.experiments.orchestration.request import offered_files
from ackbench.experiments.planning.catalog import catalog_files
from ackbench.experiments.planning.catalog.loading import read_experiment
from ackbench.experiments.planning.experiment import Experiment

PREFIX: Final = "ackbench_"
UNREADABLE_PREFIX: Final = f"{PREFIX}unreadable."
"""Begins no id of an experiment: names have no dot and no underscore."""
RESERVED: Final = frozenset({"sweep", "prune"})
"""Names whose DAGs are others."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9-]")


def scheduled_dags() -> Sequence[DAG]:
    """Return a DAG for each experiment with a schedule, and for each file that cannot be read."""
    catalogue = catalog_files()
    names = {*RESERVED, *catalogue}
    return [*_dags_of(catalogue, {*RESERVED}), *_dags_of(offered_files(), names)]


def _dags_of(files: Mapping[str, Path], taken: set[str]) -> Iterator[DAG]:
    """Yield the DAGs of files.

    Args:
        files: by the name that a request has for them.
        taken: names of experiments that have a DAG; those of the files are added.
    """
    for requested, path in files.items():
        try:
            experiment = read_experiment(path)
            if experiment.schedule:
                yield _dag_of(requested, path, experiment, taken)
                taken.add(experiment.name)
        except Exception as error:  # noqa: BLE001 - one file must not keep the others from running
            yield _unreadable(path, one_line(visible(str(error))))


def _dag_of(requested: str, path: Path, experiment: Experiment, taken: Collection[str]) -> DAG:
    if experiment.name in taken:
        raise ExperimentError(
            f"{path}: name is {format_value(experiment.name)}, whose DAG is another one's: give "
            "the experiment a name of its own"
        )
    return sweep_dag(
        f"{PREFIX}{experiment.name}",
        experiment=requested,
        doc=f"# {experiment.title}\n\n{experiment.question}\n\n"
        f"Schedule: `{experiment.schedule}` (UTC). The documentation of `ackbench_sweep` describes "
        "the tasks.",
        schedule=experiment.schedule,
        display_name=f"ackbench {experiment.name}",
    )


def _unreadable(path: Path, problem: str) -> DAG:
    """Return the DAG of a file that cannot be scheduled: its only task fails with the reason."""
    stem = _UNSAFE.sub("_", path.stem)[:60]
    digest = blake2b(path.name.encode(), digest_size=4).hexdigest()

    @dag(
        dag_id=f"{UNREADABLE_PREFIX}{stem}" + ("" if stem == path.stem else f".{digest}"),
        dag_display_name=visible(f"ackbench: {path.name} cannot be scheduled"),
        doc_md=f"```\n{problem}\n```",
        schedule=None,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        default_args={"retries": 0, "owner": "ackbench"},
        tags=["ackbench", "unreadable"],
    )
    def unreadable() -> None:
        @task
        @failing_in_one_line
        def read() -> None:
            """Fail with what is wrong with the file."""
            raise ExperimentError(problem)

        read()

    return unreadable()


scheduled_dags()
