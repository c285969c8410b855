"""Run the DAG as `ackbench run` does, but with fakes for brokers, Spark and MLflow.

`embedded_run.py <mode>`: the second of three trials `hangs` or `fails`, or one trial `completes`.
"""

import os
import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from jsonschema import Draft202012Validator
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.orchestration import embedded
from ackbench.infra.machine.home import Home

MODE = sys.argv[1]
SECOND = "001-abcdef"

infrastructure = FakeInfrastructure(
    Home.from_environment(),
    hangs_at=SECOND if MODE == "hangs" else "",
    fails=frozenset({SECOND} if MODE == "fails" else ()),
)
infrastructure.install(lambda name, value: mock.patch(name, value).start())
# Airflow checks the schema of each parameter whenever it reads the parameter, for seconds.
mock.patch.object(Draft202012Validator, "check_schema").start()
umask = os.umask(0o077)
planned = infrastructure.sweep(1 if MODE == "completes" else 3).sweep_id
os.umask(umask)
code = embedded.main([planned])
(infrastructure.home.root / "steps").write_text("\n".join(infrastructure.steps))
sys.exit(code)
