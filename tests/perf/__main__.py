"""`make perf`: measure throughput, start times and the live page, on an idle machine.

    python tests/perf [--connect | --generators | --job | --live | --relays | --sweeps |
                       --undivided]

With `--connect` only the measuring job on a server of Spark Connect is measured; with
`--generators` only throughput and lateness of the generators; with `--job` only the measuring job;
with `--live` only the cost of the live page and the metrics; with `--relays` only the relays in
front of an external cluster; with `--sweeps` only the commands about many stored sweeps; with
`--undivided` only the memory of a task that measures a trial with keys, compaction or replays.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from perf.cluster_start import Starts, cluster_starts
from perf.generator import FinalRead, NotQuiet, Rates, cold, final_read, lateness, warm
from perf.live_cost import SIDES, LiveCost, live_cost
from perf.process_tree import DRIVER, JVM, WORKERS
from perf.relays import RelayCosts, relay_costs
from perf.spark_job import MILLION, Side, connect_costs, job_costs
from perf.sweeps import sweeps_costs, sweeps_table
from perf.undivided import RECORDS, task_memories

from ackbench.experiments.ledger.trial_manifest import ProducerSummary
from ackbench.experiments.results.spark_job import ensure_spark_ready
from ackbench.infra.cluster.interface import Cluster
from ackbench.infra.cluster.local import provision
from ackbench.infra.cluster.setup import ensure_kafka_ready
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home


def rates_table(title: str, rates: tuple[Rates, ...]) -> Table:
    """Return the table of the generators, each compared to the replay and to ackbench's."""
    limit, own = rates[:2]
    table = Table(
        "generator",
        "of the limit",
        "ackbench / it",
        "records/s, median",
        "records/s, each round",
        "client CPU s per 10^6",
        "brokers CPU s per 10^6",
        "batch bytes",
        title=title,
    )
    for one in rates:
        table.add_row(
            one.generator,
            f"{one.ratio_to(limit):.2f}",
            f"{own.ratio_to(one):.2f}",
            f"{one.records_per_s:,.0f}",
            "  ".join(
                "busy" if sent is None else f"{sent.records_per_s:,.0f}" for sent in one.rounds
            ),
            f"{one.median(lambda sent: sent.client_cpu_s):.2f}",
            f"{one.median(lambda sent: sent.brokers_cpu_s):.2f}",
            f"{one.median(lambda sent: sent.batch_bytes):,.0f}",
        )
    return table


def print_generators(console: Console, home: Home, cluster: Cluster) -> None:
    """Measure the generators on one warm cluster, then each on new ones."""
    same = "RF 3, acks=all, idempotent, 6 partitions, 100 B"
    try:
        rates = warm(cluster)
        console.print(rates_table(f"Throughput, warm: {same}", rates))
        batch_bytes = rates[1].median(lambda sent: sent.batch_bytes)
        on_new = cold(lambda: _cluster(home), batch_bytes)
        console.print(rates_table(f"Throughput, each round on a new cluster: {same}", on_new))
    except NotQuiet as error:
        console.print(f"Throughput: no figures, {error}")


def lateness_table(summaries: tuple[tuple[int, ProducerSummary], ...]) -> Table:
    """Return the table of how far the generator fell behind its schedule."""
    table = Table("records/s", "p50 ms", "p99 ms", "max ms", title="Lateness of the generator")
    for rate, summary in summaries:
        late_us = (summary.lateness_us_p50, summary.lateness_us_p99, summary.lateness_us_max)
        table.add_row(
            f"{rate:,}",
            *("unknown" if value is None else f"{value / 1000:,.2f}" for value in late_us),
        )
    return table


def final_read_table(read: FinalRead) -> Table:
    """Return the table of the final read."""
    table = Table(
        "records", "records/s, median", "seconds, each round", title="The final read of a log"
    )
    table.add_row(
        f"{read.records:,}",
        f"{read.records_per_s:,.0f}",
        "  ".join(f"{seconds:.2f}" for seconds in read.seconds),
    )
    return table


def starts_table(starts: Starts) -> Table:
    """Return the table of the start times with and without caches."""
    table = Table(
        "start-up caches",
        "without / with",
        "seconds, median",
        "seconds, each round",
        title="Start of a healthy cluster of three nodes",
    )
    for name, ratio, seconds in (
        ("with", "1.00", starts.with_caches_s),
        ("without", f"{starts.ratio:.2f}", starts.without_s),
    ):
        table.add_row(
            name, ratio, f"{median(seconds):.2f}", "  ".join(f"{second:.2f}" for second in seconds)
        )
    return table


def job_table(title: str, sides: tuple[Side, ...]) -> Table:
    """Return the table of the measuring job, each side compared to the first."""
    table = Table(
        "side",
        f"it / {sides[0].name}",
        "seconds, median",
        "seconds, each round",
        "s per 10^6 records",
        "CPU s, median",
        "peak MB: JVM / Python workers / other",
        title=title,
    )
    for side in sides:
        peaks = [side.peak_bytes(kind) for kind in (JVM, WORKERS, DRIVER)]
        table.add_row(
            side.name,
            f"{side.ratio_to(sides[0]):.2f}",
            f"{side.seconds:.2f}",
            "  ".join(f"{cost.seconds:.2f}" for cost in side.rounds),
            f"{side.seconds / side.records * MILLION:.2f}" if side.records >= MILLION else "",
            f"{median(cost.cpu_s for cost in side.rounds):.1f}",
            " / ".join(f"{peak / 2**20:,.0f}" for peak in peaks),
        )
    return table


