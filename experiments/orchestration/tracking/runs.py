"""The MLflow runs of a sweep: names, params, metrics and tags as plain values.

`experiments.orchestration.tracking.store` sends them. The names are those of an experiment's
`expect` and of `ackbench show --json`, of letters, digits, dots and underscores alone, so that
MLflow's filters need no quotes: `metrics.lost_high > 0`. `docs/metrics.md` has their formulas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Final, NamedTuple

from ackbench.experiments.ledger.quantities import TRIAL_PLACES
from ackbench.experiments.ledger.result_terms import TIMELINE_SLOT_NS
from ackbench.experiments.ledger.trial_manifest import Scalar, Status, TrialManifest
from ackbench.experiments.messages.visible import visible
from ackbench.experiments.results.expectations import expectation_lines
from ackbench.experiments.results.lessons.finding import Finding
from ackbench.experiments.results.models import (
    CellResult,
    ExpectationOutcome,
    Latencies,
    SweepResults,
    TrialResult,
)
from ackbench.experiments.results.rows import Row
from ackbench.experiments.results.wording import is_unproven
from ackbench.experiments.sweep.cell_names import cell_name
from ackbench.experiments.sweep.plan import ClusterNeed, TrialSpec
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict

_VERDICT_ORDER: Final = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.NOT_GUARANTEED, Verdict.HELD)

VERDICT_TAGS: Final = {
    guarantee: f"verdict.{guarantee.name.replace('-', '_')}" for guarantee in GUARANTEES
}
SUMMARY: Final = "summary"
TRIAL: Final = "trial"
SUPERSEDED: Final = "superseded"
"""The tag `kind` of a run that another one has replaced."""
NOTE: Final = "mlflow.note.content"
"""The tag that MLflow's page shows as the description."""
_MAX_PARAM_LENGTH: Final = 6000
_MAX_TAG_LENGTH: Final = 8000
"""Characters that MLflow stores of a value (`mlflow.utils.validation`); it cuts the rest off."""
REMOVABLE_TAGS: Final = frozenset(
    {
        "reason",
        "fault_evidence",
        "fault_targets",
        "refused_cells",
        "controls",
        "lesson",
        "conclusion",
        "finding",
        *VERDICT_TAGS.values(),
    }
)
"""Tags to delete when a run is updated and no longer has them."""
FIRST_MEASURE: Final = "lost"
"""MLflow's comparison opens with the metric that was written first."""
COURSE: Final = "timeline_acked_records_per_s"
MOST_POINTS: Final = 250
"""Of a series: each is a row of MLflow's database."""
_NS_PER_MS: Final = 1_000_000
_SLOT_MS: Final = TIMELINE_SLOT_NS // _NS_PER_MS


@dataclass(frozen=True)
class TrialLedger:
    """The sealed ledger that a run's figures were computed from."""

    uri: str
    """Its folder: in the sweep's store, or else on the machine that measured it."""
    sha256: str
    """The digest of its manifest, which has those of all of its files."""


class Point(NamedTuple):
    """A value of a series."""

    step: int
    at_ms: int
    """Since 1970."""
    value: float


@dataclass(frozen=True)
class RunContent:
    """One MLflow run."""

    name: str
    tags: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Values that a trial does not have are absent."""
    series: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    """Metrics with a value for each step."""
    failed: bool = False
    begin_ms: int | None = None
    end_ms: int | None = None
    ledger: TrialLedger | None = None
    """The run's dataset; `None`: nothing was measured, or the run is about several trials."""

    def storable(self) -> RunContent:
        """Return the run as MLflow stores it, without characters that act instead of being shown.

        Long values are shortened here, so that the stored value is equal to the one that is written
        again.
        """
        return replace(
            self,
            name=visible(self.name),
            tags={
                visible(name): _shorten(visible(value), _MAX_TAG_LENGTH)
                for name, value in self.tags.items()
            },
            params={
                visible(name): _shorten(visible(value), _MAX_PARAM_LENGTH)
                for name, value in self.params.items()
            },
        )

    @property
    def metric_names(self) -> frozenset[str]:
        """The names of all its metrics."""
        return frozenset(self.metrics) | frozenset(self.series)

    @property
    def key(self) -> str:
        """Identifies the run within its sweep."""
        return self.tags["trial_id"]


def trial_run(
    result: TrialResult,
    spec: TrialSpec,
    manifest: TrialManifest | None,
    axes: Sequence[str],
    ledger: TrialLedger | None = None,
    timeline: Sequence[Row] = (),
) -> RunContent:
    """Return the run of a trial.

    Args:
        result: the trial's result.
        spec: its plan.
        manifest: its record; `None` if the harness failed.
        axes: what the sweep's cells differ in; the name of the run has them.
        ledger: what the result was computed from.
        timeline: its rows of that table.
    """
    begin_ms = manifest.phases.load_begin_ns // _NS_PER_MS if manifest else None
    provenance = {"ledger": ledger.uri, "ledger_sha256": ledger.sha256} if ledger else {}
    return RunContent(
        name=f"{cell_name(spec.cell, axes)} #{spec.repeat + 1}",
        tags={**_tags(result, spec), **provenance},
        params=_params(spec, manifest),
        metrics=dict(_metrics(result, manifest)),
        failed=result.status is Status.FAILED,
        series=timeline_series(timeline, begin_ms) if begin_ms is not None else {},
        begin_ms=begin_ms,
        end_ms=manifest.phases.healthy_ns // _NS_PER_MS if manifest else None,
        ledger=ledger,
    )


