"""What the live page and the metrics cost a trial: latency and throughput with and without them.

During one load the reader is stopped and continued (SIGSTOP, SIGCONT) in turns of two seconds, in a
random order of three sides: without it, without it again, and with it and a scrape per second. So
the sides see the same cluster, the same clients and, within seconds, the same other work of the
machine. The two without show what the machine itself varies by (A/A).
"""

from __future__ import annotations

import random
import statistics
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import numpy as np
import psutil
import pyarrow.parquet as pq

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.pages.live.files import page_path
from ackbench.experiments.pages.live.process import ReaderProcess
from ackbench.experiments.planning.new_sweep import plan_new_sweep
from ackbench.experiments.planning.overrides import Overrides
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.run import run_trial
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

PORT: Final = 9464
SIDES: Final = ("without", "without again", "with")
WITH: Final = 2
TURN_S: Final = 2.0
CELL: Final[Mapping[str, Sequence[Scalar]]] = {
    "acks": ("all",),
    "enable.idempotence": (True,),
    "replication.factor": (3,),
    "partitions": (3,),
    "fault": ("none",),
}
"""The cell of `quick` that is run."""


@dataclass(frozen=True)
class Turn:
    """Two seconds of one side."""

    side: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True)
class TurnFigures:
    """The records that were due in a turn."""

    p50_ms: float
    p99_ms: float
    acked_per_s: float
    """Acknowledged within the turn, whenever they were due, per second."""


@dataclass(frozen=True)
class LiveCost:
    """All rounds of one load."""

    rate_records_per_s: int
    rounds: tuple[tuple[TurnFigures, TurnFigures, TurnFigures], ...]
    """Each in the order of `SIDES`."""
    reader_cpu_ms_per_s: float
    """CPU time of the reader per second of the turns with it."""

    def ratios(self, figure: str, side: int) -> list[float]:
        """Return a figure's ratio of a side to the first one, per round."""
        return [getattr(one[side], figure) / getattr(one[0], figure) for one in self.rounds]

    def ratio(self, figure: str, side: int) -> float:
        """Return the median of the rounds' ratios."""
        return statistics.median(self.ratios(figure, side))

    def interval(self, figure: str, side: int) -> tuple[float, float]:
        """Return a 95 % interval of that median, from the ratios' ranks (binomial)."""
        ratios = sorted(self.ratios(figure, side))
        margin = 0.98 * len(ratios) ** 0.5
        low = max(0, int(len(ratios) / 2 - margin))
        return ratios[low], ratios[len(ratios) - 1 - low]


def live_cost(
    home: Home, cluster: Cluster, scratch: Path, rate: int, seconds: float, trials: int
) -> LiveCost:
    """Run the trials.

    Args:
        home: the home with Kafka's jars.
        cluster: a healthy cluster of three nodes.
        scratch: an empty folder for the ledgers and the page.
        rate: records/s.
        seconds: the length of a load.
        trials: how many loads.
    """
    axes = {**CELL, "workload.rate_records_per_s": (rate,), "workload.duration_s": (seconds,)}
    plan = plan_new_sweep(home, "quick", Overrides(axes, trials, 1, controls=False)).plan
    own_home = Home(scratch / f"home-{rate}")
    sweep = SweepFolder(own_home.sweeps / plan.sweep_id)
    sweep.write_plan(plan)
    rounds: list[tuple[TurnFigures, TurnFigures, TurnFigures]] = []
    with _reader(own_home, sweep) as reader:
        turns = _Turns(reader)
        for spec in plan.trials:
            with turns.taken():
                run_trial(sweep, spec, cluster, home)
            rounds += _rounds(sweep.trial(spec.trial_id), turns.of_last_trial, seconds)
    return LiveCost(rate, tuple(rounds), turns.cpu_s / turns.with_s * 1000)


@contextmanager
def _reader(own_home: Home, sweep: SweepFolder) -> Iterator[psutil.Process]:
    """Run the reader, once it is up, with a scrape per second."""
    reader = ReaderProcess(own_home, sweep, PORT)
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(1):
            with suppress(OSError), urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as got:
                got.read()

    scraper = threading.Thread(target=scrape)
    try:
        wait_until(page_path(own_home).is_file, awaiting="the live page", timeout_s=120)
        scraper.start()
        yield psutil.Process(reader.pid)
    finally:
        ended.set()
        reader.stop()
        if scraper.is_alive():
            scraper.join()


@dataclass
class _Turns:
    """Stops and continues the reader while a trial runs."""

    reader: psutil.Process
    of_last_trial: list[list[Turn]] = field(default_factory=list)
    """Rounds of one turn per side."""
    with_s: float = 0.0
    cpu_s: float = 0.0

    @contextmanager
    def taken(self) -> Iterator[None]:
        self.of_last_trial = []
        ended = threading.Event()
        thread = threading.Thread(target=self._take, args=[ended])
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self.reader.resume()

    def _take(self, ended: threading.Event) -> None:
        order = random.Random(1)  # noqa: S311 - the order of turns
        while not ended.is_set():
            turns = []
            for side in order.sample(range(len(SIDES)), len(SIDES)):
                (self.reader.resume if side == WITH else self.reader.suspend)()
                began_ns, before = now_ns(), self.reader.cpu_times()
                ended.wait(TURN_S)
                turns.append(Turn(side, began_ns, now_ns()))
                if side == WITH:
                    after = self.reader.cpu_times()
                    self.with_s += (turns[-1].end_ns - began_ns) / 1e9
                    self.cpu_s += after.user + after.system - before.user - before.system
            self.of_last_trial.append(turns)


def _rounds(
    trial: Path, rounds: Sequence[Sequence[Turn]], seconds: float
) -> Iterator[tuple[TurnFigures, TurnFigures, TurnFigures]]:
    """Yield the figures of the rounds that are entirely within the load, after its first second."""
    table = pq.read_table(
        trial / "attempts.parquet", columns=["intended_ns", "settled_ns", "outcome"]
    )
    settled = table["settled_ns"].fill_null(0).to_numpy()
    intended = table["intended_ns"].to_numpy()
    acked = (settled > 0) & (table["outcome"].cast("string").to_numpy() == "acked")
    settled, latency_ms = settled[acked], (settled[acked] - intended[acked]) / 1e6
    due, begin_ns = intended[acked], int(intended.min())
    for turns in rounds:
        begins_late = min(turn.begin_ns for turn in turns) > begin_ns + 1e9
        if not begins_late or max(turn.end_ns for turn in turns) > begin_ns + seconds * 1e9:
            continue
        figures = {}
        for turn in turns:
            is_due = (due >= turn.begin_ns) & (due < turn.end_ns)
            in_time = int(((settled >= turn.begin_ns) & (settled < turn.end_ns)).sum())
            p50, p99 = np.percentile(latency_ms[is_due], [50, 99])
            took_s = (turn.end_ns - turn.begin_ns) / 1e9
            figures[turn.side] = TurnFigures(float(p50), float(p99), in_time / took_s)
        yield figures[0], figures[1], figures[2]
