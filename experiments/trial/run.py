"""The story of one trial, from a fresh topic to a sealed ledger. Nothing is judged here."""

from __future__ import annotations

import json
import secrets
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.clients.interface import Clients, clients_of
from experiments.clients.settings.kinds import answer_timeout_ms
from experiments.errors import HealFailed, TrialFailed
from experiments.events.journal import BROKER_COUNTERS, CRC_FAILED, Journal
from experiments.faults import FaultContext
from experiments.faults.composition.execution import InjectedFault, evidence_of, inject
from experiments.faults.core.narrative import narrative_of
from experiments.ledger.record import (
    ClusterAssignment,
    FaultEvidence,
    Phases,
    ProducerSummary,
    Status,
    TrialRecord,
)
from experiments.ledger.seal import seal
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import TrialSpec
from experiments.sweep.progress import Stages
from experiments.trial.clients import ClientOutput, TrialClients, topic_of
from experiments.trial.log_capture import STORED, LogCapture, stored_batches
from experiments.trial.metadata_poller import MetadataPoller
from infra.cluster.interface import Cluster
from infra.kafka.metrics import topic_counts
from infra.machine.home import Home

WHOLE_TIMEOUT_S: Final = 60.0
DIARY: Final = "diary.jsonl"
"""In the folder of a trial that is under way, or that the harness failed: what it was about."""


def run_trial(
    sweep: SweepFolder,
    spec: TrialSpec,
    cluster: Cluster,
    home: Home,
    cluster_assignment: ClusterAssignment | None = None,
) -> TrialRecord:
    """Run one trial on a cluster and seal its ledger.

    1. The cluster must be whole; a fresh topic is made.
    2. Producers and the reader start and warm up, outside the measured window.
    3. Steady load, open loop; it is seen to flow.
    4. The fault strikes a target that is resolved then, and heals.
    5. The load goes on to its end; every record settles, or its delivery timeout passes.
    6. The cluster must be whole again, with the full ISR.
    7. The whole log is read, from its start to the end offsets fixed now; the ledger is sealed.

    Args:
        sweep: where its ledger is written.
        spec: all there is to know of it.
        cluster: where it runs.
        home: the home.
        cluster_assignment: how it came by that cluster, to be kept.

    Raises:
        TrialFailed: the harness could not carry it to its end; what there is stays in the sweep's folder, with the reason.
        HealFailed: and its fault could not be undone.
    """
    partial = _fresh(sweep.partial(spec.trial_id))
    try:
        return _RunningTrial(sweep, spec, cluster, home, partial, cluster_assignment).run()
    except (
        Exception
    ) as error:  # an interrupt is no failure: its partial folder is written anew by whoever goes on
        _keep_remains(sweep, spec, partial, error)
        failed = HealFailed if isinstance(error, HealFailed) else TrialFailed
        raise failed(f"trial {spec.trial_id} ({spec.label}): {error}") from error


@dataclass(frozen=True)
class _FaultRun:
    """What came of the load and the fault."""

    struck: tuple[InjectedFault, ...]
    producers: tuple[ProducerSummary, ...]
    phases: Phases