def summary_run(results: SweepResults, page: str, finding: Finding | None = None) -> RunContent:
    """Return the summary run of a sweep: numbers of trials by status, verdicts and shares.

    Args:
        results: the sweep's results.
        page: the run's description with the table of the cells, Markdown.
        finding: the sweep's finding on its experiment's claim.
    """
    statuses = [trial.status for trial in results.trials]
    counts = {f"{status.value}_trials": float(statuses.count(status)) for status in Status}
    refused = [f"{cell.label}: {cell.refused}" for cell in results.cells if cell.refused]
    verdicts = {
        tag: count_verdicts(results.cells, guarantee) for guarantee, tag in VERDICT_TAGS.items()
    }
    metrics = {
        **counts,
        "pending_trials": float(len(results.pending)),
        **dict(verdict_metrics(results)),
    }
    tags = {
        "sweep_id": results.sweep_id,
        "experiment": results.experiment,
        "kind": SUMMARY,
        "trial_id": SUMMARY,
        NOTE: page,
        "refused_cells": "\n".join(refused),
        "controls": "\n".join(results.harness.sentences),
        "expected": "\n".join(expectation_lines(results.expectations)),
        **(_finding_tags(finding) if finding else {}),
        **verdicts,
    }
    return RunContent(
        name=f"{results.sweep_id} (summary)",
        tags=without_empty(tags),
        params={"seed": str(results.seed), "question": results.question},
        metrics=metrics,
    )


def _finding_tags(finding: Finding) -> dict[str, str]:
    return {
        "lesson": str(finding.lesson),
        "conclusion": finding.conclusion.value,
        "finding": finding.text,
    }


def count_verdicts(cells: Sequence[CellResult], guarantee: Guarantee) -> str:
    """Return the number of cells per verdict, the worst first: `VIOLATED 1, HELD 4`.

    `HELD 4 (power not shown)`: no trial of the sweep showed a violation of the guarantee. Only the
    experiment's own cells count. Empty if none was judged.
    """
    judged = _judgements(cells, guarantee)
    counts = Counter(judgement.verdict for judgement in judged)
    unproven = " (power not shown)" if any(map(is_unproven, judged)) else ""
    return ", ".join(
        f"{verdict} {counts[verdict]}{unproven if verdict is Verdict.HELD else ''}"
        for verdict in _VERDICT_ORDER
        if counts[verdict]
    )


def verdict_metrics(results: SweepResults) -> Iterator[tuple[str, float]]:
    """Yield the summary's numbers of verdicts, and the results of the controls."""
    judged = [one for guarantee in GUARANTEES for one in _judgements(results.cells, guarantee)]
    counts = Counter(judgement.verdict for judgement in judged)
    if counts:
        for verdict in Verdict:
            yield f"verdicts_{verdict.lower().replace(' ', '_')}", float(counts[verdict])
        yield "verdicts_held_power_not_shown", float(sum(map(is_unproven, judged)))
    outcomes = Counter(one.outcome for one in results.expectations)
    for outcome in ExpectationOutcome if outcomes else ():
        yield f"expectations_{outcome.replace(' ', '_')}", float(outcomes[outcome])
    controls = {
        "control_clean": results.harness.control_clean,
        "positive_control_lost": results.harness.positive_control_lost,
        "positive_control_torn": results.harness.positive_control_torn,
    }
    for name, value in controls.items():
        if value is not None:
            yield name, float(value)


def _shorten(text: str, length: int) -> str:
    """Cut a text to the length that MLflow allows; a digest of all of it keeps it unique."""
    if len(text) <= length:
        return text
    digest = blake2b(text.encode(), digest_size=4).hexdigest()
    return f"{text[: length - 9]} {digest}"


def _judgements(cells: Sequence[CellResult], guarantee: Guarantee) -> list[Judgement]:
    return [
        judgement
        for cell in cells
        if not cell.added
        for judgement in cell.judgements
        if judgement.guarantee is guarantee
    ]


def _tags(result: TrialResult, spec: TrialSpec) -> dict[str, str]:
    tags = {
        "sweep_id": spec.sweep_id,
        "experiment": spec.experiment,
        "kind": TRIAL,
        "trial_id": spec.trial_id,
        "cell": spec.label,
        "repeat": str(spec.repeat),
        "order": str(spec.order),  # not a param: MLflow's charts would offer it as a setting
        "seed": str(spec.seed),
        "status": result.status.value,
        "role": spec.role.value,
        "fault": spec.fault.kind,
        "fault_evidence": "\n".join(result.fault.evidence),
        "fault_targets": ",".join(map(str, result.fault.targets)),
        "reason": result.reason or "",
        "host": result.host or "",
    }
    return without_empty(tags)


