"""Run the steps as `ackbench run` does, but with fakes for brokers, Spark and MLflow.

`run_steps.py <mode>`: the second of three trials `hangs` or `fails`, there is `no-cluster`, or
one trial `completes`. The file `steps` of the home gets what was run.
"""

import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.orchestration import runner
from ackbench.infra.machine.home import Home

MODE = sys.argv[1]
SECOND = "001-abcdef"

infrastructure = FakeInfrastructure(
    Home.from_environment(),
    hangs_at=SECOND if MODE == "hangs" else "",
    fails=frozenset({SECOND} if MODE == "fails" else ()),
    no_cluster=MODE == "no-cluster",
)
infrastructure.install(lambda name, value: mock.patch(name, value).start())
umask = os.umask(0o077)
planned = infrastructure.sweep(1 if MODE == "completes" else 3).sweep_id
os.umask(umask)
code = runner.main([planned])
if "airflow" in sys.modules:
    sys.exit("a run imports Airflow")
(infrastructure.home.root / "steps").write_text("\n".join(infrastructure.steps))
sys.exit(code)
