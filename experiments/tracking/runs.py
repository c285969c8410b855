"""What a trial and a sweep look like in MLflow: params, metrics and tags as plain values. Pure; `experiments.tracking.store` sends them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from experiments.ledger.record import Scalar, Status, TrialRecord
from experiments.lessons.finding import Finding
from experiments.results.models import CellResult, Latencies, SweepResults, TrialResult
from experiments.results.trials import lateness_p99_ms
from experiments.sweep.plan import ClusterNeed, TrialSpec
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.judge import Verdict

# ---------- Verdicts, shares and what the controls showed, as a sweep's summary run in MLflow holds them. Pure.


MOST_NAME: Final = 220
"""MLflow takes 250 characters; the longest group's name takes 26 of them."""
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_. -]")
"""MLflow takes these characters in a metric's name, and the slash, which begins a group of charts."""
_LOUDEST_FIRST: Final = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.NOT_GUARANTEED, Verdict.HELD)


def verdicts_in_words(cells: Sequence[CellResult], guarantee: Guarantee) -> str:
    """Return how many of the experiment's cells have which verdict, the worst first: `VIOLATED 1, HELD 4`; nothing where none was judged."""
    found = Counter(_verdicts(cells, guarantee))
    return ", ".join(f"{verdict} {found[verdict]}" for verdict in _LOUDEST_FIRST if found[verdict])


def verdict_metrics(results: SweepResults) -> Iterator[tuple[str, float]]:
    """Yield the summary's metrics: verdicts counted, each cell's shares with their bounds, and what the controls showed."""
    found = Counter(
        verdict for guarantee in Guarantee for verdict in _verdicts(results.cells, guarantee)
    )
    yield from (
        (f"verdict/{verdict.lower().replace(' ', '_')}", float(found[verdict]))
        for verdict in Verdict
        if found
    )
    for cell in results.cells:
        yield from _shares(cell)
    harness = {
        "control_clean": results.harness.control_clean,
        "positive_control_lost": results.harness.positive_control_lost,
    }
    yield from (
        (f"harness/{name}", float(value)) for name, value in harness.items() if value is not None
    )


def _shares(cell: CellResult) -> Iterator[tuple[str, float]]:
    name = _short(_NOT_IN_A_NAME.sub("_", cell.label))
    for group, share in (
        ("loss", cell.loss),
        ("duplication", cell.duplication),
        ("reordering", cell.reordering),
    ):
        if share is not None and share.of:
            yield f"{group}_share/{name}", share.seen / share.of
            yield f"{group}_share_low/{name}", share.interval.low
            yield f"{group}_share_high/{name}", share.interval.high


def _short(name: str) -> str:
    """Return a cell's name as long as MLflow takes it behind the group's: what is cut off is told apart by a digest of all of it."""
    return (
        name
        if len(name) <= MOST_NAME
        else f"{name[: MOST_NAME - 9]} {blake2b(name.encode(), digest_size=4).hexdigest()}"
    )


def _verdicts(cells: Sequence[CellResult], guarantee: Guarantee) -> list[Verdict]:
    return [
        judgement.verdict
        for cell in cells
        if not cell.added
        for judgement in cell.judgements
        if judgement.guarantee is guarantee
    ]


VERDICT_TAGS: Final = {guarantee: f"verdict/{guarantee}" for guarantee in Guarantee}
SUMMARY: Final = "summary"
TRIAL: Final = "trial"
VANISHING: Final = frozenset(
    {
        "reason",
        "fault_evidence",
        "fault_targets",
        "refused_cells",
        "controls",
        "lesson",
        "standing",
        "finding",
        *VERDICT_TAGS.values(),
    }
)
"""Tags that a later run of the same trial may not have any more."""
_NS_PER_MS: Final = 1_000_000


