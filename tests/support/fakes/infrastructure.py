"""Fakes of clusters, trials, Spark and MLflow for the DAG; they record the executed steps."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from support.builders.records import a_spec, no_rows, record_of
from support.fakes.cluster import MemoryCluster

from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.ledger.trial_manifest import ClusterAssignment, TrialManifest
from ackbench.experiments.messages.errors import HealFailed, TrialFailed
from ackbench.experiments.orchestration.clusters import AssignedCluster
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError, NodeFailed
from ackbench.infra.machine.home import Home


@dataclass
class FakeInfrastructure:
    """Replaces clusters, trials, Spark and MLflow, and records what the DAG calls."""

    home: Home
    fails: frozenset[str] = frozenset()
    """Trials that fail."""
    left: str = ""
    """Names that are left in an external cluster."""
    interrupted_at: str = ""
    """A trial that is interrupted."""
    hangs_at: str = ""
    """A trial that runs until it is interrupted; it creates `under-way` in the home first."""
    unhealed_at: str = ""
    """A trial whose fault cannot be healed."""
    no_cluster: bool = False
    steps: list[str] = field(default_factory=list)
    """The steps that the DAG has executed, in order."""

    def sweep(self, trials: int, sweep_id: str = "planted-20260101T000000-abcd") -> SweepFolder:
        """Plan a sweep with this number of trials."""
        specs = tuple(
            a_spec(
                sweep_id=sweep_id, trial_id=f"{n:03d}-abcdef", label=f"acks=1 number={n}", order=n
            )
            for n in range(trials)
        )
        sweep = SweepFolder(self.home.sweeps / sweep_id)
        sweep.write_plan(
            Plan(
                sweep_id=sweep_id,
                experiment="planted",
                question="?",
                seed=42,
                repeats=1,
                trials=specs,
                refused=(),
            )
        )
        return sweep

    def started_trials(self) -> list[str]:
        """Return the ids of the started trials, in order."""
        return [step.removeprefix("trial ") for step in self.steps if step.startswith("trial ")]

    def provision(self, home: Home, trial: TrialSpec, holder_grace_s: float) -> Cluster:
        """Return a cluster in memory, or fail."""
        del home, holder_grace_s
        self.steps.append("provision")
        if self.no_cluster:
            raise NodeFailed("node 2 did not start")
        return MemoryCluster(folder=Path("/nowhere", trial.sweep_id))

    def assign_cluster(
        self, home: Home, trial: TrialSpec, holder_grace_s: float
    ) -> AssignedCluster:
        """Assign the only cluster."""
        del home, holder_grace_s
        return AssignedCluster(
            MemoryCluster(folder=Path("/nowhere", trial.sweep_id)),
            ClusterAssignment(cluster="001", made=False, why="it is the only cluster"),
        )

    def destroy_all(self, home: Home, sweep_id: str) -> HarnessError | None:
        """Record the call; return what is left in an external cluster."""
        del home, sweep_id
        self.steps.append("destroy")
        return HarnessError(self.left) if self.left else None

    def run_trial(
        self,
        sweep: SweepFolder,
        spec: TrialSpec,
        cluster: Cluster,
        home: Home,
        cluster_assignment: ClusterAssignment,
    ) -> TrialManifest:
        """Seal an empty ledger, or fail as configured."""
        del cluster, home, cluster_assignment
        self.steps.append(f"trial {spec.trial_id}")
        if spec.trial_id == self.interrupted_at:
            os.kill(os.getpid(), signal.SIGINT)
        if spec.trial_id == self.hangs_at:
            (self.home.root / "under-way").touch()
            threading.Event().wait(60)
        if spec.trial_id in self.fails:
            sweep.failed(spec.trial_id).mkdir()
            (sweep.failed(spec.trial_id) / "reason.txt").write_text("NodeFailed: node 3 died\n")
            raise TrialFailed(f"trial {spec.trial_id} ({spec.label}): node 3 died")
        if spec.trial_id == self.unhealed_at:
            sweep.failed(spec.trial_id).mkdir()
            raise HealFailed("the rules of node 2 could not be deleted")
        return self._sealed(sweep, spec)

    def _sealed(self, sweep: SweepFolder, spec: TrialSpec) -> TrialManifest:
        partial = sweep.partial(spec.trial_id)
        partial.mkdir()
        record = record_of(spec)
        seal(partial, sweep.trial(spec.trial_id), record, no_rows())
        return record

    def measure(self, sweep: SweepFolder, home: Home, *, skip_unfit: bool) -> None:
        """Record the call."""
        del sweep, home, skip_unfit
        self.steps.append("measure")

    def track(self, sweep: SweepFolder, home: Home) -> None:
        """Record the call."""
        del sweep, home
        self.steps.append("track")

    def install(self, setattr_: Callable[[str, object], object]) -> None:
        """Replace the real functions, with a function such as `monkeypatch.setattr`."""
        for name in ("provision", "assign_cluster", "destroy_all"):
            setattr_(f"ackbench.experiments.orchestration.clusters.{name}", getattr(self, name))
        setattr_("ackbench.experiments.trial.run.run_trial", self.run_trial)
        setattr_("ackbench.experiments.results.spark_job.measure", self.measure)
        setattr_("ackbench.experiments.orchestration.tracking.store.track", self.track)
