"""A remark for cells whose `min.insync.replicas` is above their replication factor."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.messages.phrases import format_count
from experiments.sweep.plan import Plan

_SETTING = "min.insync.replicas"


def min_insync_replicas_remarks(plan: Plan) -> Iterator[str]:
    """Yield a line per pair of values of which the first is above the replication factor.

    Brokers count it as the replication factor (KAFKA-15583, from Kafka 3.7 on), so the cell tests
    another setting than the one that it names. Before 3.7 they refuse every record with acks=all
    (NOT_ENOUGH_REPLICAS).
    """
    labels: dict[tuple[int, int], set[str]] = {}
    for trial in plan.trials:
        text = trial.topic.get(_SETTING, "")
        if text.isdecimal() and int(text) > trial.replication_factor:
            values = (int(text), trial.replication_factor)
            labels.setdefault(values, set()).add(trial.label)
    for (minimum, factor), named in labels.items():
        yield (
            f"warning: {_SETTING}={minimum} is above replication.factor={factor} in "
            f"{format_count(len(named), 'cell')}: brokers count it as {factor} (Kafka 3.7 and "
            "later), or refuse every record with acks=all (before)"
        )
