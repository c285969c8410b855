"""Run one trial: from a new topic to a sealed ledger. `run_trial` has the steps, in order."""

from __future__ import annotations

import json
import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.ledger.trial_manifest import (
    ClusterAssignment,
    FaultEvidence,
    Phases,
    Status,
    TrialManifest,
)
from ackbench.experiments.messages.errors import HealFailed, TrialFailed
from ackbench.experiments.sweep.folder import REASON, SweepFolder
from ackbench.experiments.sweep.host import this_host
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.sweep.progress import StageTimer
from ackbench.experiments.trial.clients.interface import client_factory
from ackbench.experiments.trial.clients.settings.kinds import request_timeout_ms
from ackbench.experiments.trial.clients.settings.permissions import missing_permission
from ackbench.experiments.trial.disturbances import Disturbances
from ackbench.experiments.trial.events.journal import (
    BROKER_COUNTERS,
    CRC_FAILED,
    JOURNAL_FILE,
    Journal,
)
from ackbench.experiments.trial.faults import FaultContext
from ackbench.experiments.trial.faults.composition.execution import (
    InjectedFault,
    evidence_of,
    inject,
)
from ackbench.experiments.trial.faults.core.context import HeldNodes
from ackbench.experiments.trial.faults.core.narrative import narrative_of
from ackbench.experiments.trial.jobs import TrialNames
from ackbench.experiments.trial.log_capture import STORED, LogCapture, batch_table, stored_batches
from ackbench.experiments.trial.metadata_poller import MetadataPoller
from ackbench.experiments.trial.stall_sampler import StallSampler
from ackbench.experiments.trial.trial_clients import ClientResults, TrialClients
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.errors import HarnessError, NodeFailed
from ackbench.infra.kafka.metrics import topic_metrics
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.resources import full_disk

HEALTHY_TIMEOUT_S: Final = 60.0
_LOG: Final = logging.getLogger(__name__)


def run_trial(
    sweep: SweepFolder,
    spec: TrialSpec,
    cluster: Cluster,
    home: Home,
    cluster_assignment: ClusterAssignment | None = None,
) -> TrialManifest:
    """Run one trial on a cluster and seal its ledger.

    1. Wait until the cluster is healthy.
    2. Create the topic; start and warm up producers, the concurrent consumer and groups. From here
       to step 8 the metadata poller notes each change of leader, ISR and controller, and the stall
       sampler what keeps the trial's processes from running.
    3. Start the load, open loop, and wait until every producer has an acknowledgement.
    4. Inject the fault, into targets that are resolved now, and heal it.
    5. Wait until the end of the load.
    6. Wait until every record is settled, or its delivery timeout has passed.
    7. Wait until the cluster is healthy again, with the full ISR.
    8. Fix the end offsets and read the log from its begin to them (the final read).
    9. Collect the events that brokers and clients logged, and complete the fault's evidence.
    10. Write the tables, stop the clients, seal the ledger, and delete the topic.

    Warm-up (2) and everything after the load (6 to 10) is outside the measured time.

    Args:
        sweep: the sweep's folder; the ledger is written there.
        spec: the trial.
        cluster: the cluster to run on.
        home: the home, for its cache of Kafka's jars.
        cluster_assignment: why the trial got this cluster, for the manifest.

    Raises:
        TrialFailed: a step failed. The trial's folder is kept as failed, with the reason.
        HealFailed: a step failed and the fault could not be healed.
    """
    partial, names = _create_empty(sweep.partial(spec.trial_id)), TrialNames.of(spec)
    journal = Journal(partial / JOURNAL_FILE)
    disturbances = Disturbances(cluster, journal)
    with _kept_on_failure(sweep, spec, partial, disturbances):
        stages = StageTimer(sweep, spec.trial_id)
        factory = client_factory(spec, home.cache)
        with ExitStack() as running:
            with stages("prepare", "creating the topic, starting the clients"):
                cluster.wait_until_healthy(HEALTHY_TIMEOUT_S)
                logs = LogCapture.start(cluster, names.topic)
                clients = running.enter_context(
                    TrialClients.start(spec, names, cluster, factory, partial, secrets.randbits(63))
                )
                running.enter_context(disturbances.of_clients(clients.unexpected_exits))
            held = HeldNodes()
            with StallSampler(clients.watched_processes, cluster, held, journal):
                with MetadataPoller(cluster, clients.topic, journal):
                    with stages("load", f"load, and {spec.fault.kind}"):
                        load_begin_ns = clients.begin()
                        journal.note("load_begin", at_ns=load_begin_ns)
                        clients.wait_until_flowing()
                        journal.note("flowing")
                        faults = _inject_fault(spec, clients, load_begin_ns, disturbances, held)
                        clients.wait_until_sent(load_begin_ns)
                    with stages("settle", "waiting for the last acknowledgements"):
                        disturbances.restart_nodes()
                        producers = clients.wait_until_settled()
                        settled_ns = journal.note("settled").at_ns
                    with stages("heal", "waiting for the full ISR"):
                        disturbances.restart_nodes()
                        cluster.wait_until_healthy(HEALTHY_TIMEOUT_S)
                        healthy_ns = journal.note("healthy").at_ns
                phases = _phases(spec, journal, load_begin_ns, settled_ns, healthy_ns)
                with stages("read", "reading the log"):
                    _note_broker_counters(spec, cluster, home, clients.topic, journal)
                    results = clients.read_results(producers)
                    _note_results(results, journal)
                    for partition, batches in stored_batches(
                        spec, cluster, clients.topic, load_begin_ns
                    ):
                        journal.note(STORED, batches.model_dump_json(), partition=partition)
                    stored = batch_table(spec, cluster, clients.topic)
            with stages("logs", "reading the logs of brokers and clients"):
                journal.add(*logs.broker_events(), *clients.events())
                disturbances.note()
                evidence = _complete_evidence(spec, faults, journal, phases)
            with stages("write", "writing the ledger"):
                tables = {**clients.tables(results), "events": journal.table()}
                if stored is not None:
                    tables["batches"] = stored
                (partial / JOURNAL_FILE).unlink()  # the table `events` has all of it
        manifest = _manifest(spec, clients, cluster, results, phases, evidence).model_copy(
            update={
                **_status(evidence, disturbances.sentences()),
                "cluster_assignment": cluster_assignment,
                "host": this_host(home.root),
                "stages_s": stages.seconds,
                "record_batches": stored is not None,
            }
        )
        sealed = seal(partial, sweep.trial(spec.trial_id), manifest, tables)
    _delete_topics(spec, clients)
    return sealed


