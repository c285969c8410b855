"""What the tasks of a DAG run log for a reader: sweep, cell, load, fault, answer and links."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from ackbench.experiments.ledger.trial_manifest import ClusterAssignment
from ackbench.experiments.messages.phrases import format_count, one_line
from ackbench.experiments.sweep.documents import read_trial_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.sweep.progress import expected_minutes
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from ackbench.experiments.results.models import SweepResults

_LOG: Final = logging.getLogger(__name__)


def log_plan(sweep: SweepFolder) -> None:
    """Log what the sweep runs and where its folder is."""
    plan = sweep.plan()
    refused = f", {format_count(len(plan.refused), 'cell')} refused" if plan.refused else ""
    _LOG.info("%s: %s", plan.experiment, one_line(plan.question))
    _LOG.info(
        "sweep %s: %s%s, about %s",
        sweep.sweep_id,
        format_count(len(plan.trials), "trial"),
        refused,
        format_count(expected_minutes(plan), "minute"),
    )
    _LOG.info("folder: %s", sweep.root)


def log_trial_begin(sweep: SweepFolder, spec: TrialSpec, assignment: ClusterAssignment) -> None:
    """Log which cell runs, with which load and fault, and on which cluster."""
    done, planned = len(sweep.complete_ids()), len(sweep.plan().trials)
    load = spec.workload
    _LOG.info("trial %s, %d of %d: %s", spec.trial_id, done + 1, planned, spec.label)
    _LOG.info(
        "load: %s records/s of %s bytes for %g s; fault: %s",
        f"{load.rate_records_per_s:,g}",
        f"{load.record_size_bytes:,}",
        load.duration_s,
        spec.fault.kind,
    )
    _LOG.info("cluster %s: %s", assignment.cluster, assignment.why)


def log_trial_end(sweep: SweepFolder, spec: TrialSpec) -> None:
    """Log whether the fault took effect, with its evidence, and how the trial ended."""
    manifest = read_trial_manifest(sweep.trial(spec.trial_id))
    for line in manifest.fault.evidence:
        _LOG.info("fault: %s", line)
    _LOG.info(
        "%s: %s sent, %s in the log",
        manifest.status.value,
        format_count(sum(producer.records for producer in manifest.producers), "record"),
        f"{sum(manifest.end_offsets.values()):,}",
    )


def log_answer(sweep: SweepFolder, results: SweepResults) -> None:
    """Log the answer of a sweep, and where its report is."""
    from ackbench.experiments.results.sentences import plain_answer

    for sentence in plain_answer(results):
        _LOG.info("%s", sentence)
    _LOG.info("report: %s (ackbench open report %s)", sweep.report, sweep.sweep_id)


def log_mlflow(sweep: SweepFolder, home: Home) -> None:
    """Log the address of a sweep's trials in MLflow."""
    from ackbench.experiments.orchestration.tracking import store

    tracked = store.tracked_sweep(sweep)
    address = tracked and store.page_address(tracked, home)
    if tracked and address:
        _LOG.info("MLflow: %s", store.charts_link(address, sweep.sweep_id, tracked))