@dataclass(frozen=True)
class _RunningTrial:
    sweep: SweepFolder
    spec: TrialSpec
    cluster: Cluster
    home: Home
    partial: Path
    cluster_assignment: ClusterAssignment | None

    def run(self) -> TrialRecord:
        stages, journal = Stages(self.sweep, self.spec.trial_id), Journal(self.partial / DIARY)
        with ExitStack() as clients:
            with stages("prepare", "making the topic, starting the clients"):
                self.cluster.wait_until_healthy(WHOLE_TIMEOUT_S)
                hearing = LogCapture.begin(self.cluster, topic_of(self.spec))
                bench = clients.enter_context(
                    TrialClients.prepared(
                        self.spec, self.cluster, self._clients(), self.partial, secrets.randbits(63)
                    )
                )
            with MetadataPoller(self.cluster, bench.topic, journal):
                course = self._course(bench, journal, stages)
            with stages("read", "reading the log"):
                self._note_what_brokers_counted(bench.topic, journal)
                measured = bench.read_to_the_end(course.producers)
                journal.note("reader", measured.reader.model_dump_json())
                for group in measured.groups:
                    journal.note("group", group.model_dump_json())
                for partition, told in stored_batches(
                    self.spec, self.cluster, bench.topic, course.phases.load_begin_ns
                ):
                    journal.note(STORED, told.model_dump_json(), partition=partition)
                for partition, offset in measured.refused_offsets.items():
                    journal.note(
                        CRC_FAILED,
                        "the final read was refused a batch, and read on without checking",
                        partition=partition,
                        offset=offset,
                    )
            with stages("hear", "reading what brokers and clients logged"):
                journal.keep(*hearing.broker_events(), *bench.client_events())
                evidence = self._evidence(course, journal)
            with stages("write", "writing the ledger"):
                tables = {**bench.tables(measured), "events": journal.table()}
                (self.partial / DIARY).unlink()  # all of it stands in the table
        record = self._record(bench, measured, course, evidence, stages)
        seal(self.partial, self.sweep.trial(self.spec.trial_id), record, tables)
        return record

    def _note_what_brokers_counted(self, topic: str, journal: Journal) -> None:
        """Ask each broker for its own counters, before anybody but the trial's clients has read; brokers that are somebody else's are not asked."""
        for node in self.cluster.status() if self.spec.workload.record_serving_brokers else ():
            if node.pid is not None and node.node_id <= self.spec.cluster.nodes:
                counts = topic_counts(
                    self.home.cache, self.spec.cluster.kafka_version, node.pid, topic
                )
                journal.note(BROKER_COUNTERS, json.dumps(counts), node=node.node_id)

    def _clients(self) -> Clients:
        return clients_of(self.spec.client, self.spec.cluster.kafka_version, self.home.cache)

    def _course(self, bench: TrialClients, journal: Journal, stages: Stages) -> _FaultRun:
        """Steps 3 to 6: load, fault, settle, heal; all of it under watch."""
        with stages("load", f"load, and {self.spec.fault.kind}"):
            load_begin_ns = bench.begin()
            journal.note("load_begin", at_ns=load_begin_ns)
            bench.wait_until_flowing()
            struck = self._strike(bench, load_begin_ns, journal)
            bench.wait_until_sent(load_begin_ns)
        with stages("settle", "waiting for the last acknowledgements"):
            producers = bench.wait_until_settled()
            settled = journal.note("settled")
        with stages("heal", "waiting for the full ISR"):
            self.cluster.wait_until_healthy(WHOLE_TIMEOUT_S)
            whole = journal.note("healthy")
        return _FaultRun(
            struck, producers, self._phases(journal, load_begin_ns, settled.at_ns, whole.at_ns)
        )

    def _strike(
        self, bench: TrialClients, load_begin_ns: int, journal: Journal
    ) -> tuple[InjectedFault, ...]:
        client_timeout_s = answer_timeout_ms(self.spec) / 1000
        return inject(
            self.spec.fault,
            FaultContext(
                self.cluster,
                bench.topic,
                load_begin_ns,
                journal,
                client_timeout_s,
                clients=bench.at_hand(),
            ),
        )

    def _evidence(self, course: _FaultRun, journal: Journal) -> FaultEvidence:
        """Complete the fault's own evidence by what was asked for, and by what the clients and the brokers told of its course."""
        told = evidence_of(
            self.spec.fault,
            course.struck,
            journal.events(),
            self.spec.producer["acks"],
            course.phases.load_end_ns,
        )
        return told.model_copy(
            update={"evidence": (*told.evidence, *narrative_of(journal.events()))}
        )

    def _phases(
        self, journal: Journal, load_begin_ns: int, settled_ns: int, healthy_ns: int
    ) -> Phases:
        begins, bites, ends = (
            journal.events("fault_begin"),
            journal.events("fault_effective"),
            journal.events("fault_end"),
        )
        return Phases(
            load_begin_ns=load_begin_ns,
            load_end_ns=load_begin_ns + round(self.spec.workload.duration_s * 1e9),
            fault_begin_ns=begins[0].at_ns if begins else None,
            fault_effective_ns=bites[0].at_ns if bites else None,
            fault_end_ns=ends[-1].at_ns if ends else None,
            settled_ns=settled_ns,
            healthy_ns=healthy_ns,
        )

    def _record(
        self,
        bench: TrialClients,
        measured: ClientOutput,
        course: _FaultRun,
        evidence: FaultEvidence,
        stages: Stages,
    ) -> TrialRecord:
        spec = self.spec
        return TrialRecord(
            sweep_id=spec.sweep_id,
            trial_id=spec.trial_id,
            experiment=spec.experiment,
            cell=spec.cell,
            label=spec.label,
            role=spec.role,
            repeat=spec.repeat,
            order=spec.order,
            seed=spec.seed,
            token=bench.token,
            status=Status.SEALED if evidence.took_effect else Status.VOID,
            reason=None
            if evidence.took_effect
            else "the fault did not bite: " + "; ".join(evidence.evidence),
            topic=bench.topic,
            cluster_assignment=self.cluster_assignment,
            kafka_version=spec.cluster.kafka_version,
            client=measured.producers[0].version,
            producer_settings=measured.producer_settings,
            consumer_settings=measured.consumer_settings,
            topic_settings=spec.topic,
            broker_settings=dict(self.cluster.broker_settings),
            replication_factor=spec.replication_factor,
            partitions=spec.partitions,
            rate_records_per_s=spec.workload.rate_records_per_s,
            record_size_bytes=spec.workload.record_size_bytes,
            duration_s=spec.workload.duration_s,
            fault=evidence,
            phases=course.phases,
            producers=measured.producers,
            end_offsets=measured.end_offsets,
            begin_offsets=measured.begin_offsets,
            record_serving_brokers=spec.workload.record_serving_brokers,
            replays=measured.replays.told if measured.replays else (),
            output_end_offsets=measured.output.end_offsets if measured.output else None,
            keying=spec.keying(),
            stages_s=stages.seconds,
        )


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _keep_remains(sweep: SweepFolder, spec: TrialSpec, partial: Path, error: Exception) -> None:
    """Give the unfinished trial's folder a name that says so; a failed trial is shown, never run again in silence."""
    failed = sweep.failed(spec.trial_id)
    shutil.rmtree(failed, ignore_errors=True)
    (partial / "reason.txt").write_text(f"{type(error).__name__}: {error}\n")
    partial.rename(failed)
