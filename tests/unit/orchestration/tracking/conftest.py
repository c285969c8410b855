"""MLflow's database is created once: it takes longer than any of these tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackbench.experiments.orchestration.tracking import store


@pytest.fixture(scope="session", autouse=True)
def _created_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    create, made = store._create_store, tmp_path_factory.mktemp("mlflow") / "mlflow.db"

    def copy(database: Path) -> None:
        if not made.is_file():
            create(made)
        shutil.copyfile(made, database)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "_create_store", copy)
        yield
