"""Histories of an experiment: the summaries of many nights, with planted changes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.history.kept import current_stamp
from ackbench.experiments.results.history.store import SummaryStore
from ackbench.experiments.results.history.summary import CellSummary, SweepSummary
from ackbench.experiments.sweep.cell_names import cell_label
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.verdicts.statistics import Share, estimate, share
from ackbench.infra.machine.home import Home

DAY_S = 86_400.0
BEGIN_S = 1_767_225_600.0
"""2026-01-01, UTC."""
CELLS: Sequence[Cell] = tuple(
    {
        "acks": acks,
        "enable.idempotence": acks == "all",
        "replication.factor": 3,
        "partitions": 1,
        "fault": fault,
    }
    for acks in (1, "all")
    for fault in ("leader-crash", "leader-pause")
)
TRIALS = 5
MACHINE = {"system": "Linux 6.1", "cores": "8"}
Level = Callable[[int, int], float]
"""The factor of a cell's ack latency in a night, by the numbers of the night and of the cell."""


def as_ever(night: int, cell: int) -> float:
    """Return 1: nothing changes."""
    del night, cell
    return 1.0


def shifted(at: int, factor: float, cell: int = 0) -> Level:
    """Return a level of one cell that is multiplied by a factor from a night on."""
    return lambda night, own: factor if own == cell and night >= at else 1.0


def a_night(
    number: int,
    rng: random.Random,
    *,
    level: Level = as_ever,
    noise: float = 0.03,
    loss: Callable[[int, int], float] = lambda night, cell: 0.4 if cell < 2 else 0.0,  # noqa: ARG005
    version: str = "4.3.1",
    settings: Mapping[str, str] | None = None,
    machine: Mapping[str, str] | None = None,
    experiment: str = "nightly",
) -> SweepSummary:
    """Return the summary of one night.

    Args:
        number: of the night, from 0.
        rng: decides the noise.
        level: the factor of each cell's ack latency.
        noise: the relative standard deviation of a trial's figures.
        loss: the probability that a trial of a cell loses a record.
        version: of Kafka.
        settings: in addition to the version.
        machine: that ran the sweep.
        experiment: the name.
    """
    planned_s = BEGIN_S + number * DAY_S
    sweep_id = f"{experiment}-{_stamp(planned_s)}-{number:04x}"
    return SweepSummary(
        stamp="planted",
        sweep_id=sweep_id,
        experiment=experiment,
        question="Does it still hold?",
        planned_s=planned_s,
        took_s=600.0 + number,
        kafka_versions=(version,),
        client_versions=("2.16.1",),
        machine=dict(machine or MACHINE),
        planned_trials=TRIALS * len(CELLS),
        sealed_trials=TRIALS * len(CELLS),
        measured=True,
        held=len(CELLS),
        size_bytes=1_000_000,
        settings={"cluster kafka.version": version, **(settings or {})},
        cells=tuple(
            _cell(cell, number, place, rng, level, noise, loss) for place, cell in enumerate(CELLS)
        ),
    )


def keep_night(home: Home, summary: SweepSummary) -> SweepFolder:
    """Make the folder of a sweep with a plan that nobody reads, and keep its summary."""
    sweep = SweepFolder(home.sweeps / summary.sweep_id)
    sweep.root.mkdir(parents=True, exist_ok=True)
    (sweep.root / "plan.json").write_text("{}")
    keep_as_current(home, summary)
    return sweep


def keep_as_current(home: Home, summary: SweepSummary) -> None:
    """Keep a summary as that of what the folder of its sweep holds now."""
    sweep = SweepFolder(home.sweeps / summary.sweep_id)
    with SummaryStore(home) as store:
        store.keep(summary.model_copy(update={"stamp": current_stamp(summary, sweep)}))


def history(nights: int, seed: int, **planted: object) -> list[SweepSummary]:
    """Return the summaries of consecutive nights; the arguments are those of `a_night`."""
    rng = random.Random(seed)  # noqa: S311 - not used for secrets
    return [a_night(number, rng, **planted) for number in range(nights)]  # type: ignore[arg-type]


@cache
def _share(seen: int) -> Share:
    """Return a share of a night's trials; SciPy takes a millisecond for its interval."""
    return share(seen, TRIALS)


def _cell(
    cell: Cell,
    night: int,
    place: int,
    rng: random.Random,
    level: Level,
    noise: float,
    loss: Callable[[int, int], float],
) -> CellSummary:
    def figures(typical: float, factor: float = 1.0) -> list[float]:
        return [typical * factor * math.exp(rng.gauss(0, noise)) for _ in range(TRIALS)]

    ack = {
        name: estimate(figures(typical, level(night, place)))
        for name, typical in (("p50", 3.0), ("p99", 300.0), ("p99_9", 900.0))
    }
    outages = figures(3000.0)
    lost = sum(rng.random() < loss(night, place) for _ in range(TRIALS))
    return CellSummary(
        cell=cell,
        label=cell_label(cell),
        planned_trials=TRIALS,
        sealed_trials=TRIALS,
        incomplete_trials=0,
        void_trials=0,
        failed_trials=0,
        loss=_share(lost),
        duplication=_share(0),
        ack_ms={name: figure for name, figure in ack.items() if figure},
        outage_ms=estimate(outages),
        outage_max_ms=max(outages),
        throughput_records_per_s=estimate(figures(10_000.0)),
        verdicts={"no-acked-loss": "HELD" if cell["acks"] == "all" else "observed"},
    )


def _stamp(time_s: float) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(time_s, UTC):%Y%m%dT%H%M%S}"