def live_table(cost: LiveCost) -> Table:
    """Return the table of turns with the live page and without it, each compared to the first."""
    table = Table(
        "side",
        f"p50 / {SIDES[0]}",
        f"p99 / {SIDES[0]}",
        f"throughput / {SIDES[0]}",
        "p50 ms",
        "p99 ms",
        "records/s",
        title=f"Live page, a scrape per second: {cost.rate_records_per_s:,} records/s, "
        f"{len(cost.rounds)} rounds; the reader takes {cost.reader_cpu_ms_per_s:.1f} ms/s",
    )
    figures = ("p50_ms", "p99_ms", "acked_per_s")
    for side, name in enumerate(SIDES):
        ratios = [
            f"{cost.ratio(figure, side):.2f} ({low:.2f} to {high:.2f})"
            for figure in figures
            for low, high in [cost.interval(figure, side)]
        ]
        medians = [
            f"{median(getattr(one[side], figure) for one in cost.rounds):,.1f}"
            for figure in figures
        ]
        table.add_row(name, *ratios, *medians)
    return table


def print_live_costs(console: Console, home: Home, cluster: Cluster) -> None:
    """Measure at a load that the cluster keeps up with, and at one that it does not."""
    with tempfile.TemporaryDirectory() as folder:
        for rate, seconds, trials in ((2_000, 62.0, 4), (100_000, 20.0, 2)):
            cost = live_cost(home, cluster, Path(folder), rate, seconds, trials)
            console.print(live_table(cost))


def print_job_costs(console: Console, home: Home) -> None:
    """Measure the job and print both of its tables."""
    costs = job_costs(home)
    console.print(job_table("The measuring job: 2 trials of 5 million records", costs.large))
    console.print(job_table("The measuring job: its own start included", costs.floor))


def print_connect_costs(console: Console, home: Home) -> None:
    """Measure the job on a Connect server, and print its table."""
    title = "The measuring job on a Connect server: 2 trials of 5 million records"
    console.print(job_table(title, connect_costs(home)))


def print_undivided(console: Console, home: Home) -> None:
    """Measure the memory of tasks whose trials are not divided, and print its table."""
    del home
    sizes = [f"{records // MILLION} million, MB" for records in RECORDS]
    title = "Memory of a task with an entire trial"
    table = Table("trial with", *sizes, "bytes per record", title=title)
    for one in task_memories():
        peaks = [f"{peak / 2**20:,.0f}" for peak in one.peak_bytes]
        table.add_row(one.kind, *peaks, f"{one.record_bytes:.0f}")
    console.print(table)


def relays_table(costs: RelayCosts) -> Table:
    """Return the table of a producer behind relays, compared to one that connects directly.

    The relays have no rule, or one that no request meets.
    """
    table = Table(
        "measure",
        "relayed / direct",
        "with a rule / relayed",
        "direct, median",
        "relayed, median",
        "with a rule, median",
        "with a rule / relayed, each round",
        title="Relays in front of three brokers with SASL_SSL: RF 3, acks=all, idempotent, 200 B",
    )
    for measure, unit in (("p50_ms", "ms"), ("p99_ms", "ms"), ("records_per_s", "records/s")):
        ratios = costs.ratios(measure, "ruled", "relayed")
        table.add_row(
            {"p50_ms": "ack p50", "p99_ms": "ack p99"}.get(measure, "throughput"),
            f"{median(costs.ratios(measure, 'relayed')):.2f}",
            f"{median(ratios):.2f}",
            *(f"{costs.median(side, measure):,.1f} {unit}" for side in costs.sides),
            "  ".join(f"{ratio:.2f}" for ratio in ratios),
        )
    return table


SECTIONS: tuple[Callable[[Cluster], Table], ...] = (
    lambda cluster: lateness_table(lateness(cluster)),
    lambda cluster: final_read_table(final_read(cluster)),
)
"""The measurements on the cluster, in order."""
SPARK_SECTIONS: dict[str, Callable[[Console, Home], None]] = {
    "--job": print_job_costs,
    "--connect": print_connect_costs,
    "--undivided": print_undivided,
}
"""The measurements of the measuring job, which need no cluster, by their options."""


@contextmanager
def _cluster(home: Home) -> Iterator[Cluster]:
    """Run a cluster of three nodes while the context lasts."""
    cluster = provision(home.clusters, home.cache, f"perf-{uuid.uuid4().hex[:6]}", ClusterSpec())
    try:
        yield cluster
    finally:
        cluster.destroy()


def main() -> int:
    """Run the measurements and print their tables."""
    console, home = Console(), Home.from_environment()
    home.ensure_writable()
    if "--sweeps" in sys.argv[1:]:
        console.print(sweeps_table(sweeps_costs()))
        return 0
    for option, print_costs in SPARK_SECTIONS.items():
        if option in sys.argv[1:]:
            ensure_spark_ready(home, console.print)
            print_costs(console, home)
            return 0
    ensure_kafka_ready(home.cache, ClusterSpec(), console.print)
    if "--generators" in sys.argv[1:]:
        with _cluster(home) as cluster:
            print_generators(console, home, cluster)
            console.print(lateness_table(lateness(cluster)))
        return 0
    if "--live" in sys.argv[1:]:
        with _cluster(home) as cluster:
            print_live_costs(console, home, cluster)
        return 0
    if "--relays" in sys.argv[1:]:
        console.print(relays_table(relay_costs(home)))
        return 0
    ensure_spark_ready(home, console.print)
    console.print(starts_table(cluster_starts(home)))
    with _cluster(home) as cluster:
        print_generators(console, home, cluster)
        for section in SECTIONS:
            console.print(section(cluster))
        print_live_costs(console, home, cluster)
    console.print(relays_table(relay_costs(home)))
    for print_costs in SPARK_SECTIONS.values():
        print_costs(console, home)
    console.print(sweeps_table(sweeps_costs()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
