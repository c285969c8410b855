"""`ackbench up` and `ackbench env`: the services, and the environment of Airflow's own commands."""

from __future__ import annotations

import os
import shlex

import click

from infra.machine.home import Home


def env(home: Home) -> int:
    """Print, as shell commands, the environment variables that Airflow's own commands need."""
    from experiments.orchestration.environment import airflow_environment

    for name, value in sorted(airflow_environment(home).items()):
        if os.environ.get(name) != value:
            click.echo(f"export {name}={shlex.quote(value)}")
    return 0


def up(home: Home, *, airflow_port: int | None, mlflow_port: int | None) -> int:
    """Start the services and wait until they are interrupted.

    Raises:
        MachineError: a port is taken, or the home cannot be written.
        HarnessError: a service did not become healthy.
    """
    from experiments.orchestration import services
    from experiments.tracking.store import MLFLOW_PORT

    services.up(home, airflow_port or services.AIRFLOW_PORT, mlflow_port or MLFLOW_PORT)
    return 0
