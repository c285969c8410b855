"""The CPU time of a trial's processes, on planted samplings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ackbench.experiments.ledger.stalls import STALLS_SAMPLED, StallSampling
from ackbench.experiments.ledger.terms import Source
from ackbench.spark_jobs.pipeline import measure_unit, trial_tables
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedEvent, PlantedTrial


def columns_of(cpu_ns: Mapping[str, int] | None) -> Mapping[str, Any]:
    """Return the columns of a trial of two producers; `None`: stalls were not looked for."""
    events = []
    if cpu_ns is not None:
        detail = StallSampling(samples=1, cpu_s=0.001, cpu_ns=dict(cpu_ns)).model_dump_json()
        events = [PlantedEvent(1, STALLS_SAMPLED, source=Source.MACHINE, detail=detail)]
    attempts = [PlantedAttempt(producer, 0, settled_ns=1) for producer in range(2)]
    trial = PlantedTrial("t", attempts, events=events)
    (row,) = trial_tables(measure_unit(trial.rows()))["trials"].to_pylist()
    return {name: row[f"{name}_ns"] for name in ("producer_cpu", "cluster_cpu")}


@pytest.mark.parametrize(
    ("cpu_ns", "producers", "cluster"),
    [
        ({"producer 0": 1, "producer 1": 2, "node 1": 30, "node 12": 40}, 3, 70),
        # Neither the consumer nor the relays are on one of the two sides.
        ({"producer 0": 1, "producer 1": 2, "consumer 0": 5, "relay": 7}, 3, None),
        # A sum of one of two producers would be too little.
        ({"producer 0": 1, "node 1": 30}, None, 30),
        ({}, None, None),
        (None, None, None),
    ],
)
def test_the_cpu_time_of_each_side_is_that_of_its_processes(
    cpu_ns: Mapping[str, int] | None, producers: int | None, cluster: int | None
) -> None:
    """Or unknown, where one of them is."""
    assert columns_of(cpu_ns) == {"producer_cpu": producers, "cluster_cpu": cluster}
