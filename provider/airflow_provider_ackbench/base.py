"""The part that the operators share: ackbench is started, followed, stopped and checked."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, BaseOperatorLink, Connection

from airflow_provider_ackbench import DISTRIBUTION, __version__
from airflow_provider_ackbench.connections import KafkaCluster, UnusableConnection, kafka_cluster
from airflow_provider_ackbench.lineage import SweepLineage, ledger_uri, openlineage

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
except ImportError:  # Airflow 3.0
    from airflow.exceptions import AirflowException, AirflowFailException, AirflowSkipException  # type: ignore[attr-defined, no-redef]

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["AckbenchOperator", "AirflowException", "AirflowFailException", "AirflowSkipException"]

PYTHON_VARIABLE: Final = "ACKBENCH_PYTHON"
"""Names the interpreter of ackbench's own environment."""
SITE_VARIABLE: Final = "ACKBENCH_SITE_URL"
"""The address of the folder that `ackbench site` writes."""
INVALID_REQUEST: Final = 2
_PR_SET_PDEATHSIG: Final = 1
_VERSION_TIMEOUT_S: Final = 120.0


class ReportLink(BaseOperatorLink):
    """The sweep's page on the site, if there is a site."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the address; Airflow calls this in the worker, after the task."""
        del ti_key
        return report_address(getattr(operator, "sweep", None)) or ""


def report_address(sweep: object) -> str | None:
    """Return the page of a sweep on the site; `None`: there is no site, or no sweep."""
    site = os.environ.get(SITE_VARIABLE)
    name = sweep.partition("?")[0].rpartition("/")[2] if isinstance(sweep, str) else ""
    return f"{site.rstrip('/')}/sweeps/{name}.html" if name and site else None


