"""The home folder, which holds all files that are written: `ACKBENCH_HOME`, or `.ackbench/`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from infra.errors import MachineError

REPOSITORY = Path(__file__).resolve().parents[2]
"""The clone of the project that this code runs from."""


@dataclass(frozen=True)
class Home:
    """Paths below the home folder. Creating a `Home` writes nothing."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home that `ACKBENCH_HOME` names, or the clone's own."""
        named = os.environ.get("ACKBENCH_HOME")
        return cls(Path(named).expanduser().resolve() if named else REPOSITORY / ".ackbench")

    @property
    def sweeps(self) -> Path:
        """One folder per sweep: the data from which everything else can be computed again."""
        return self.root / "sweeps"

    @property
    def tours(self) -> Path:
        """One folder per tour: which sweep answered which lesson, and the HTML page."""
        return self.root / "tours"

    @property
    def clusters(self) -> Path:
        """One folder per cluster: handle, supervisor socket and log, node data and node logs."""
        return self.root / "clusters"

    @property
    def cache(self) -> Path:
        """Jars, JVM startup caches and compiled code; deleted content is made again by set-up.

        A link to another home's cache is followed: the JVM uses a start-up cache only with the
        paths that it was trained with.
        """
        return (self.root / "cache").resolve()

    @property
    def published(self) -> Path:
        """Copies of the small files of published sweeps; deleted content is fetched again."""
        return self.root / "published"

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
        """The output of Airflow, Spark, librdkafka and MLflow, one folder per run."""
        return self.root / "logs"

    def ensure_writable(self) -> None:
        """Create the home folder where it is missing, and check that it can be written.

        Raises:
            MachineError: it cannot be created or written.
        """
        remedy = "set ACKBENCH_HOME to a writable folder"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise MachineError(
                f"cannot create the home folder {self.root} ({error.strerror}): {remedy}"
            ) from error
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise MachineError(f"the home folder {self.root} is not writable: {remedy}")
