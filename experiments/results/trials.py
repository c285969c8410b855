"""The result of each trial, joined from the plan, `trial.json` and the Spark job's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ackbench.experiments.ledger.quantities import TRIAL_FIELDS, QuantitySource, values_of
from ackbench.experiments.ledger.result_terms import (
    MIN_OUTAGE_NS,
    QUANTILES,
    TIMELINE_SLOT_NS,
    Fate,
    Phase,
    Side,
)
from ackbench.experiments.ledger.trial_manifest import Phases, Scalar, Status, TrialManifest
from ackbench.experiments.results.models import (
    Fates,
    FaultResult,
    Gap,
    Latencies,
    PhaseLatencies,
    Quantiles,
    TrialResult,
)
from ackbench.experiments.results.rows import ResultRows, Row
from ackbench.experiments.results.stalls import stall_sentences
from ackbench.experiments.results.stored import StoredContents
from ackbench.experiments.sweep.folder import REASON
from ackbench.experiments.sweep.plan import RefusedCell, TrialSpec
from ackbench.experiments.sweep.workload import LOAD_SECTIONS

MAX_BACKLOG_NS: Final = MIN_OUTAGE_NS // 2
"""A load whose acknowledgements are later than this was more than the cluster could do."""
LATE_MS: Final = 50.0
"""How late the load generator may be, milliseconds at the 99th percentile of a trial's records.

