"""Where the tasks of a sweep run: all on this machine, or each on a host with a home of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, Protocol

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.orchestration.permission import check_plan
from ackbench.experiments.orchestration.step_context import TASK_START_GRACE_S, SweepRun
from ackbench.experiments.sweep import published, several_hosts
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import list_sweeps, sweep_of_id
from ackbench.experiments.sweep.trial_lock import own_dag_run
from ackbench.infra.airflow.environment import ONE_MACHINE
from ackbench.infra.machine.home import Home


class TaskHosts(Protocol):
    """The operations that depend on where the tasks run."""

    share_home: ClassVar[bool]
    """`True`: they share a home, and the cluster that one of them has started.

    Else each batch of trials is complete in itself (`batches`).
    """

    def cluster_grace_s(self) -> float:
        """Return how long a cluster outlives the process that uses it."""

    def name_of(self, sweep: SweepFolder) -> str:
        """Return how the tasks name a sweep: by its id, or by its URI on other hosts."""

    def planned_by(self, store: Location | None, dag_run: str) -> str | None:
        """Return the id of the sweep that a DAG run has planned elsewhere.

        Raises:
            StorageError: the store cannot be read.
        """

    def sweep_to_resume(self, home: Home, sweep_id: str, store: Location | None) -> SweepFolder:
        """Return the sweep of a home, or of the store, if another host has planned it.

        Raises:
            UnknownName: there is no such sweep.
            InputError, StorageError: as `several_hosts.check_out`.
        """

    def resume(self, sweep: SweepFolder) -> Sequence[str]:
        """Let trials run again that were locked or stopped, and return what was done, in lines.

        Raises:
            TrialLocked, StorageError: as `several_hosts.resume`.
        """

    def publish_plan(self, run: SweepRun, store: Location, dag_run: str | None) -> None:
        """Keep where a new sweep is published, and publish its plan.

        Raises:
            StorageError: other hosts would not find the plan, so nothing is left of the sweep.
        """


class _OneMachine:
    share_home: ClassVar[bool] = True

    def cluster_grace_s(self) -> float:
        return 0.0 if own_dag_run() is None else TASK_START_GRACE_S

    def name_of(self, sweep: SweepFolder) -> str:
        return sweep.sweep_id

    def planned_by(self, _store: Location | None, _dag_run: str) -> None:
        return None

    def sweep_to_resume(self, home: Home, sweep_id: str, _store: Location | None) -> SweepFolder:
        return sweep_of_id(home, sweep_id)

    def resume(self, sweep: SweepFolder) -> Sequence[str]:
        return several_hosts.resume(sweep, complete=True)

    def publish_plan(self, run: SweepRun, store: Location, _dag_run: str | None) -> None:
        published.keep_store(run.sweep, store, several_hosts=False)
        run.publish(published.publish_plan)


class _SeveralHosts:
    share_home: ClassVar[bool] = False

    def cluster_grace_s(self) -> float:
        return 0.0

    def name_of(self, sweep: SweepFolder) -> str:
        return published.published_uri(sweep) or sweep.sweep_id

    def planned_by(self, store: Location | None, dag_run: str) -> str | None:
        return several_hosts.planned_by(store, dag_run) if store else None

    def sweep_to_resume(self, home: Home, sweep_id: str, store: Location | None) -> SweepFolder:
        known = {sweep.sweep_id for sweep in list_sweeps(home)}
        if not store or sweep_id in known or "/" in sweep_id:
            return sweep_of_id(home, sweep_id)
        uri = store.at(sweep_id).uri
        return several_hosts.check_out(home, uri, partial(check_plan, argument=uri))

    def resume(self, sweep: SweepFolder) -> Sequence[str]:
        return several_hosts.resume(sweep, complete=False)

    def publish_plan(self, run: SweepRun, store: Location, dag_run: str | None) -> None:
        published.keep_store(run.sweep, store, several_hosts=True)
        if not_published := run.publish(published.publish_plan):
            shutil.rmtree(run.sweep.root)
            raise not_published
        if dag_run:
            several_hosts.note_dag_run(store, dag_run, run.sweep.sweep_id)


_ONE_MACHINE: Final = _OneMachine()
_SEVERAL_HOSTS: Final = _SeveralHosts()


def task_hosts() -> TaskHosts:
    """Return where the tasks of this process run, as its environment has it."""
    return _ONE_MACHINE if os.environ.get(ONE_MACHINE) else _SEVERAL_HOSTS
