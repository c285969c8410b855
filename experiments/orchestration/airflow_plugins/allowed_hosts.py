"""A plugin of Airflow's API server: requests for other hosts than this machine are refused.

Airflow has no setting for it. Without the check, a foreign page whose name has the address of this
machine (DNS rebinding) could send requests as if it were Airflow's own page.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ackbench.infra.machine.loopback import SERVED_HOSTS


class AllowedHosts(AirflowPlugin):
    """Adds Starlette's check of the Host header to all of the server's applications."""

    name = "ackbench_allowed_hosts"
    fastapi_root_middlewares: list[Any] = [  # noqa: RUF012 - Airflow's own attribute
        {
            "name": "allowed hosts",
            "middleware": TrustedHostMiddleware,
            "args": [],
            "kwargs": {"allowed_hosts": list(SERVED_HOSTS)},
        }
    ]
