"""`make perf`: measure throughput and start times on one cluster, on an idle machine."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from perf.cluster_start import Starts, cluster_starts
from perf.generator import FinalRead, Rates, compare, final_read, lateness
from perf.spark_job import SparkRate, spark_rate

from experiments.ledger.record import ProducerSummary
from experiments.results.spark_job import ensure_spark_ready
from infra.cluster.interface import Cluster
from infra.cluster.local import provision
from infra.cluster.setup import ensure_kafka_ready
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home


def rates_table(rates: tuple[Rates, ...]) -> Table:
    """Return the table of the generators, each compared to ackbench's."""
    own = rates[0]
    table = Table(
        "generator",
        "ackbench / it",
        "records/s, median",
        "records/s, each round",
        title="Throughput: RF 3, acks=all, idempotent, 6 partitions, 100 B",
    )
    for other in rates:
        rounds = "  ".join(f"{rate:,.0f}" for rate in other.records_per_s)
        table.add_row(other.generator, f"{own.ratio_to(other):.2f}", f"{other.median:,.0f}", rounds)
    return table


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


def spark_table(rate: SparkRate) -> Table:
    """Return the table of the Spark job's throughput and start time."""
    table = Table(
        "records",
        "seconds / of these, start",
        "records/s",
        title="The Spark job: 20 trials, its own start included",
    )
    table.add_row(
        f"{rate.records:,}",
        f"{rate.seconds:.1f} / {rate.start_seconds:.1f}",
        f"{rate.records_per_s:,.0f}",
    )
    return table


SECTIONS: tuple[Callable[[Cluster], Table], ...] = (
    lambda cluster: rates_table(compare(cluster)),
    lambda cluster: lateness_table(lateness(cluster)),
    lambda cluster: final_read_table(final_read(cluster)),
)
"""The measurements on the cluster, in order."""


def main() -> int:
    """Run the measurements and print their tables."""
    console, home = Console(), Home.from_environment()
    home.ensure_writable()
    ensure_kafka_ready(home.cache, ClusterSpec(), console.print)
    ensure_spark_ready(home, console.print)
    console.print(starts_table(cluster_starts(home)))
    cluster = provision(home.clusters, home.cache, f"perf-{uuid.uuid4().hex[:6]}", ClusterSpec())
    try:
        for section in SECTIONS:
            console.print(section(cluster))
    finally:
        cluster.destroy()
    console.print(spark_table(spark_rate(home)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
