"""`make perf`: measure on one cluster, in one run, and print ratios first. Run it on a machine that does nothing else."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from perf.generator import FinalRead, Rates, compare, final_read, lateness

from experiments.ledger.record import ProducerSummary
from infra.cluster import Cluster, ClusterSpec
from infra.home import Home
from infra.kafka_ready import ensure_kafka_ready
from infra.local import provision


def rates_table(found: tuple[Rates, ...]) -> Table:
    """Show the generators, each beside ours."""
    ours = found[0]
    table = Table("generator", "ours / it", "records/s, median", "records/s, each round", title="How fast: RF 3, acks=all, idempotent, 6 partitions, 100 B")
    for rates in found:
        rounds = "  ".join(f"{rate:,.0f}" for rate in rates.records_per_s)
        table.add_row(rates.generator, f"{ours.times(rates):.2f}", f"{rates.median:,.0f}", rounds)
    return table


def lateness_table(found: tuple[tuple[int, ProducerSummary], ...]) -> Table:
    """Show how far the generator fell behind its schedule."""
    table = Table("records/s", "p50 ms", "p99 ms", "max ms", title="How late against the schedule")
    for rate, summary in found:
        late_us = (summary.lateness_us_p50, summary.lateness_us_p99, summary.lateness_us_max)
        table.add_row(f"{rate:,}", *(f"{value / 1000:,.2f}" for value in late_us))
    return table


def final_read_table(found: FinalRead) -> Table:
    """Show the final read."""
    table = Table("records", "records/s, median", "seconds, each round", title="The final read of a log")
    table.add_row(f"{found.records:,}", f"{found.records_per_s:,.0f}", "  ".join(f"{seconds:.2f}" for seconds in found.seconds))
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
    ensure_kafka_ready(home.cache, ClusterSpec().kafka_version, console.print)
    cluster = provision(home.clusters, home.cache, f"perf-{uuid.uuid4().hex[:6]}", ClusterSpec())
    try:
        for section in SECTIONS:
            console.print(section(cluster))
    finally:
        cluster.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main())
