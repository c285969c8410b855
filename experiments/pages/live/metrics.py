"""What is known of a sweep while it runs, as OpenMetrics on a port of this machine.

The names follow the conventions of Prometheus: base units, `_total` for counters. A figure that the
client does not report while the trial runs has no sample, and neither has a trial that has not
begun.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    StateSetMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from ackbench.experiments.messages.visible import visible
from ackbench.experiments.pages.live.events import FaultState
from ackbench.experiments.pages.live.slots import LATENCY_BOUNDS_S, SlotCounts
from ackbench.experiments.pages.live.sweep import LiveSweep
from ackbench.experiments.pages.live.trial import LiveTrial, TrialFigures
from ackbench.experiments.sweep.progress import STAGES
from ackbench.infra.machine.loopback import LOOPBACK, SERVED_HOSTS

PATH: Final = "/metrics"
SWEEP: Final = ("sweep", "experiment")
TRIAL: Final = ("sweep", "trial", "cell")
NO_LEADER: Final = -1
"""The node of a partition without a leader, as in Kafka's protocol."""
_REQUEST_TIMEOUT_S: Final = 10


class LiveCollector(Collector):
    """Yields the metrics of what was read last.

    Args:
        latest: returns the sweep as it was read last; `None`: no sweep runs.
    """

    def __init__(self, latest: Callable[[], LiveSweep | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        cpu = CounterMetricFamily(
            "ackbench_live_cpu_seconds", "CPU time of the process that reads these figures."
        )
        cpu.add_metric((), time.process_time())
        yield cpu
        live = self._latest()
        if live is None:
            return
        yield from _of_sweep(live)
        if live.trial is not None and not live.over:
            label = visible(live.trial.spec.label)
            labels = (live.sweep.sweep_id, live.trial.spec.trial_id, label)
            yield from _of_trial(live, live.trial, labels)
            if live.trial.figures is not None:
                yield from _of_records(live.trial.figures, labels)
            yield from _of_partitions(live.trial, labels)


def metric_names() -> tuple[str, ...]:
    """Return the names of all families that a collector can yield, without their suffixes."""
    return (
        "ackbench_live_cpu_seconds",
        "ackbench_live_read_timestamp_seconds",
        "ackbench_sweep_trials",
        "ackbench_sweep_stage",
        "ackbench_trial",
        "ackbench_trial_running",
        "ackbench_trial_load_seconds",
        "ackbench_fault_state",
        "ackbench_records",
        "ackbench_unsettled_records",
        "ackbench_ack_latency_seconds",
        "ackbench_partition_leader_node",
        "ackbench_partition_leader_changes",
        "ackbench_partition_isr_replicas",
        "ackbench_partition_replicas",
        "ackbench_controller_node",
        "ackbench_metadata_available",
    )


def _of_sweep(live: LiveSweep) -> Iterator[Metric]:
    labels, progress = (live.sweep.sweep_id, live.experiment), live.progress
    read = _gauge("live_read_timestamp", "When these figures were read.", SWEEP, "seconds")
    read.add_metric(labels, live.at_ns / 1e9)
    yield read
    trials = _gauge("sweep_trials", "Trials of the sweep by state.", (*SWEEP, "state"))
    for state, count in (
        ("planned", progress.total),
        ("ended", progress.done),
        ("failed", progress.failed),
    ):
        trials.add_metric((*labels, state), count)
    yield trials
    stage = StateSetMetricFamily("ackbench_sweep_stage", "What the sweep does.", labels=SWEEP)
    stage.add_metric(labels, {name: name == live.stage for name in STAGES})
    yield stage


def _of_trial(live: LiveSweep, trial: LiveTrial, labels: tuple[str, ...]) -> Iterator[Metric]:
    spec = trial.spec
    info = InfoMetricFamily("ackbench_trial", "The trial that is read.", labels=TRIAL)
    info.add_metric(
        labels,
        {
            "number": str(live.number),
            "fault": spec.fault.kind,
            "client": spec.client,
            "kafka_version": spec.cluster.kafka_version,
        },
    )
    yield info
    running = _gauge("trial_running", "1 while the trial runs.", TRIAL)
    running.add_metric(labels, int(trial.running))
    yield running
    if trial.load_s is not None:
        load = _gauge("trial_load", "How long ago the load began.", TRIAL, "seconds")
        load.add_metric(labels, trial.load_s)
        yield load
    fault = StateSetMetricFamily("ackbench_fault_state", "How far the fault is.", labels=TRIAL)
    fault.add_metric(labels, {state.value: state is trial.fault for state in FaultState})
    yield fault


def _of_records(figures: TrialFigures, labels: tuple[str, ...]) -> Iterator[Metric]:
    records = CounterMetricFamily(
        "ackbench_records", "Records of the trial's load by state.", labels=(*TRIAL, "state")
    )
    for state, count in (
        ("sent", _records(figures.sent)),
        ("acked", figures.acked.records),
        ("failed", figures.failed),
        ("refused", figures.refused),
        ("read", figures.read.records),
        ("processed", _records(figures.processed)),
    ):
        if count is not None:
            records.add_metric((*labels, state), count)
    yield records
    if figures.unsettled is not None:
        unsettled = _gauge("unsettled_records", "Sent, and neither acknowledged nor failed.", TRIAL)
        unsettled.add_metric(labels, figures.unsettled)
        yield unsettled
    if figures.latency is not None:
        latency = HistogramMetricFamily(
            "ackbench_ack_latency",
            "From the intended send time to the acknowledgement.",
            labels=TRIAL,
            unit="seconds",
        )
        bounds = [*map(str, LATENCY_BOUNDS_S), "+Inf"]
        buckets = list(zip(bounds, accumulate(figures.latency.buckets), strict=True))
        latency.add_metric(labels, buckets, figures.latency.sum_s)
        yield latency


def _records(counts: SlotCounts | None) -> int | None:
    return None if counts is None else counts.records


def _of_partitions(trial: LiveTrial, labels: tuple[str, ...]) -> Iterator[Metric]:
    by_partition = (*TRIAL, "partition")
    leader = _gauge("partition_leader_node", "The partition's leader, -1: none.", by_partition)
    changes = CounterMetricFamily(
        "ackbench_partition_leader_changes", "Changes of leader or epoch.", labels=by_partition
    )
    isr = _gauge("partition_isr_replicas", "Replicas in the ISR.", by_partition)
    replicas = _gauge("partition_replicas", "The replication factor.", by_partition)
    for history in trial.events.partitions:
        own = (*labels, str(history.partition))
        replicas.add_metric(own, trial.spec.replication_factor)
        if history.leaders:
            node = history.leaders[-1].node
            leader.add_metric(own, NO_LEADER if node is None else node)
            changes.add_metric(own, len(history.leaders) - 1)
        if history.isrs:
            isr.add_metric(own, len(history.isrs[-1].nodes))
    yield from (leader, changes, isr, replicas)
    controller = _gauge("controller_node", "The active controller.", TRIAL)
    if trial.events.controller is not None:
        controller.add_metric(labels, trial.events.controller)
    yield controller
    if trial.events.partitions:
        available = _gauge("metadata_available", "1: a broker answers for the topic.", TRIAL)
        available.add_metric(labels, int(trial.events.metadata_unavailable_ns is None))
        yield available


def _gauge(name: str, text: str, labels: tuple[str, ...], unit: str = "") -> GaugeMetricFamily:
    return GaugeMetricFamily(f"ackbench_{name}", text, labels=labels, unit=unit)


@contextmanager
def exporter(port: int, latest: Callable[[], LiveSweep | None]) -> Iterator[None]:
    """Serve the metrics on a port of 127.0.0.1 while the context lasts.

    Args:
        port: the port.
        latest: as in `LiveCollector`.

    Raises:
        OSError: the port is taken.
    """
    registry = CollectorRegistry()
    registry.register(LiveCollector(latest))
    server = _Server((LOOPBACK, port), _handler(registry))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that closes its connection early is no error of the server."""


def _handler(registry: CollectorRegistry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_TIMEOUT_S
        server_version, sys_version = "ackbench", ""

        def do_GET(self) -> None:
            """Answer with the metrics; other hosts' names and other paths are refused."""
            host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
            if host not in SERVED_HOSTS:
                self._answer(400, "text/plain; charset=utf-8", b"invalid host\n")
            elif self.path.partition("?")[0] != PATH:
                self._answer(404, "text/plain; charset=utf-8", f"only {PATH}\n".encode())
            else:
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._answer(200, content_type, encode(registry))

        def _answer(self, code: int, content_type: str, content: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: Any) -> None:
            """Log nothing: a scraper asks every few seconds."""

    return Handler
