"""Figures of a trial that are computed from several of its fields, for lessons that are data."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from ackbench.experiments.lessons.finding import RATE_AXIS, FindingInput
from ackbench.experiments.results.models import TrialResult

Bounds = tuple[float, float]
"""The lowest and the highest value that a figure may have; mostly equal."""
_HELD_END_TXN: Final = re.compile(
    r"a relay held EndTxn v(?P<version>\d+) .* answered with error (?P<error>\d+)"
)


def _ack_p50_ms(_data: FindingInput, trial: TrialResult) -> float | None:
    latency = trial.latency_ms.ack
    return latency.p50 if latency else None


def _end_to_end_p50_ms(_data: FindingInput, trial: TrialResult) -> float | None:
    latency = trial.latency_ms.end_to_end
    return latency.p50 if latency else None


def _acked_in_time_percent(_data: FindingInput, trial: TrialResult) -> float | None:
    if trial.throughput_records_per_s is None:
        return None
    return 100 * trial.throughput_records_per_s / float(str(trial.cell[RATE_AXIS]))


def _held_end_txn(_data: FindingInput, trial: TrialResult, part: str) -> Bounds | None:
    """Return the lowest and the highest version, or error code, of EndTxn requests in a relay."""
    held = [
        int(match[part])
        for sentence in (trial.fault.evidence if trial.fault else ())
        if (match := _HELD_END_TXN.match(sentence))
    ]
    return (min(held), max(held)) if held else None


def _idle_nodes(data: FindingInput, trial: TrialResult) -> set[int]:
    """Return the brokers with counters by which no client reports to be served."""
    serving = {row["node"] for row in data.rows("serving").get(trial.trial_id, ())}
    return {row["node"] for row in data.rows("brokers").get(trial.trial_id, ())} - serving


def _idle_brokers(data: FindingInput, trial: TrialResult) -> float | None:
    return len(_idle_nodes(data, trial)) or None


def _of_idle_brokers(data: FindingInput, trial: TrialResult, counter: str) -> float | None:
    """Return a counter of the brokers that served no client; None: there are none."""
    idle = _idle_nodes(data, trial)
    rows = data.rows("brokers").get(trial.trial_id, ())
    counts = [row["count"] for row in rows if row["node"] in idle and row["name"] == counter]
    return sum(counts) if counts else None


def _changed_broker(data: FindingInput, trial: TrialResult) -> float | None:
    """Return whether consumers read partition 0, whose leader the fault stops, from several."""
    nodes = {
        row["node"]
        for row in data.rows("serving").get(trial.trial_id, ())
        if row["side"] == "consumer" and row["partition"] == 0
    }
    return len(nodes) > 1


DERIVED: Final[dict[str, Callable[[FindingInput, TrialResult], float | Bounds | None]]] = {
    "ack_p50_ms": _ack_p50_ms,
    "end_to_end_p50_ms": _end_to_end_p50_ms,
    "acked_in_time_percent": _acked_in_time_percent,
    "atomicity_violations": lambda _data, trial: trial.atomicity_violations,
    "idle_brokers": _idle_brokers,
    "idle_brokers_sent_bytes": partial(_of_idle_brokers, counter="BytesOutPerSec"),
    "idle_brokers_received_records": partial(_of_idle_brokers, counter="MessagesInPerSec"),
    "changed_broker": _changed_broker,
    "end_txn_version": partial(_held_end_txn, part="version"),
    "end_txn_error": partial(_held_end_txn, part="error"),
}
"""Figures that are computed from several fields of a trial."""
