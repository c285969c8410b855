"""An installation that its user cannot write: its DAGs, and the files of the operator's folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.users import AS_NOBODY, NOBODY, only_one_user

from ackbench.infra.airflow.environment import airflow_environment, database_of
from ackbench.infra.machine.home import REPOSITORY, Home

PROGRAM = """
import json
from pathlib import Path
from airflow.dag_processing.dagbag import DagBag
from ackbench.infra.airflow.environment import DAGS_FOLDER
from ackbench.experiments.orchestration.request import offered_files
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.infra.machine.home import REPOSITORY, Home
try:
    (REPOSITORY / "experiments" / "catalog" / "written.yaml").touch()
    written = True
except OSError:
    written = False
found = DagBag(dag_folder=str(DAGS_FOLDER))
sweep = new_sweep(Home.from_environment(), str(offered_files()["mine.yaml"]))
print(json.dumps([written, found.import_errors, sorted(found.dag_ids), sweep.plan().experiment]))
"""
TEXT = """\
name: my-night
title: A night
question: Is everything as it was?
schedule: "0 2 * * *"
controls: false
axes: {acks: all, enable.idempotence: true, replication.factor: 1, partitions: 1, fault: none}
"""


@pytest.fixture
def nobodys(airflow: Home) -> Iterator[Path]:
    """Yield a folder of the user `nobody`, who cannot write what root has installed."""
    if reason := only_one_user():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = Home(folder / "home")
        home.airflow.mkdir(parents=True)
        (folder / "mine.yaml").write_text(TEXT)
        shutil.copyfile(database_of(airflow), database_of(home))
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        yield folder


@pytest.mark.further
@pytest.mark.root
def test_a_read_only_installation_schedules_the_files_of_the_operators_folder(
    nobodys: Path,
) -> None:
    """And plans their sweeps: only the home is written."""
    environment = {
        **airflow_environment(Home(nobodys / "home")),
        "ACKBENCH_EXPERIMENTS": str(nobodys),
        "HOME": "/nonexistent",
    }
    ran = subprocess.run(
        [*AS_NOBODY, sys.executable, "-c", PROGRAM],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    written, errors, dag_ids, planned = json.loads(ran.stdout.splitlines()[-1])

    assert not written
    assert errors == {}
    assert {"ackbench_my-night", "ackbench_sweep", "ackbench_prune"} <= {*dag_ids}
    assert planned == "my-night"
