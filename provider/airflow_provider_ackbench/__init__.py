"""Sweeps of ackbench in a team's own Airflow: operators, DAGs of them, and a Kafka connection.

ackbench runs in an environment of its own, which a variable of the worker names. So this package
needs Airflow's Task SDK alone, of any release of Airflow 3.
"""

from __future__ import annotations

from typing import Any, Final

DISTRIBUTION: Final = "airflow-provider-ackbench"
__version__ = "0.1.0"
"""That of the ackbench that it starts, in its first two numbers."""


def get_provider_info() -> dict[str, Any]:
    """Return what Airflow reads of a provider."""
    return {
        "package-name": DISTRIBUTION,
        "name": "ackbench",
        "description": "Runs sweeps of ackbench: what does Kafka lose when brokers fail?",
        "versions": [__version__],
        "extra-links": ["airflow_provider_ackbench.base.ReportLink"],
        "asset-uris": [
            {
                "schemes": ["ackbench"],
                "handler": None,
                "to_openlineage_converter": "airflow_provider_ackbench.lineage.asset_dataset",
            }
        ],
    }
