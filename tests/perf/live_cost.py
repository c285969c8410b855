"""What the live page and the metrics cost a trial: latency and throughput with and without them.

Each round runs one trial twice without the reader and once with it, with a scrape per second, on
one cluster, and the rounds start with different ones. The two without show what the machine itself
varies by (A/A).
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import numpy as np
import psutil
import pyarrow.parquet as pq

from experiments.ledger.record import Scalar
from experiments.live.page import page_path
from experiments.live.process import ReaderProcess
from experiments.planning.new_sweep import plan_new_sweep
from experiments.planning.overrides import Overrides
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import TrialSpec
from experiments.trial.run import run_trial
from infra.cluster.interface import Cluster
from infra.machine.home import Home
from infra.process.waiting import wait_until

PORT: Final = 9464
SIDES: Final = ("without", "without again", "with")
CELL: Final[Mapping[str, Sequence[Scalar]]] = {
    "acks": ("all",),
    "enable.idempotence": (True,),
    "replication.factor": (3,),
    "partitions": (3,),
    "fault": ("none",),
}
"""The cell of `quick` that is run."""


@dataclass(frozen=True)
class TrialCost:
    """One trial."""

    p50_ms: float
    p99_ms: float
    acked_per_s: float
    """Acknowledged within the load, per second of it."""
    reader_cpu_ms_per_s: float | None
    """CPU time of the reader per second of the trial; `None`: there was none."""


@dataclass(frozen=True)
class LiveCost:
    """All rounds of one load."""

    rate_records_per_s: int
    rounds: tuple[tuple[TrialCost, TrialCost, TrialCost], ...]
    """Each in the order of `SIDES`."""

    def ratios(self, figure: str, side: int) -> list[float]:
        """Return a figure's ratio of a side to the first one, per round."""
        return [getattr(one[side], figure) / getattr(one[0], figure) for one in self.rounds]

    def ratio(self, figure: str, side: int) -> float:
        """Return the median of the rounds' ratios."""
        return statistics.median(self.ratios(figure, side))


def live_cost(
    home: Home, cluster: Cluster, scratch: Path, rate: int, seconds: float, rounds: int
) -> LiveCost:
    """Run the trials.

    Args:
        home: the home with Kafka's jars.
        cluster: a healthy cluster of three nodes.
        scratch: an empty folder for the ledgers and the page.
        rate: records/s.
        seconds: the length of a load.
        rounds: how often each side runs.
    """
    axes = {**CELL, "workload.rate_records_per_s": (rate,), "workload.duration_s": (seconds,)}
    overrides = Overrides(axes, rounds * len(SIDES), 1, controls=False)
    plan = plan_new_sweep(home, "quick", overrides).plan
    own_home = Home(scratch / f"home-{rate}")
    sweep = SweepFolder(own_home.sweeps / plan.sweep_id)
    sweep.write_plan(plan)
    specs = iter(plan.trials)
    measured = []
    for number in range(rounds):
        costs: dict[int, TrialCost] = {}
        for turn in range(len(SIDES)):
            side = (number + turn) % len(SIDES)
            costs[side] = _run(home, own_home, sweep, next(specs), cluster, live=side == 2)
        measured.append((costs[0], costs[1], costs[2]))
    return LiveCost(rate, tuple(measured))


def _run(
    home: Home,
    own_home: Home,
    sweep: SweepFolder,
    spec: TrialSpec,
    cluster: Cluster,
    *,
    live: bool,
) -> TrialCost:
    if not live:
        run_trial(sweep, spec, cluster, home)
        return _cost(sweep, spec, None)
    with _reader(own_home, sweep) as reader:
        before_s, began_s = _cpu_s(reader), time.monotonic()
        run_trial(sweep, spec, cluster, home)
        per_s = (_cpu_s(reader) - before_s) / (time.monotonic() - began_s)
    return _cost(sweep, spec, per_s * 1000)


@contextmanager
def _reader(own_home: Home, sweep: SweepFolder) -> Iterator[psutil.Process]:
    """Run the reader, once it is up, with a scrape per second."""
    page = page_path(own_home)
    page.unlink(missing_ok=True)
    reader = ReaderProcess(own_home, sweep, PORT)
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(1):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as got:
                got.read()

    scraper = threading.Thread(target=scrape)
    try:
        wait_until(page.is_file, awaiting="the live page", timeout_s=120)
        scraper.start()
        yield psutil.Process(reader.pid)
    finally:
        ended.set()
        reader.stop()
        if scraper.is_alive():
            scraper.join()


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _cost(sweep: SweepFolder, spec: TrialSpec, reader_cpu_ms_per_s: float | None) -> TrialCost:
    table = pq.read_table(
        sweep.trial(spec.trial_id) / "attempts.parquet",
        columns=["intended_ns", "settled_ns", "outcome"],
    )
    settled = table["settled_ns"].fill_null(0).to_numpy()
    intended = table["intended_ns"].to_numpy()
    acked = (settled > 0) & (table["outcome"].cast("string").to_numpy() == "acked")
    latency_ms = (settled[acked] - intended[acked]) / 1e6
    p50, p99 = np.percentile(latency_ms, [50, 99])
    end_ns = intended.min() + spec.workload.duration_s * 1e9
    in_time = int((acked & (settled <= end_ns)).sum())
    return TrialCost(
        float(p50), float(p99), in_time / spec.workload.duration_s, reader_cpu_ms_per_s
    )
