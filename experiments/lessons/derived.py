"""Figures of a trial that are computed from several of its fields, for lessons that are data."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Final

from ackbench.experiments.lessons.finding import RATE_AXIS
from ackbench.experiments.results.models import TrialResult

Bounds = tuple[float, float]
"""The lowest and the highest value that a figure may have; mostly equal."""
_HELD_END_TXN: Final = re.compile(
    r"a relay held EndTxn v(?P<version>\d+) .* answered with error (?P<error>\d+)"
)


def _ack_p50_ms(trial: TrialResult) -> float | None:
    latency = trial.latency_ms.ack
    return latency.p50 if latency else None


def _end_to_end_p50_ms(trial: TrialResult) -> float | None:
    latency = trial.latency_ms.end_to_end
    return latency.p50 if latency else None


def _acked_in_time_percent(trial: TrialResult) -> float | None:
    if trial.throughput_records_per_s is None:
        return None
    return 100 * trial.throughput_records_per_s / float(str(trial.cell[RATE_AXIS]))


def _held_end_txn(trial: TrialResult, part: str) -> Bounds | None:
    """Return the lowest and the highest version, or error code, of EndTxn requests in a relay."""
    held = [
        int(match[part])
        for sentence in (trial.fault.evidence if trial.fault else ())
        if (match := _HELD_END_TXN.match(sentence))
    ]
    return (min(held), max(held)) if held else None


DERIVED: Final[dict[str, Callable[[TrialResult], float | Bounds | None]]] = {
    "ack_p50_ms": _ack_p50_ms,
    "end_to_end_p50_ms": _end_to_end_p50_ms,
    "acked_in_time_percent": _acked_in_time_percent,
    "atomicity_violations": lambda trial: trial.atomicity_violations,
    "end_txn_version": partial(_held_end_txn, part="version"),
    "end_txn_error": partial(_held_end_txn, part="error"),
}
"""Figures that are computed from several fields of a trial."""