class AckbenchOperator(BaseOperator):
    """Starts ackbench, a command of an environment of its own; its output is the task's log.

    Args:
        kafka_conn_id: a connection of type Kafka, as the experiment's external cluster; then
            `experiment` is a file.
        store: where to publish sealed trials and results, a URI; `None`: `ACKBENCH_STORE`.
        command: how ackbench is started; empty: the interpreter that `ACKBENCH_PYTHON` names, or
            `ackbench` on the PATH.
        home: ackbench's home; `None`: `ACKBENCH_HOME`, or its default.
        environment: further variables, secrets of `security` among them.
        stop_timeout_s: how long a stopped sweep may take to end, before it is killed.
    """

    template_fields: Sequence[str] = ("kafka_conn_id", "store", "command", "home", "environment")
    template_fields_renderers = {"environment": "json"}  # noqa: RUF012 - as Airflow's
    operator_extra_links = (ReportLink(),)
    ui_color = "#dbe7f3"
    _interrupt = staticmethod(os.kill)
    """Sends the command a signal; a process that it has started may be part of its work."""

    def __init__(
        self,
        *,
        kafka_conn_id: str | None = None,
        store: str | None = None,
        command: Sequence[str] = (),
        home: str | None = None,
        environment: Mapping[str, str] | None = None,
        stop_timeout_s: float = 120.0,
        **of_airflow: Any,
    ) -> None:
        super().__init__(**of_airflow)
        self.kafka_conn_id = kafka_conn_id
        self.store = store
        self.command = list(command)
        self.home = home
        self.environment = dict(environment or {})
        self.stop_timeout_s = stop_timeout_s
        self._lineage: SweepLineage | None = None
        self._last_line = ""
        self._process: subprocess.Popen[str] | None = None

    def on_kill(self) -> None:
        """End the sweep: the trial under way, its brokers, what it has in an external cluster."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.log.info("stopping the sweep; its sealed trials are kept")
        for stop, number in ((self._interrupt, signal.SIGINT), (os.killpg, signal.SIGKILL)):
            with suppress(ProcessLookupError):
                stop(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.stop_timeout_s)
                return

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what the task has read and written, for Airflow's listener for OpenLineage."""
        del task_instance
        return openlineage(self._lineage)

    @staticmethod
    def _refuse_backfill(context: Context) -> None:
        if getattr(context.get("dag_run"), "run_type", None) == "backfill":
            raise AirflowFailException(
                "a backfill would test the Kafka of today once for each day of the past: trigger "
                "the DAG instead"
            )

    def _command(self) -> list[str]:
        if self.command:
            return self.command
        python = self._variables().get(PYTHON_VARIABLE)
        if python:
            return [python, "-m", "ackbench"]
        found = shutil.which("ackbench", path=self._variables().get("PATH"))
        if found:
            return [found]
        raise AirflowFailException(
            f"ackbench is not on this worker: install it into an environment of its own, and set "
            f"{PYTHON_VARIABLE} to its interpreter"
        )

    def _require_same_version(self, command: Sequence[str]) -> None:
        """Check that ackbench is of this provider's release series."""
        try:
            ran = subprocess.run(
                [*command, "--version"],
                capture_output=True,
                text=True,
                timeout=_VERSION_TIMEOUT_S,
                env=self._variables(),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AirflowFailException(f"ackbench cannot be started: {error}") from None
        found = re.search(r"\b(\d+\.\d+)\.\d+", ran.stdout)
        if ran.returncode or found is None:
            last = (ran.stderr.strip() or ran.stdout.strip() or "no output").splitlines()[-1]
            raise AirflowFailException(f"ackbench cannot be started: {last}")
        if not __version__.startswith(f"{found[1]}."):
            raise AirflowFailException(
                f"ackbench {ran.stdout.split()[-1]} and {DISTRIBUTION} {__version__}: install the "
                "same release of both"
            )

    def _variables(self) -> dict[str, str]:
        home = {"ACKBENCH_HOME": self.home} if self.home else {}
        store = {"ACKBENCH_STORE": self.store} if self.store else {}
        return {**os.environ, **home, **store, **self.environment}

    def _secrets(self) -> dict[str, str]:
        """Return the secrets of the connection: a plan has their names."""
        return dict(self._cluster(self.kafka_conn_id).variables) if self.kafka_conn_id else {}

    def _experiment_in(self, folder: Path, experiment: str) -> str:
        """Return the experiment, of which a copy in a folder has the cluster of the connection."""
        if not self.kafka_conn_id:
            return experiment
        source = Path(experiment)
        try:
            text = self._cluster(self.kafka_conn_id).experiment(source.read_text())
        except (OSError, UnusableConnection) as error:
            raise AirflowFailException(str(error)) from None
        copy = folder / source.name
        copy.write_text(text)
        return str(copy)

    def _lineage_of(self, sweep: str, **more: Any) -> SweepLineage:
        """Return what a sweep reads and writes, as far as this task knows."""
        servers = self._cluster(self.kafka_conn_id).servers if self.kafka_conn_id else None
        return SweepLineage(sweep, servers, ledger_uri(sweep, self._variables()), **more)

    @staticmethod
    def _cluster(conn_id: str) -> KafkaCluster:
        try:
            return kafka_cluster(conn_id, Connection.get(conn_id).extra)
        except UnusableConnection as error:
            raise AirflowFailException(str(error)) from None

    def _run(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        follow: Callable[[str], None] = lambda _: None,
    ) -> int:
        """Run ackbench with its output in the log, and call `follow` with each line of it.

        Returns:
            Its exit code.
        """
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**variables},
            start_new_session=True,
            preexec_fn=_end_with_parent,  # noqa: PLW1509 - the child calls prctl(2) alone
        )
        with self._process as process:
            try:
                for line in process.stdout or ():
                    self.log.info("%s", line.rstrip())
                    self._last_line = line.strip() or self._last_line
                    follow(line)
            except BaseException:
                self.on_kill()
                raise
            return process.wait()


def _end_with_parent() -> None:
    """Have the kernel interrupt this process when the task's process is killed (prctl(2))."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