@dataclass(frozen=True)
class RunContent:
    """One MLflow run."""

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """`group/name_unit`: MLflow's charts are grouped by what stands before the slash. A value that a trial does not have is left out."""
    failed: bool = False
    begin_ms: int | None = None
    end_ms: int | None = None

    @property
    def key(self) -> str:
        """What the run is found again by, within its sweep."""
        return self.tags["trial_id"]


def trial_run(result: TrialResult, spec: TrialSpec, record: TrialRecord | None) -> RunContent:
    """Return the run of a trial.

    Args:
        result: what became of it.
        spec: how it was planned.
        record: how it ran; `None` when the harness failed it.
    """
    return RunContent(
        name=result.label if spec.repeat == 0 else f"{result.label} #{spec.repeat + 1}",
        tags=_tags(result, spec),
        params=_params(spec, record),
        metrics=dict(_metrics(result, record)),
        failed=result.status is Status.FAILED,
        begin_ms=record.phases.load_begin_ns // _NS_PER_MS if record else None,
        end_ms=record.phases.healthy_ns // _NS_PER_MS if record else None,
    )


def summary_run(results: SweepResults, page: str, finding: Finding | None = None) -> RunContent:
    """Return the run of a sweep: how many trials ended how, and a page with the table, shown as the run's description.

    Args:
        results: the sweep's.
        page: Markdown.
        finding: what it says to its experiment's claim.
    """
    statuses = [trial.status for trial in results.trials]
    counts = {f"sweep/{status.value}_trials": float(statuses.count(status)) for status in Status}
    tags = {
        "sweep_id": results.sweep_id,
        "experiment": results.experiment,
        "kind": SUMMARY,
        "trial_id": SUMMARY,
        "mlflow.note.content": page,
        "refused_cells": "\n".join(
            f"{cell.label}: {cell.refused}" for cell in results.cells if cell.refused
        ),
        "controls": "\n".join(results.harness.sentences),
        **(
            {
                "lesson": str(finding.lesson),
                "standing": finding.conclusion.value,
                "finding": finding.text,
            }
            if finding
            else {}
        ),
        **{
            tag: verdicts_in_words(results.cells, guarantee)
            for guarantee, tag in VERDICT_TAGS.items()
        },
    }
    params = {"seed": str(results.seed), "question": results.question}
    metrics = {
        **counts,
        "sweep/pending_trials": float(len(results.pending)),
        **dict(verdict_metrics(results)),
    }
    return RunContent(
        name=f"{results.sweep_id} (summary)", tags=_said(tags), params=params, metrics=metrics
    )


def _tags(result: TrialResult, spec: TrialSpec) -> dict[str, str]:
    tags = {
        "sweep_id": spec.sweep_id,
        "experiment": spec.experiment,
        "kind": TRIAL,
        "trial_id": spec.trial_id,
        "cell": spec.label,
        "repeat": str(spec.repeat),
        "order": str(spec.order),  # no param: MLflow would draw it beside the settings
        "seed": str(spec.seed),
        "status": result.status.value,
        "role": spec.role.value,
        "fault": spec.fault.kind,
        "fault_evidence": "\n".join(result.fault.evidence),
        "fault_targets": ",".join(map(str, result.fault.targets)),
        "reason": result.reason or "",
    }
    return _said(tags)


def _said(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in tags.items() if value}


def _params(spec: TrialSpec, record: TrialRecord | None) -> dict[str, str]:
    """Return the settings under Kafka's own names: the producer's bare, the others' bare or, where a name is taken, with their scope."""
    cell = {axis: _text(value) for axis, value in spec.cell.items() if value is not None}
    params = {**cell, **{name: _text(value) for name, value in spec.producer.items()}}
    for scope, settings in (
        ("topic", spec.topic),
        ("consumer", spec.consumer),
        ("broker", record.broker_settings if record else spec.cluster.broker),
    ):
        for name, value in settings.items():
            params[name if name not in params and scope == "topic" else f"{scope}.{name}"] = value
    workload = {
        f"workload.{name}": _text(value) for name, value in spec.workload.model_dump().items()
    }
    fault = {f"fault.{name}": _text(value) for name, value in spec.fault.all_parameters().items()}
    client = {
        "client": spec.client,
        "client.defaults": _text(spec.passed is not None),
        **({"client.version": record.client} if record else {}),
    }
    return {**params, **workload, **fault, **_cluster(spec.cluster), **client}


