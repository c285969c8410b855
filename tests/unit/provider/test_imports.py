"""The provider imports Airflow's public interface alone, and nothing of ackbench."""

from __future__ import annotations

import ast
from pathlib import Path

from ackbench.infra.machine.home import REPOSITORY

PROVIDER = REPOSITORY / "provider"
PUBLIC = {
    "airflow.sdk",
    "airflow.sdk.exceptions",
    "airflow.exceptions",  # of Airflow 3.0
    "airflow.providers.openlineage.extractors",  # called by that provider alone
}


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, in functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_the_provider_imports_the_public_interface_of_airflow_alone() -> None:
    """Airflow's documentation names it: Task SDK, exceptions, and another provider's extractors."""
    modules = {name for path in PROVIDER.rglob("*.py") for name in imported(path)}
    assert {name for name in modules if name.split(".")[0] == "airflow"} == PUBLIC
    assert not {name for name in modules if name.split(".")[0] == "ackbench"}


def test_nothing_private_is_imported_or_used_of_airflow() -> None:
    """No name that begins with an underscore."""
    for path in PROVIDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("airflow."):
                parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                assert not [part for part in parts if part.startswith("_")], path
