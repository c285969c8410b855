"""A sweep's surroundings in memory: clusters are names, trials are sealed at once, and all that was done is kept in order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from support.builders.records import a_record, a_spec, no_rows
from support.fakes.cluster import MemoryCluster

from experiments.errors import HealFailed, TrialFailed
from experiments.ledger.record import ClusterAssignment, TrialRecord
from experiments.ledger.seal import seal
from experiments.orchestration.clusters import AssignedCluster
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import ClusterNeed, Plan, TrialSpec
from infra.cluster.interface import Cluster
from infra.errors import NodeFailed
from infra.machine.home import Home


@dataclass
class FakeSurroundings:
    """Stands where clusters, trials, Spark and MLflow do."""

    home: Home
    fails: frozenset[str] = frozenset()
    """Trials that the harness fails."""
    interrupted_at: str = ""
    """A trial in which somebody asks for the end."""
    hangs_at: str = ""
    """A trial that goes on until somebody asks for the end; `under-way` in the home tells that it has begun."""
    unhealed_at: str = ""
    """A trial whose fault cannot be undone."""
    no_cluster: bool = False
    did: list[str] = field(default_factory=list)

    def sweep(self, trials: int, sweep_id: str = "planted-20260101T000000-abcd") -> SweepFolder:
        """Plan a sweep of so many trials."""
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

    def ran(self) -> list[str]:
        """The trials that were begun, in order."""
        return [step.removeprefix("trial ") for step in self.did if step.startswith("trial ")]

    def provision(
        self, home: Home, sweep_id: str, need: ClusterNeed, holder_grace_s: float
    ) -> Cluster:
        """Provision nothing."""
        del home, need, holder_grace_s
        self.did.append("provision")
        if self.no_cluster:
            raise NodeFailed("node 2 did not start")
        return MemoryCluster(folder=Path("/nowhere", sweep_id))

    def assign_cluster(self, home: Home, trial: TrialSpec, holder_grace_s: float) -> AssignedCluster:
        """Find the cluster as it was."""
        del home, holder_grace_s
        return AssignedCluster(
            MemoryCluster(folder=Path("/nowhere", trial.sweep_id)),
            ClusterAssignment(cluster="001", made=False, why="there is but one"),
        )

    def destroy_all(self, home: Home, sweep_id: str) -> None:
        """Destroy nothing."""
        del home, sweep_id
        self.did.append("destroy")

    def run_trial(
        self,
        sweep: SweepFolder,
        spec: TrialSpec,
        cluster: Cluster,
        home: Home,
        cluster_assignment: ClusterAssignment,
    ) -> TrialRecord:
        """Seal an empty ledger, or fail as it was told to."""
        del cluster, home, cluster_assignment
        self.did.append(f"trial {spec.trial_id}")
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

    def _sealed(self, sweep: SweepFolder, spec: TrialSpec) -> TrialRecord:
        partial = sweep.partial(spec.trial_id)
        partial.mkdir()
        record = a_record(
            sweep_id=sweep.sweep_id,
            trial_id=spec.trial_id,
            cell=spec.cell,
            label=spec.label,
            order=spec.order,
        )
        seal(partial, sweep.trial(spec.trial_id), record, no_rows())
        return record

    def measure(self, sweep: SweepFolder, home: Home) -> None:
        """Measure nothing."""
        del sweep, home
        self.did.append("measure")

    def track(self, sweep: SweepFolder, home: Home) -> None:
        """Track nothing."""
        del sweep, home
        self.did.append("track")

    def take_the_place_of(self, setattr_: Callable[[str, object], object]) -> None:
        """Stand in, by way of a `monkeypatch.setattr`."""
        for name in ("provision", "assign_cluster", "destroy_all"):
            setattr_(f"experiments.orchestration.clusters.{name}", getattr(self, name))
        setattr_("experiments.trial.run.run_trial", self.run_trial)
        setattr_("experiments.results.spark_job.measure", self.measure)
        setattr_("experiments.tracking.store.track", self.track)
