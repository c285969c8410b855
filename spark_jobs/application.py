"""Where trials are measured: a context with a JVM of its own, or a session of a Connect server.

    spark_jobs.session -> spark_jobs.distribution    RDDs: local, standalone, YARN, Kubernetes
    spark_jobs.connect                               DataFrames of Arrow: sc://HOST:PORT

Both run the same functions of `spark_jobs.pipeline` in their tasks, and the results are the same
bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ackbench.spark_jobs.distribution import MeasuredTrials
    from ackbench.spark_jobs.io.ledgers import Ledgers


class Application(ABC):
    """An application of Spark that is running."""

    @abstractmethod
    def setting(self, name: str) -> str | None:
        """Return the value of a setting; `None`: it is not set."""

    @abstractmethod
    def failures(self) -> AbstractContextManager[None]:
        """Return a context that turns the failure of a job into its reason, if that is known.

        Raises:
            SparkSetupError: in it, the job cannot run as Spark is configured; one line.
            SparkJobError: in it, the job failed for another reason.
        """

    @abstractmethod
    def end_jobs(self) -> None:
        """End the jobs that are running."""

    @property
    @abstractmethod
    def has_ended(self) -> bool:
        """Whether the application is known to have ended."""

    @abstractmethod
    def measure_trials(self, ledgers: Ledgers, unit_records: int) -> MeasuredTrials:
        """Measure each trial.

        Args:
            ledgers: the sealed trials; the tasks open the same location.
            unit_records: the most records of a unit, which bounds the memory of a task.
        """
