"""`ackbench up` and `ackbench env`: the services, and the environment of Airflow's own commands."""

from __future__ import annotations

import importlib.util
import os
import shlex
from pathlib import Path
from typing import Final

from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.infra.errors import MachineError
from ackbench.infra.machine.home import Home


def env(home: Home) -> int:
    """Print, as shell commands, the environment variables that Airflow's own commands need.

    Their database is made if there is none.

    Raises:
        ModuleNotFoundError: Airflow is not installed.
        HarnessError: Airflow could not create it.
    """
    from ackbench.infra.airflow.environment import airflow_environment, ensure_database

    if importlib.util.find_spec("airflow") is None:
        raise ModuleNotFoundError(name="airflow")
    ensure_database(home, echo_error)
    for name, value in sorted(airflow_environment(home).items()):
        if os.environ.get(name) != value:
            echo(f"export {name}={shlex.quote(value)}")
    return 0


NO_LOGIN: Final = (
    "no login: every user and program of this machine can start sweeps, and administers Airflow"
)


def up(
    home: Home,
    *,
    airflow_port: int | None,
    mlflow_port: int | None,
    experiments: Path | None = None,
    login: bool = True,
    as_root: bool = False,
    metrics_port: int | None = None,
) -> int:
    """Start the services and wait until they are interrupted.

    Args:
        home: what they serve.
        airflow_port: the port of Airflow's page; `None`: the usual one.
        mlflow_port: the port of MLflow's page; `None`: the usual one.
        experiments: a folder of YAML files that requests may name; `None`: that of the environment.
        login: whether Airflow's page and API ask for a name and a password.
        as_root: serve also as root.
        metrics_port: the port of OpenMetrics; `None`: they are not served.

    Returns:
        The exit code.

    Raises:
        MachineError: a port is taken, the home cannot be written, a later version has set it up, or
            this user is root.
        HarnessError: a service did not become healthy.
    """
    from ackbench.experiments.commands.setup import set_up_of
    from ackbench.experiments.orchestration import services
    from ackbench.experiments.orchestration.request import EXPERIMENTS_VARIABLE
    from ackbench.experiments.orchestration.tracking.store import MLFLOW_PORT

    if os.geteuid() == 0 and not as_root:
        raise MachineError(
            "this user is root: whoever can log in to the pages could start processes as root. "
            "Start `ackbench up` as another user, or with --as-root for faults that need root"
        )
    set_up_of(home)
    if experiments:
        os.environ[EXPERIMENTS_VARIABLE] = str(experiments.resolve())
    if not login:
        echo_error(NO_LOGIN)
    services.up(
        home,
        airflow_port or services.AIRFLOW_PORT,
        mlflow_port or MLFLOW_PORT,
        login=login,
        metrics_port=metrics_port,
    )
    return 0