A trial beyond it is marked, and included. The limit is ten times the lateness on an idle machine,
and a hundredth of the outages that are measured.
"""
NS_PER_MS: Final = 1e6
US_PER_MS: Final = 1e3
_NS_PER_S: Final = 1e9


def recovered_before_heal(phases: Phases, gaps: Sequence[Row], acks: str) -> bool | None:
    """Return whether every partition that was unavailable accepted records again before the heal.

    Args:
        phases: the trial's.
        gaps: each partition's gaps without an acknowledgement, at least those of an outage's
            length.
        acks: the producer's; with `0` no broker confirms that it appended a record.

    Returns:
        `None` if unknown: no fault, no heal, no partition, or acks=0; or no producer ran for so
        long at the heal that only what is left of a gap, which is no outage, was observed.
    """
    if phases.fault_begin_ns is None or phases.fault_end_ns is None or not gaps or acks == "0":
        return None
    heal_ns = phases.fault_end_ns
    at_heal = [gap for gap in gaps if gap["began_ns"] < heal_ns <= gap["ended_ns"]]
    if any(gap["gap_ns"] >= MIN_OUTAGE_NS for gap in at_heal):
        return False
    hidden = any(gap["gap_ns"] + gap["stalled_ns"] >= MIN_OUTAGE_NS for gap in at_heal)
    return None if hidden else True


def kept_up_before_fault(phases: Phases, timeline: Sequence[Row]) -> bool | None:
    """Return whether the cluster had acknowledged the load in time until the fault began.

    Otherwise partitions wait for acknowledgements because of the load, and it is unknown which of
    them the fault made unavailable.

    Args:
        phases: the trial's.
        timeline: its rows of `experiments.ledger.result_tables.TIMELINE`.

    Returns:
        Whether as many records were acknowledged as had been sent up to half a second before the
        fault; `None` without a fault.
    """
    if phases.fault_begin_ns is None:
        return None
    until_fault_ns = phases.fault_begin_ns - phases.load_begin_ns
    acked = _records_until(timeline, "acked_records", until_fault_ns)
    return acked >= _records_until(timeline, "sent_records", until_fault_ns - MAX_BACKLOG_NS)


def _records_until(timeline: Sequence[Row], column: str, until_ns: int) -> int:
    """Return the records of all slots that ended until a time after the begin of the load."""
    ended = until_ns // TIMELINE_SLOT_NS
    return sum(row[column] for row in timeline if row["slot"] < ended)


def readable_before_heal(phases: Phases, readers: Sequence[Row], acks: str) -> bool | None:
    """Return whether the concurrent consumer received what was acknowledged, before the heal.

    A partition was not readable if an acknowledged record waited for a second or longer, and the
    consumer still had received nothing more when the fault was healed. It was readable if the
    consumer received a record in the last second before the heal. Otherwise nothing was
    acknowledged that it could have received. The time in which the harness kept the consumer from
    running does not count as waiting.

    Args:
        phases: the trial's.
        readers: its rows of `experiments.ledger.result_tables.READERS`.
        acks: the producer's; with `0` no broker confirms that it appended a record.

    Returns:
        `None` if unknown: no fault, no heal, acks=0, no consumer of the topic, or a partition that
        acknowledged nothing during the fault that the consumer could have received.
    """
    if phases.fault_begin_ns is None or phases.fault_end_ns is None or acks == "0":
        return None
    readable = [_is_readable(row, phases.fault_begin_ns, phases.fault_end_ns) for row in readers]
    if False in readable:
        return False
    return True if readable and None not in readable else None


def _is_readable(row: Row, begin_ns: int, heal_ns: int) -> bool | None:
    unread_since_ns, last_read_ns = row["unread_since_ns"], row["last_read_ns"]
    if unread_since_ns is not None:
        waited_ns = heal_ns - unread_since_ns - row["stalled_ns"]
        if waited_ns >= MIN_OUTAGE_NS:
            return False
    earliest_ns = max(begin_ns, heal_ns - MIN_OUTAGE_NS)
    return True if last_read_ns is not None and last_read_ns > earliest_ns else None


def trial_results(stored: StoredContents) -> tuple[TrialResult, ...]:
    """Return the results of the refused, failed and complete trials of a sweep, by id."""
    planned = {spec.trial_id: spec for spec in stored.plan.trials}
    trials = (
        *(refused_trial(cell) for cell in stored.plan.refused),
        *(
            complete_trial(manifest, stored.rows, added=planned[trial_id].added)
            for trial_id, manifest in stored.manifests.items()
        ),
        *(failed_trial(planned[trial_id], reason) for trial_id, reason in stored.failures.items()),
        *(
            unfit_trial(trial_id, planned.get(trial_id), reason)
            for trial_id, reason in stored.left_out.items()
        ),
    )
    return tuple(sorted(trials, key=lambda trial: trial.trial_id))


def refused_trial(refused: RefusedCell) -> TrialResult:
    """Return the result of a cell whose configuration the client refuses."""
    kind = refused.cell.get("fault")
    return TrialResult(
        trial_id=refused.trial_id,
        cell=refused.cell,
        label=refused.label,
        repeat=None,
        status=Status.REFUSED,
        reason=refused.reason,
        fault=FaultResult(kind=None if kind is None else str(kind)),
    )


def failed_trial(spec: TrialSpec, reason: str | None) -> TrialResult:
    """Return the result of a trial that failed because of the harness."""
    return _without_values(spec, reason or f"unknown: {REASON} is missing")


def unfit_trial(trial_id: str, spec: TrialSpec | None, reason: str) -> TrialResult:
    """Return the result of a complete trial whose ledger is damaged or of another sweep.

    It is no evidence about Kafka, like a trial that failed.

    Args:
        trial_id: the trial's id.
        spec: the trial; `None`: the plan has no such trial.
        reason: why it is left out.
    """
    text = f"left out of the results: {reason}"
    if spec is not None:
        return _without_values(spec, text)
    return TrialResult(
        trial_id=trial_id,
        cell={},
        label="not planned",
        repeat=None,
        status=Status.FAILED,
        reason=text,
        fault=FaultResult(kind=None),
    )


def _without_values(spec: TrialSpec, reason: str) -> TrialResult:
    return TrialResult(
        trial_id=spec.trial_id,
        cell=spec.cell,
        label=spec.label,
        role=spec.role,
        added=spec.added,
        repeat=spec.repeat,
        status=Status.FAILED,
        reason=reason,
        fault=FaultResult(kind=spec.fault.kind),
    )


def lateness_p99_ms(manifest: TrialManifest) -> float | None:
    """Return how late the latest of a trial's producers was: milliseconds at the 99th percentile.

    `None` if it is unknown for one of them. Of a transactional producer it is that of the records
    that were due while no transactional call waited: a commit delays the schedule too, and that is
    Kafka's time and not the generator's. Older ledgers do not have it.
    """
    in_transactions = bool(manifest.producer_settings.get("transactional.id"))
    lateness_us = [
        producer.lateness_us_p99
        if producer.lateness_is_without_transactions or not in_transactions
        else None
        for producer in manifest.producers
    ]
    known_us = [late_us for late_us in lateness_us if late_us is not None]
    return max(known_us) / US_PER_MS if known_us and len(known_us) == len(lateness_us) else None


def complete_trial(manifest: TrialManifest, rows: ResultRows, *, added: bool) -> TrialResult:
    """Return the result of a sealed or void trial, with its values if it was measured.

    Args:
        manifest: its `trial.json`.
        rows: the tables of the Spark job.
        added: whether it was planned as a control only.
    """
    late_ms = lateness_p99_ms(manifest)
    trial = TrialResult(
        trial_id=manifest.trial_id,
        cell=manifest.cell,
        label=manifest.label,
        role=manifest.role,
        added=added,
        repeat=manifest.repeat,
        status=manifest.status,
        reason=manifest.reason,
        disturbances=manifest.disturbances,
        hung_clients=manifest.hung_clients,
        fault=FaultResult(**manifest.fault.model_dump()),
        generator_late=None if late_ms is None else late_ms > LATE_MS,
        lateness_p99_ms=late_ms,
        host=manifest.host.name if manifest.host else None,
        client=manifest.client,
    )
    row = rows.trials.get(manifest.trial_id)
    if row is None:
        return trial
    measured = trial.model_copy(update=_values(manifest, row, rows))
    return measured.model_copy(update={"overloaded": is_overloaded(measured)})


def is_overloaded(trial: TrialResult) -> bool | None:
    """Return whether the machine could not do what the trial asked of it.

    Its latencies and gaps then say how busy the machine was, and nothing of Kafka or its settings.

    Returns:
        `None`: nothing is known of it.
    """
    stalled_ms = trial.producer_stalled_ms
    signs = (
        trial.generator_late,
        None if trial.kept_up_before_fault is None else not trial.kept_up_before_fault,
        None if stalled_ms is None else stalled_ms * NS_PER_MS >= MIN_OUTAGE_NS,
    )
    if True in signs:
        return True
    return None if set(signs) == {None} else False


def _values(manifest: TrialManifest, row: Row, rows: ResultRows) -> dict[str, Any]:
    """Return the measured fields of `TrialResult`."""
    phases, trial_id = manifest.phases, manifest.trial_id
    latency = rows.latency[trial_id]
    gaps = [gap for gap in rows.gaps[trial_id] if gap["side"] == Side.PRODUCER]
    acks = manifest.producer_settings.get("acks", "")
    kept_up = kept_up_before_fault(phases, rows.timeline[trial_id])
    return {
        "latency_ms": _latencies(latency, Phase.ALL),
        "latency_by_phase_ms": PhaseLatencies(
            **{phase.value: _latencies(latency, phase) for phase in Phase if phase is not Phase.ALL}
        ),
        "kept_up_before_fault": kept_up,
        "recovered_before_heal": recovered_before_heal(phases, gaps, acks) if kept_up else None,
        "readable_before_heal": readable_before_heal(phases, rows.readers[trial_id], acks)
        if kept_up
        else None,
        "fates": _fates(rows.fates[trial_id]),
        "gaps": tuple(_gap(gap, phases.load_begin_ns) for gap in gaps),
        "stalls": stall_sentences(phases, rows.stalls[trial_id]),
        **values_of(TRIAL_FIELDS, QuantitySource.TRIALS, row),
        **values_of(TRIAL_FIELDS, QuantitySource.COPIES, rows.copies.get(trial_id)),
    }


def _latencies(rows: Sequence[Row], phase: Phase) -> Latencies:
    return Latencies(**{row["measure"]: _quantiles(row) for row in rows if row["phase"] == phase})


def _quantiles(row: Row) -> Quantiles:
    values = {name: row[f"{name}_us"] / US_PER_MS for name in QUANTILES}
    return Quantiles(records=row["records"], negative_records=row["negative_records"], **values)


def _fates(rows: Sequence[Row]) -> Fates:
    return Fates(
        **{
            fate.lower(): sum(row["records"] for row in rows if row["fate"] == fate)
            for fate in Fate
        }
    )


def _gap(row: Row, load_begin_ns: int) -> Gap:
    began_s = (row["began_ns"] - load_begin_ns) / _NS_PER_S
    return Gap(
        partition=row["partition"],
        acked=row["records"],
        gap_ms=row["gap_ns"] / NS_PER_MS,
        began_s=began_s,
        stalled_ms=row["stalled_ns"] / NS_PER_MS,
        longest=row["longest"],
    )


SCOPES: Final = ("producer", "consumer", "topic", "broker", "cluster", *LOAD_SECTIONS, "fault")
NOT_SET: Final = "-"


def settings_of_trial(
    spec: TrialSpec, manifest: TrialManifest | None = None
) -> dict[tuple[str, str], str]:
    """Return the settings of a trial, by scope and name.

    Args:
        spec: the plan of the trial, for its planned settings.
        manifest: the `trial.json` of a trial that ran, for the effective settings of its clients,
            topic and brokers.
    """
    load = spec.workload.settings()
    tables: dict[str, Mapping[str, Scalar]] = {
        "producer": manifest.producer_settings if manifest else spec.producer,
        "consumer": manifest.consumer_settings if manifest else spec.consumer,
        "topic": manifest.topic_settings if manifest else spec.topic,
        "broker": manifest.broker_settings if manifest else spec.cluster.broker,
        "cluster": {
            "kafka.version": spec.cluster.kafka_version,
            "nodes": spec.cluster.nodes,
            "coordination": spec.cluster.coordination,
            "controllers": spec.cluster.controllers,
            "zookeeper.nodes": spec.cluster.zookeepers,
            **spec.cluster.features,
            "replication.factor": spec.replication_factor,
            "partitions": spec.partitions,
        },
        **load,
        "workload": {
            **load["workload"],
            "client": spec.client,
            "client.defaults": spec.passed is not None,
        },
        "fault": {"kind": spec.fault.kind, **spec.fault.all_parameters()},
    }
    return {
        (scope, name): str(value)
        for scope, values in tables.items()
        for name, value in values.items()
    }
