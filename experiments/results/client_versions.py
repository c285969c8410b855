"""The versions of librdkafka that the trials of a sweep ran with, if its plan has none. Pure.

Then it is the installed one. So a sweep that was resumed after an upgrade, or that hosts with other
packages ran, has trials of several versions. A version that is an axis is what the cells compare.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from ackbench.experiments.ledger.planned import recorded_kind
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.cells import cell_key
from ackbench.experiments.results.models import ClientVersions, TrialResult
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, VERSION_AXIS


def mixed_client_versions(trials: Sequence[TrialResult]) -> ClientVersions | None:
    """Return the versions of librdkafka that nobody asked for; `None`: one at most.

    Args:
        trials: all trials of the sweep; sealed and measured ones count.
    """
    versions: Counter[str] = Counter()
    by_cell: defaultdict[str, set[str]] = defaultdict(set)
    for trial in trials:
        if trial.cell.get(VERSION_AXIS) is not None:
            continue
        if not trial.judged or trial.client is None:
            continue
        if recorded_kind(trial.client) == DEFAULT_CLIENT:
            versions[trial.client] += 1
            by_cell[cell_key(trial.cell)].add(trial.client)
    if len(versions) < 2:  # noqa: PLR2004 - one version is no mixture
        return None
    return ClientVersions(
        trials=dict(sorted(versions.items())),
        cells=len(by_cell),
        mixed_cells=sum(len(found) > 1 for found in by_cell.values()),
    )


def version_sentences(found: ClientVersions) -> Iterator[str]:
    """Yield what a reader must know of the versions, one sentence each without a period."""
    ran = format_list([f"{number} with {name}" for name, number in found.trials.items()])
    yield (
        f"client: trials ran with several versions of librdkafka, {ran}; {found.mixed_cells} of "
        f"{format_count(found.cells, 'cell')} have trials of more than one: where trials or cells "
        "differ, the versions may be why"
    )
