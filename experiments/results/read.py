"""Reads the results of a sweep: joins its plan, its trials and the tables of the Spark job."""

from __future__ import annotations

from ackbench.experiments.results.cells import cell_key, cell_results
from ackbench.experiments.results.changed_settings import changed_settings
from ackbench.experiments.results.client_versions import mixed_client_versions
from ackbench.experiments.results.controls import harness_check, trials_that_must_tear
from ackbench.experiments.results.expectations import expectation_results
from ackbench.experiments.results.hosts import compare_hosts
from ackbench.experiments.results.judgements import named_records, with_judgements
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.stored import read_stored
from ackbench.experiments.results.trials import trial_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.verdicts.guarantees.circumstances import circumstances_of

__all__ = ["SweepResults", "read_results"]


def read_results(sweep: SweepFolder, *, in_full: bool = True) -> SweepResults:
    """Return the results of a sweep, which may still be running or not measured yet.

    Args:
        sweep: the sweep.
        in_full: compare all files of the trials with their digests, name the records that violate
            a guarantee, and the settings that were changed. Otherwise the files are there with
            their sizes, and only figures and verdicts are complete, in a quarter of the time.

    Raises:
        UnknownName: there is no such sweep.
        LedgerError: a trial's ledger is incomplete, truncated, altered, of another version or of
            another trial, or a table of `results/` is unreadable or altered.
    """
    stored = read_stored(sweep, in_full=in_full)
    plan, manifests = stored.plan, stored.manifests
    trials = trial_results(stored)
    cells = tuple(cell_results(plan, trials, stored.rows))
    expectations = tuple(expectation_results(plan.expectations, cells, trials))
    specs = {cell_key(spec.cell): spec for spec in plan.trials}
    circumstances = {key: circumstances_of(spec) for key, spec in specs.items()}
    must_tear = trials_that_must_tear(plan, circumstances)
    harness = harness_check(trials, must_tear)
    records = named_records(stored.rows.anomalies)
    judged = with_judgements(cells, trials, circumstances, records, harness)
    ended = {trial.trial_id for trial in trials}
    relayed = [spec for spec in plan.trials if spec.cluster.has_relays]
    return SweepResults(
        sweep_id=plan.sweep_id,
        experiment=plan.experiment,
        question=plan.question,
        seed=plan.seed,
        trials=trials,
        cells=judged,
        pending=tuple(spec.trial_id for spec in plan.trials if spec.trial_id not in ended),
        unmeasured=tuple(sorted(manifests.keys() - stored.rows.trials.keys())),
        expectations=expectations,
        harness=harness,
        changed_settings=changed_settings(plan.trials) if in_full else (),
        hosts=compare_hosts(trials),
        client_versions=mixed_client_versions(trials),
        relayed=tuple(
            dict.fromkeys(str(spec.cell.get("fault", spec.fault.kind)) for spec in relayed)
        ),
        without_digests=tuple(
            sorted(trial_id for trial_id, one in manifests.items() if one.files is None)
        ),
        plan=plan,
        foreign=stored.foreign,
        manifest=stored.manifest,
        manifests=manifests,
    )
