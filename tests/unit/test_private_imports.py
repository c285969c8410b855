"""Every import of Airflow and of MLflow is documented there, or named here with its reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

import pytest

from ackbench.infra.machine.home import REPOSITORY

PUBLIC: Final = {
    "airflow.sdk": None,
    "airflow.sdk.exceptions": None,
    "airflow.exceptions": None,  # the same before Airflow 3.1
    "airflow.plugins_manager": {"AirflowPlugin"},
    "airflow.sdk.log": {"mask_secret"},
    "airflow.providers.openlineage.extractors": {"OperatorLineage"},
    "mlflow.entities": None,
    "mlflow.exceptions": None,
    "mlflow.tracking": {"MlflowClient", ""},
    "mlflow.server": {"app"},  # of plugins for the server
}
"""Modules that the documentation describes, with the names of it; `None`: all."""
OF_AIRFLOW: Final = {
    # The login of the page and API; plugins have no public name for it.
    "airflow.api_fastapi.core_api.security.get_user",
    # The log of a task whose process is dead: Airflow writes none, and nobody else can.
    "airflow.sdk.log.init_log_file",
    "airflow.utils.helpers.log_filename_template_renderer",
}
OF_MLFLOW: Final = {
    # One question to a server before a sweep. The client asks again for minutes, and its error
    # does not always have the status that tells a refused login from a server that is down.
    "mlflow.utils.credentials.get_default_host_creds",
    "mlflow.utils.rest_utils.http_request",
    # The server without its assistant, gateway and jobs, which has no public name, and the parser
    # of the one request that it refuses: another one could read the request in another way.
    "mlflow.server.fastapi_app.create_fastapi_app",
    "mlflow.server.handlers._get_request_message",
    "mlflow.protos.service_pb2.CreateExperiment",
    # Imported ahead, and not used.
    "mlflow.store.tracking.sqlalchemy_store.",
}


def imported(folder: str, package: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import of a package in a folder, in functions too."""
    for path in (REPOSITORY / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [(node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [(alias.name, "") for alias in node.names]
            else:
                continue
            yield from (one for one in names if one[0].split(".")[0] == package)


def is_public(module: str, name: str) -> bool:
    """Return whether the documentation of its package describes it."""
    names = PUBLIC.get(module, set())
    return names is None or name in names


@pytest.mark.parametrize(
    ("package", "folder", "private"),
    [
        ("airflow", "provider", set()),
        ("airflow", "dags", set()),
        ("airflow", "experiments", OF_AIRFLOW),
        ("airflow", "infra", set()),
        ("mlflow", "experiments", OF_MLFLOW),
        ("mlflow", "infra", set()),
    ],
)
def test_what_is_imported_is_public_or_named_here(
    package: str, folder: str, private: set[str]
) -> None:
    """The provider has to work with each release of Airflow 3."""
    found = {*imported(folder, package)}
    assert found or folder == "infra"
    assert {f"{module}.{name}" for module, name in found if not is_public(module, name)} == private


def test_the_provider_imports_nothing_of_ackbench() -> None:
    """It is not installed where Airflow runs."""
    for path in (REPOSITORY / "provider").rglob("*.py"):
        assert "import ackbench" not in path.read_text()
        assert "from ackbench" not in path.read_text()
