"""`make perf`: measure on one cluster, in one run, and print ratios first. Run it on a machine that does nothing else."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from perf.generator import FinalRead, Rates, compare, final_read, lateness
from perf.spark_job import SparkRate, spark_rate
from perf.starting import Starts, cluster_starts

from experiments.ledger.record import ProducerSummary
from experiments.results.spark_job import ensure_spark_ready
from infra.cluster.interface import Cluster
from infra.cluster.local import provision
from infra.cluster.setup import ensure_kafka_ready
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home


def rates_table(found: tuple[Rates, ...]) -> Table:
    """Show the generators, each beside ours."""
    ours = found[0]
    table = Table(
        "generator",
        "ours / it",
        "records/s, median",
        "records/s, each round",
        title="How fast: RF 3, acks=all, idempotent, 6 partitions, 100 B",
    )
    for rates in found:
        rounds = "  ".join(f"{rate:,.0f}" for rate in rates.records_per_s)
        table.add_row(rates.generator, f"{ours.times(rates):.2f}", f"{rates.median:,.0f}", rounds)
    return table


def lateness_table(found: tuple[tuple[int, ProducerSummary], ...]) -> Table:
    """Show how far the generator fell behind its schedule."""
    table = Table("records/s", "p50 ms", "p99 ms", "max ms", title="How late against the schedule")
    for rate, summary in found:
        late_us = (summary.lateness_us_p50, summary.lateness_us_p99, summary.lateness_us_max)
        table.add_row(
            f"{rate:,}",
            *("not known" if value is None else f"{value / 1000:,.2f}" for value in late_us),
        )
    return table


def final_read_table(found: FinalRead) -> Table:
    """Show the final read."""
    table = Table(
        "records", "records/s, median", "seconds, each round", title="The final read of a log"
    )
    table.add_row(
        f"{found.records:,}",
        f"{found.records_per_s:,.0f}",
        "  ".join(f"{seconds:.2f}" for seconds in found.seconds),
    )
    return table


def starts_table(found: Starts) -> Table:
    """Show what the start-up caches are worth."""
    table = Table(
        "start-up caches",
        "without / with",
        "seconds, median",
        "seconds, each round",
        title="From nothing to a whole cluster of three nodes",
    )
    for name, ratio, seconds in (
        ("with", "1.00", found.with_caches_s),
        ("without", f"{found.ratio:.2f}", found.without_s),
    ):
        table.add_row(
            name, ratio, f"{median(seconds):.2f}", "  ".join(f"{second:.2f}" for second in seconds)
        )
    return table


def spark_table(found: SparkRate) -> Table:
    """Show what the Spark job measures, and what its start alone costs."""
    table = Table(
        "records",
        "seconds / of them start",
        "records/s",
        title="The Spark job: 20 trials, its own start included",
    )
    table.add_row(
        f"{found.records:,}",
        f"{found.seconds:.1f} / {found.start_seconds:.1f}",
        f"{found.records_per_s:,.0f}",
    )
    return table


SECTIONS: tuple[Callable[[Cluster], Table], ...] = (
    lambda cluster: rates_table(compare(cluster)),
    lambda cluster: lateness_table(lateness(cluster)),
    lambda cluster: final_read_table(final_read(cluster)),
)
"""What is measured on the cluster, in turn."""


def main() -> int:
    """Measure and print."""
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