def without_empty(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that have a value."""
    return {name: value for name, value in tags.items() if value}


def _params(spec: TrialSpec, manifest: TrialManifest | None) -> dict[str, str]:
    """Return the settings under Kafka's own names.

    The producer's and the topic's names have no prefix; the others' are `consumer.` and `broker.`.
    A topic's name that the producer has too is prefixed with `topic.`.
    """
    cell = {axis: format_value(value) for axis, value in spec.cell.items() if value is not None}
    params = {**cell, **{name: format_value(value) for name, value in spec.producer.items()}}
    for scope, settings in (
        ("topic", spec.topic),
        ("consumer", spec.consumer),
        ("broker", manifest.broker_settings if manifest else spec.cluster.broker),
    ):
        for name, value in settings.items():
            params[name if name not in params and scope == "topic" else f"{scope}.{name}"] = value
    workload = {
        f"{section}.{name}": format_value(value)
        for section, values in spec.workload.settings().items()
        for name, value in values.items()
    }
    fault = {
        f"fault.{name}": format_value(value) for name, value in spec.fault.all_parameters().items()
    }
    client = {
        "client": spec.client,
        "client.defaults": format_value(spec.passed is not None),
        **({"client.version": manifest.client} if manifest else {}),
    }
    return {**params, **workload, **fault, **_cluster_params(spec.cluster), **client}


def _cluster_params(cluster: ClusterNeed) -> dict[str, str]:
    """Return the cluster's composition under the names of an experiment's YAML file."""
    if not cluster.traits.planned:
        return {
            "kafka.version": cluster.kafka_version,
            "nodes": str(cluster.nodes),
            "cluster": "external",
        }
    coordinators = (
        {"zookeeper.nodes": cluster.zookeepers}
        if cluster.coordination == "zookeeper"
        else {"controllers": cluster.controllers}
    )
    params = {
        "kafka.version": cluster.kafka_version,
        "nodes": cluster.nodes,
        "coordination": cluster.coordination,
        **coordinators,
        **cluster.features,
    }
    return {name: str(value) for name, value in params.items()}


def _metrics(result: TrialResult, manifest: TrialManifest | None) -> Iterator[tuple[str, float]]:
    for place in sorted(TRIAL_PLACES, key=lambda place: place.measure != FIRST_MEASURE):
        if (value := place.of(result)) is not None:
            yield place.name, float(value)
    if (took_effect := result.fault.took_effect) is not None:
        yield "took_effect", float(took_effect)
    if result.fates:
        for fate, records in result.fates.model_dump().items():
            yield f"fates_{fate}", float(records)
    yield from _latencies("", result.latency_ms)
    for phase in ("before", "during", "after"):
        yield from _latencies(f"_{phase}", getattr(result.latency_by_phase_ms, phase))
    if manifest:
        yield from ((f"stages_{stage}_s", seconds) for stage, seconds in manifest.stages_s.items())


def _latencies(phase: str, latencies: Latencies) -> Iterator[tuple[str, float]]:
    for measure, quantiles in (("ack", latencies.ack), ("end_to_end", latencies.end_to_end)):
        if quantiles:
            for name in ("p50", "p90", "p99", "p99_9", "max"):
                yield f"{measure}_{name}{phase}_ms", getattr(quantiles, name)


def timeline_series(rows: Sequence[Row], begin_ms: int) -> dict[str, tuple[Point, ...]]:
    """Return what was acknowledged and read in a trial's course: an outage is a row of zeros.

    Args:
        rows: of the trial, of `experiments.ledger.result_tables.TIMELINE`; a slot without a row
            has no records.
        begin_ms: when the load began, milliseconds since 1970.

    Returns:
        By metric, records per second; steps are milliseconds since the begin of the load. At most
        `MOST_POINTS`: a longer trial has a mean of several slots in each.
    """
    if not rows:
        return {}
    first, last = min(row["slot"] for row in rows), max(row["slot"] for row in rows)
    width = -(-(last - first + 1) // MOST_POINTS)
    steps = [first * _SLOT_MS + at * width * _SLOT_MS for at in range((last - first) // width + 1)]
    ends = [*steps[1:], (last + 1) * _SLOT_MS]
    series = {}
    for name in ("acked", "read"):
        sums = [0] * len(steps)
        for row in rows:
            sums[(row["slot"] - first) // width] += row[f"{name}_records"]
        series[COURSE.replace("acked", name)] = tuple(
            Point(step, begin_ms + step, 1000 * records / (end - step))
            for step, end, records in zip(steps, ends, sums, strict=True)
        )
    return series


def format_value(value: Scalar) -> str:
    """Return the value of a param: `true` and `false` for booleans."""
    return str(value).lower() if isinstance(value, bool) else str(value)
