"""What the user of `ackbench up` may do by Airflow's own rules: run DAGs, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from ackbench.experiments.orchestration import services
from ackbench.infra.machine.home import Home

pytestmark = pytest.mark.further
METHODS: tuple[Literal["GET", "POST", "PUT", "DELETE"], ...] = ("GET", "POST", "PUT", "DELETE")


@pytest.fixture
def login(airflow: Home, tmp_path: Path) -> tuple[Any, Any]:
    """Return Airflow's rules, and the user as `ackbench up` names it to them."""
    del airflow
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    environment = services.services_of(Home(tmp_path), 1, 2, "secret")[0].environment
    name, role = environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(":")
    return SimpleAuthManager, SimpleAuthManagerUser(username=name, role=role)


def allowed(login: tuple[Any, Any], resource: str) -> list[str]:
    """Return the methods that the user may use on a resource."""
    rules, user = login
    check = getattr(rules, f"is_authorized_{resource}")
    return [method for method in METHODS if check(rules, method=method, user=user)]


@pytest.mark.parametrize("resource", ["variable", "connection"])
def test_the_user_neither_reads_nor_writes_what_references_are_read_from(
    login: tuple[Any, Any], resource: str
) -> None:
    """It could send a password of a connection to an address of its own."""
    assert allowed(login, resource) == []


@pytest.mark.parametrize("resource", ["pool", "asset", "configuration"])
def test_the_user_changes_nothing_of_the_installation(
    login: tuple[Any, Any], resource: str
) -> None:
    """More slots of the pool would run trials side by side; an event would start other DAGs."""
    assert allowed(login, resource) == ["GET"]


def test_the_user_starts_sweeps(login: tuple[Any, Any]) -> None:
    """And clears their tasks, and changes what these hand on."""
    assert allowed(login, "dag") == [*METHODS]