def _cluster(cluster: ClusterNeed) -> dict[str, str]:
    """Return what the cluster is made of, under the names that an experiment's file has; of somebody else's, what is known of it."""
    if cluster.external:
        return {
            "kafka.version": cluster.kafka_version,
            "nodes": str(cluster.nodes),
            "cluster": "external",
        }
    keepers = (
        {"zookeeper.nodes": cluster.zookeepers}
        if cluster.coordination == "zookeeper"
        else {"controllers": cluster.controllers}
    )
    counts = {
        "kafka.version": cluster.kafka_version,
        "nodes": cluster.nodes,
        "coordination": cluster.coordination,
        **keepers,
        **cluster.features,
    }
    return {name: str(value) for name, value in counts.items()}


def _metrics(result: TrialResult, record: TrialRecord | None) -> Iterator[tuple[str, float]]:
    low, high = result.lost or (None, None)
    values: dict[str, float | None] = {  # the first one is what MLflow's comparison opens with
        "loss/acked_lost_records": low,
        "loss/at_most_lost_records": high,
        "duplicates/extra_copies": result.duplicates,
        "duplicates/duplicated_records": result.duplicated,
        "order/reordered_records": result.reordered,
        "reads/missed_records": result.missed,
        "reads/redelivered_reads": result.redelivered,
        "group/missed_records": result.group_missed,
        "group/repeated_reads": result.group_repeated,
        "records/attempted_records": result.attempted,
        "records/acked_records": result.acked,
        "records/rejected_records": result.rejected,
        "records/unknown_records": result.unknown,
        "availability/longest_gap_ms": result.unavailable_ms,
        "availability/reader_stood_still_ms": result.consumer_unavailable_ms,
        "throughput/acked_per_s": result.throughput_records_per_s,
        "throughput/offered_per_s": result.offered_records_per_s,
        "availability/recovered_before_heal": None
        if result.recovered_before_heal is None
        else float(result.recovered_before_heal),
        "generator/late": None if result.generator_late is None else float(result.generator_late),
        "fault/bit": None if result.fault.took_effect is None else float(result.fault.took_effect),
    }
    yield from ((name, float(value)) for name, value in values.items() if value is not None)
    if result.fates:
        yield from (
            (f"fates/{fate}_records", float(records))
            for fate, records in result.fates.model_dump().items()
        )
    if result.copies:
        yield from (
            (f"copies/{name}_records", float(number))
            for name, number in result.copies.model_dump().items()
        )
    if result.transactions:
        yield from (
            (f"transactions/{name}", float(number))
            for name, number in result.transactions.model_dump().items()
        )
    yield from _latencies("latency", result.latency_ms)
    for phase in ("before", "during", "after"):
        yield from _latencies(f"latency_{phase}", getattr(result.latency_by_phase_ms, phase))
    if record:
        yield from ((f"stages/{stage}_s", seconds) for stage, seconds in record.stages_s.items())
        if (late_ms := lateness_p99_ms(record)) is not None:
            yield "generator/lateness_p99_us", late_ms * 1000


def _latencies(group: str, latencies: Latencies) -> Iterator[tuple[str, float]]:
    for name, quantiles in (("ack", latencies.ack), ("e2e", latencies.end_to_end)):
        if quantiles:
            yield from (
                (f"{group}/{name}_{rank}_ms", getattr(quantiles, rank))
                for rank in ("p50", "p90", "p99", "p99_9", "max")
            )


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
