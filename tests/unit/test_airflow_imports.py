"""Every import of Airflow: the provider's are public, and each private one of ackbench is named."""

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
}
"""Modules that Airflow's documentation describes, with the names of it; `None`: all."""
PRIVATE: Final = {
    # The login of the page and API; plugins have no public name for it.
    "airflow.api_fastapi.core_api.security.get_user",
    # The log of a task whose process is dead: Airflow writes none, and nobody else can.
    "airflow.sdk.log.init_log_file",
    "airflow.utils.helpers.log_filename_template_renderer",
}


def imported(folder: str) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import of Airflow in a folder, in functions too."""
    for path in (REPOSITORY / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [(node.module or "", alias.name) for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [(alias.name, "") for alias in node.names]
            else:
                continue
            yield from (one for one in names if one[0].split(".")[0] == "airflow")


def is_public(module: str, name: str) -> bool:
    """Return whether Airflow's documentation describes it."""
    names = PUBLIC.get(module, set())
    return names is None or name in names


@pytest.mark.parametrize(
    ("folder", "private"),
    [("provider", set()), ("dags", set()), ("experiments", PRIVATE), ("infra", set())],
)
def test_what_is_imported_of_airflow_is_public_or_named_here(
    folder: str, private: set[str]
) -> None:
    """The provider has to work with each release of Airflow 3."""
    found = {*imported(folder)}
    assert found or folder == "infra"
    assert {f"{module}.{name}" for module, name in found if not is_public(module, name)} == private


def test_the_provider_imports_nothing_of_ackbench() -> None:
    """It is not installed where Airflow runs."""
    for path in (REPOSITORY / "provider").rglob("*.py"):
        assert "import ackbench" not in path.read_text()
        assert "from ackbench" not in path.read_text()
