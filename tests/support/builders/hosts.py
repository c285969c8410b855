"""Planted results of a sweep that several hosts ran."""

from __future__ import annotations

import numpy as np

from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.results.models import FaultResult, Latencies, Quantiles, TrialResult

SCATTER = 0.1
"""The standard deviation of the logarithm of a trial's figures."""


def hosted_trial(
    number: int,
    acks: str,
    host: str | None,
    ack_ms: tuple[float, float] | None,
    others: tuple[float, float] | None = None,
) -> TrialResult:
    """Return a sealed trial of a cell.

    Args:
        number: of the repeat.
        acks: the only axis of the cell.
        host: that ran the trial; `None`: not recorded.
        ack_ms: its p50 and p99; `None`: not measured.
        others: its longest gap in ms and its records per second; `None`: not measured.
    """
    latency = ack_ms and Quantiles(
        records=100, negative_records=0, p50=ack_ms[0], p90=9e9, p99=ack_ms[1], p99_9=9e9, max=9e9
    )
    return TrialResult(
        trial_id=f"{number:03d}-abcdef",
        cell={"acks": acks},
        label=f"acks={acks}",
        repeat=number,
        status=Status.SEALED,
        fault=FaultResult(kind="none"),
        attempted=100,
        latency_ms=Latencies(ack=latency or None),
        unavailable_ms=others[0] if others else None,
        throughput_records_per_s=others[1] if others else None,
        host=host,
    )


def hosted_sweep(
    seed: int, slower: float = 1.0, *, cells: int = 5, repeats: int = 6, hosts: str = "ab"
) -> list[TrialResult]:
    """Return the trials of a sweep whose cells differ tenfold.

    Args:
        seed: of what scatters.
        slower: by what the latencies of the last host are multiplied.
        cells: how many, each with its own level.
        repeats: of each cell; the hosts take turns.
        hosts: their names, one letter each.
    """
    random = np.random.default_rng(seed)
    trials = []
    for cell in range(cells):
        for repeat in range(repeats):
            host = hosts[(repeat + cell) % len(hosts)]
            p50, p99, gap, per_s = (10.0**cell * random.lognormal(sigma=SCATTER, size=4)).tolist()
            factor = slower if host == hosts[-1] else 1.0
            trials.append(
                hosted_trial(
                    repeat, f"cell {cell}", host, (p50 * factor, p99 * factor), (gap, per_s)
                )
            )
    return trials