def _delete_topics(spec: TrialSpec, clients: TrialClients) -> None:
    """Delete the trial's topics; the ledger is sealed, so that a failure costs no trial."""
    try:
        clients.delete_topics()
    except HarnessError as error:
        # A log that keeps the error itself keeps its frames, and so the clients' mapped files.
        _LOG.warning("trial %s is sealed, but its topic stays: %s", spec.trial_id, str(error))


@contextmanager
def _kept_on_failure(
    sweep: SweepFolder, spec: TrialSpec, partial: Path, disturbances: Disturbances
) -> Iterator[None]:
    """Keep the folder of a trial that fails, renamed and with the reason.

    A failed trial is reported and never run again on its own. An interrupt is no failure: the next
    run starts the trial again. On a full disk the tables are deleted, which are incomplete, so that
    there is room for the reason. What was awaited in vain may be due to a process that has exited:
    that comes first, and of a node that is still down also the end of its log.
    """
    try:
        yield
    except Exception as error:
        interrupt = _interrupt_before(error)
        if interrupt and not (isinstance(error, HealFailed) and spec.cluster.external):
            raise interrupt from error  # the cluster ends with the run, healed or not
        failed, first = sweep.failed(spec.trial_id), disturbances.reasons_of(error)
        exited = _exited_node(error, disturbances.cluster)
        full = full_disk(exited or error, sweep.root)
        shutil.rmtree(failed, ignore_errors=True)
        for table in partial.glob("*.parquet") if full else ():
            table.unlink()
        needed = missing_permission(str(error)) if spec.cluster.traits.shared else None
        more = "".join(f"; {sentence}" for sentence in (full, exited, needed) if sentence)
        text = f"{'; '.join((*first, str(error)))}{more}"
        with suppress(OSError):  # the error itself matters more
            replace_file(partial / REASON, f"{type(error).__name__}: {text}\n")
        if partial.exists():
            partial.rename(failed)
        kind = HealFailed if isinstance(error, HealFailed) else TrialFailed
        raise kind(f"trial {spec.trial_id} ({spec.label}): {text}") from error


