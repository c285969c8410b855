"""The CPU time of a trial's processes, as its sampling of stalls counted it.

    producer_cpu = sum over producers of (utime + stime) while the stalls were sampled
    cluster_cpu = the same over nodes

The source is /proc/<pid>/stat (proc(5)), in ticks of 10 ms per process. A process that was killed
lacks what it took since the sample before: up to 50 ms of a client's time, 200 ms of a node's.
Children of a program that wraps a client are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ackbench.experiments.ledger.stalls import is_node, producer_name
from ackbench.spark_jobs.measures.measure import MeasuredTrial, OfEvents, Tables


class CpuMeasure(OfEvents):
    """The CPU time of the producers, and of the cluster's nodes."""

    def rows(self, trial: MeasuredTrial) -> Tables:
        """Return a trial's columns. Null: one of the processes was not sampled."""
        sampling = trial.stalls.sampling
        cpu_ns = sampling.cpu_ns if sampling else {}
        producers = {producer_name(one.producer) for one in trial.manifest.producers}
        columns = {
            "producer_cpu_ns": _sum(cpu_ns, producers),
            "cluster_cpu_ns": _sum(cpu_ns, {*filter(is_node, cpu_ns)}),
        }
        return {"trials": [columns]}


def _sum(cpu_ns: Mapping[str, int], processes: AbstractSet[str]) -> int | None:
    if not processes or not processes <= cpu_ns.keys():
        return None
    return sum(cpu_ns[process] for process in processes)
