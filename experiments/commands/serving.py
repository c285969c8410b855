"""`ackbench up` and `ackbench env`: the services, and the environment that Airflow's own commands need."""

from __future__ import annotations

import os
import shlex

import click

from infra.home import Home


def env(home: Home) -> int:
    """Print the environment's differences from this one, as a shell reads them."""
    from experiments.orchestration.environment import airflow_environment

    for name, value in sorted(airflow_environment(home).items()):
        if os.environ.get(name) != value:
            click.echo(f"export {name}={shlex.quote(value)}")
    return 0
