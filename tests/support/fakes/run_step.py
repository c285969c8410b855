"""Run `ackbench step` with fakes for brokers, Spark and MLflow.

`run_step.py <arguments of ackbench>`; `run_step.py new <trials>` plans a sweep. The file `steps` of
the home gets what was run. The second trial hangs; `FAKE_LIMIT_S` is the limit of a step, seconds.
"""

import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.commands.cli import cli
from ackbench.infra.machine.home import Home

infrastructure = FakeInfrastructure(Home.from_environment(), hangs_at="001-abcdef")
infrastructure.install(lambda name, value: mock.patch(name, value).start())
if limit_s := os.environ.get("FAKE_LIMIT_S"):
    limited = "ackbench.experiments.orchestration.steps.limit_s"
    mock.patch(limited, return_value=float(limit_s)).start()
if sys.argv[1] == "new":
    infrastructure.sweep(int(sys.argv[2]))
    sys.exit()
try:
    cli.main(sys.argv[1:])
finally:
    if "airflow" in sys.modules:
        sys.exit("a step imports Airflow")
    with (infrastructure.home.root / "steps").open("a") as steps:
        steps.writelines(f"{step}\n" for step in infrastructure.steps)
