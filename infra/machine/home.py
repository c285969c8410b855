"""The one folder everything is written below: `ACKBENCH_HOME`, or `.ackbench/` in the clone."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from infra.errors import MachineError

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Home:
    """Where things lie below the home folder; making one touches nothing."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home that `ACKBENCH_HOME` names, or the clone's own."""
        named = os.environ.get("ACKBENCH_HOME")
        return cls(Path(named).expanduser().resolve() if named else REPOSITORY / ".ackbench")

    @property
    def sweeps(self) -> Path:
        """One folder a sweep: the truth, from which everything else can be made again."""
        return self.root / "sweeps"

    @property
    def tours(self) -> Path:
        """One folder a tour through the lessons: which sweep answered which, and the page."""
        return self.root / "tours"

    @property
    def clusters(self) -> Path:
        """One folder a cluster: its handle, its supervisor's socket and log, its nodes' data and logs."""
        return self.root / "clusters"

    @property
    def cache(self) -> Path:
        """Jars, start-up caches and compiled code; may be deleted, set-up makes it again."""
        return self.root / "cache"

    @property
    def airflow(self) -> Path:
        """Airflow's home: its database, configuration and logs."""
        return self.root / "airflow"

    @property
    def mlflow(self) -> Path:
        """The embedded MLflow store: `mlflow.db` and `artifacts/`."""
        return self.root / "mlflow"

    @property
    def logs(self) -> Path:
        """What Airflow, Spark, librdkafka and MLflow have to say, a folder a run."""
        return self.root / "logs"

    def ensure_writable(self) -> None:
        """Make the folder.

        Raises:
            MachineError: it cannot be made or written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(
                f"the home folder {self.root} cannot be made ({error.strerror}): set ACKBENCH_HOME to one that can"
            ) from error
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise MachineError(
                f"the home folder {self.root} cannot be written: set ACKBENCH_HOME to one that can"
            )


# ---------- SQLite files as SQLAlchemy's URLs name them.


LOCK_TIMEOUT_S: Final = 60
"""How long to wait for another process's write, instead of failing after 5 s (`sqlite3.connect`'s default)."""


def sqlite_url(database: Path) -> str:
    """Return the URL of a file; SQLAlchemy 2.1 unquotes the path, so a `%` or `?` in it must be quoted."""
    return f"sqlite:///{quote(str(database), safe='/ ')}?timeout={LOCK_TIMEOUT_S}"