def _interrupt_before(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt during whose cleanup an error occurred; `None`: it was in none."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _exited_node(error: Exception, cluster: Cluster) -> NodeFailed | None:
    """Return that a node has exited on its own, unless that is the error already."""
    if not isinstance(error, HarnessError) or isinstance(error, NodeFailed):
        return None
    try:
        cluster.wait_until_healthy(0)
    except NodeFailed as exited:
        return exited
    except HarnessError:
        _LOG.info("after %s the cluster is not healthy either", type(error).__name__)
    return None


def _create_empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _inject_fault(
    spec: TrialSpec,
    clients: TrialClients,
    load_begin_ns: int,
    disturbances: Disturbances,
    held: HeldNodes,
) -> tuple[InjectedFault, ...]:
    context = FaultContext(
        disturbances.cluster,
        clients.topic,
        load_begin_ns,
        disturbances.journal,
        client_timeout_s=request_timeout_ms(spec) / 1000,
        clients=clients.processes(),
        load_duration_s=spec.workload.duration_s,
        expected_exits=disturbances.expected,
        held_nodes=held,
    )
    return inject(spec.fault, context)


def _phases(
    spec: TrialSpec, journal: Journal, load_begin_ns: int, settled_ns: int, healthy_ns: int
) -> Phases:
    begins = journal.events("fault_begin")
    effects = journal.events("fault_effective")
    ends = journal.events("fault_end")
    return Phases(
        load_begin_ns=load_begin_ns,
        load_end_ns=load_begin_ns + round(spec.workload.duration_s * 1e9),
        fault_begin_ns=begins[0].at_ns if begins else None,
        fault_effective_ns=effects[0].at_ns if effects else None,
        fault_end_ns=ends[-1].at_ns if ends else None,
        settled_ns=settled_ns,
        healthy_ns=healthy_ns,
    )


def _note_broker_counters(
    spec: TrialSpec, cluster: Cluster, home: Home, topic: str, journal: Journal
) -> None:
    """Note each broker's own counters of the topic, before anything but the trial's clients reads.

    Controllers have none, and the JVMs of an external cluster are not accessible.
    """
    for node in cluster.status() if spec.workload.record_serving_brokers else ():
        if node.pid is not None and node.node_id <= spec.cluster.nodes:
            counters = topic_metrics(home.cache, spec.cluster.kafka_version, node.pid, topic)
            journal.note(BROKER_COUNTERS, json.dumps(counters), node=node.node_id)


def _note_results(results: ClientResults, journal: Journal) -> None:
    """Note how far the concurrent consumer and the groups came, and batches with a wrong CRC."""
    journal.note("consumer_end", results.consumer.model_dump_json())
    for group in results.groups:
        journal.note("group", group.model_dump_json())
    for partition, offset in results.crc_failed_offsets.items():
        journal.note(
            CRC_FAILED,
            "the CRC of a batch does not match; the final read went on without CRC checks",
            partition=partition,
            offset=offset,
        )


def _complete_evidence(
    spec: TrialSpec, faults: tuple[InjectedFault, ...], journal: Journal, phases: Phases
) -> FaultEvidence:
    """Return the fault's evidence and what brokers and clients logged about its effects."""
    evidence = evidence_of(
        spec.fault,
        faults,
        journal.events(),
        spec.producer["acks"],
        phases.load_end_ns,
        request_timeout_ms(spec) / 1000,
    )
    return evidence.model_copy(
        update={"evidence": (*evidence.evidence, *narrative_of(journal.events()))}
    )


def _status(evidence: FaultEvidence, disturbances: tuple[str, ...]) -> dict[str, Any]:
    """Return status, reason and disturbances: a disturbed trial is void, whatever its fault did."""
    reasons = [*disturbances, *filter(None, [evidence.why_not_sealed])]
    return {
        "status": Status.VOID if disturbances else evidence.status,
        "reason": "; ".join(reasons) or None,
        "disturbances": disturbances,
    }


def _manifest(
    spec: TrialSpec,
    clients: TrialClients,
    cluster: Cluster,
    results: ClientResults,
    phases: Phases,
    evidence: FaultEvidence,
) -> TrialManifest:
    return TrialManifest(
        sweep_id=spec.sweep_id,
        trial_id=spec.trial_id,
        experiment=spec.experiment,
        cell=spec.cell,
        label=spec.label,
        role=spec.role,
        repeat=spec.repeat,
        order=spec.order,
        seed=spec.seed,
        token=clients.token,
        status=evidence.status,
        hung_clients=results.hung,
        topic=clients.topic,
        kafka_version=spec.cluster.kafka_version,
        client=results.producers[0].version,
        producer_settings=results.producer_settings,
        consumer_settings=results.consumer_settings,
        topic_settings=spec.topic,
        broker_settings=dict(cluster.broker_settings),
        replication_factor=spec.replication_factor,
        partitions=spec.partitions,
        rate_records_per_s=spec.workload.rate_records_per_s,
        record_size_bytes=spec.workload.record_size_bytes,
        duration_s=spec.workload.duration_s,
        fault=evidence,
        phases=phases,
        producers=results.producers,
        end_offsets=results.end_offsets,
        begin_offsets=results.begin_offsets,
        record_serving_brokers=spec.workload.record_serving_brokers,
        replays=results.replays.replays if results.replays else (),
        output_end_offsets=results.output.end_offsets if results.output else None,
        keying=spec.keying(),
        stages_s={},
    )
