"""The metrics are valid OpenMetrics, by parsers of others, and Prometheus scrapes them."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from support.builders.live_trials import (
    BEGIN_NS,
    MS,
    PlantedAttempts,
    a_running_sweep,
    note,
    receive,
)
from support.builders.records import a_spec
from support.needed_programs import skip_without

from ackbench.experiments.pages.live.metrics import exporter, metric_names
from ackbench.experiments.pages.live.sweep import LiveSweep, SweepFollower
from ackbench.experiments.sweep.plan import FaultRequest
from ackbench.experiments.trial.clients.producer.attempts import SENT
from ackbench.infra.process.waiting import wait_until

SPEC = a_spec(
    trial_id="000-abcdef", label='acks=1 "quoted" \\ cell', fault=FaultRequest(kind="leader-crash")
)
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def live(tmp_path: Path) -> LiveSweep:
    """Return a sweep in a trial of 3 records sent, 2 acknowledged, 1 read, without a leader."""
    sweep = a_running_sweep(tmp_path, (SPEC,))
    clients = sweep.partial(SPEC.trial_id) / "clients"
    attempts = PlantedAttempts(clients, 10)
    attempts.send(0, [10, 20, 30], SENT)
    attempts.settle([0, 1], latency_ms=40)
    receive(clients / "consumer-0.reads", [60])
    note(
        sweep,
        SPEC,
        {"kind": "load_begin", "at_ns": BEGIN_NS},
        {"kind": "leader", "at_ns": BEGIN_NS, "node": 2, "partition": 0},
        {"kind": "isr", "at_ns": BEGIN_NS, "partition": 0, "detail": "1,2,3"},
        {"kind": "controller", "at_ns": BEGIN_NS, "node": 3},
        {"kind": "fault_begin", "at_ns": BEGIN_NS + 100 * MS},
        {"kind": "leader", "at_ns": BEGIN_NS + 110 * MS, "node": None, "partition": 0},
        {"kind": "isr", "at_ns": BEGIN_NS + 110 * MS, "partition": 0, "detail": "1,3"},
    )
    follower = SweepFollower(sweep)
    read = follower.read()
    follower.close()
    return read


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def served(live: LiveSweep | None) -> Iterator[str]:
    """Serve a sweep's metrics; yield their address."""
    port = free_port()
    with exporter(port, lambda: live):
        yield f"http://127.0.0.1:{port}/metrics"


def fetch(address: str, **headers: str) -> tuple[str, str]:
    """Return the content type and the text of an answer."""
    with urlopen(Request(address, headers=headers), timeout=20) as answer:  # noqa: S310 - loopback
        return answer.headers["Content-Type"], answer.read().decode()


def families(text: str) -> list[Metric]:
    """Return the families, as the parser of prometheus_client reads them."""
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]


def samples(live: LiveSweep | None) -> list[Sample]:
    """Return the samples, as the parser of prometheus_client reads them."""
    with served(live) as address:
        content_type, text = fetch(address, Accept=OPEN_METRICS)
    assert content_type.startswith(OPEN_METRICS)
    return [sample for family in families(text) for sample in family.samples]


def value(found: list[Sample], name: str, **labels: str) -> float:
    """Return the value of the only sample with a name and some labels."""
    (one,) = [
        sample
        for sample in found
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return float(one.value)


def test_the_figures_are_those_of_the_trial(live: LiveSweep) -> None:
    """Records by state, and the latency as a histogram in seconds."""
    found = samples(live)
    states = {
        state: value(found, "ackbench_records_total", state=state)
        for state in ("sent", "acked", "failed", "refused", "read")
    }
    assert states == {"sent": 3, "acked": 2, "failed": 0, "refused": 0, "read": 1}
    assert value(found, "ackbench_unsettled_records") == 1
    assert value(found, "ackbench_ack_latency_seconds_bucket", le="0.05") == 2
    assert value(found, "ackbench_ack_latency_seconds_bucket", le="0.02") == 0
    assert value(found, "ackbench_ack_latency_seconds_count") == 2
    assert value(found, "ackbench_ack_latency_seconds_sum") == pytest.approx(0.082)


def test_stage_fault_leader_and_isr_are_gauges(live: LiveSweep) -> None:
    """A partition without a leader has -1, as in Kafka's protocol."""
    found = samples(live)
    assert value(found, "ackbench_sweep_stage", ackbench_sweep_stage="trial") == 1
    assert value(found, "ackbench_fault_state", ackbench_fault_state="begun") == 1
    assert value(found, "ackbench_partition_leader_node", partition="0") == -1
    assert value(found, "ackbench_partition_leader_changes_total", partition="0") == 1
    assert value(found, "ackbench_partition_isr_replicas", partition="0") == 2
    assert value(found, "ackbench_controller_node") == 3


def test_each_sample_of_a_trial_names_sweep_trial_and_cell(live: LiveSweep) -> None:
    """Also a label with quotes and a backslash."""
    own = [one for one in samples(live) if "trial" in one.labels]
    assert {one.labels["sweep"] for one in own} == {"quick-20260101T000000-abcd"}
    assert {(one.labels["trial"], one.labels["cell"]) for one in own} == {
        (SPEC.trial_id, SPEC.label)
    }


def test_without_a_sweep_there_is_the_reader_s_own_cost() -> None:
    """And nothing that was not read."""
    assert {one.name for one in samples(None)} == {"ackbench_live_cpu_seconds_total"}


def test_every_metric_is_one_of_the_names(live: LiveSweep) -> None:
    """The dashboard is checked against these names."""
    with served(live) as address:
        _, text = fetch(address, Accept=OPEN_METRICS)
    assert {family.name for family in families(text)} == {*metric_names()}


@pytest.mark.parametrize("host", ["evil.example", "10.0.0.1:80", ""])
def test_other_hosts_are_refused(live: LiveSweep, host: str) -> None:
    """A foreign page could reach the port under a name of its own (DNS rebinding)."""
    with served(live) as address, pytest.raises(HTTPError, match="400"):
        fetch(address, Host=host)


def test_there_is_one_path(live: LiveSweep) -> None:
    """And no listing of files."""
    with served(live) as address, pytest.raises(HTTPError, match="404"):
        fetch(address.replace("/metrics", "/"))


def test_the_port_is_this_machine_s_only(live: LiveSweep) -> None:
    """No other address answers."""
    with served(live) as address:
        port = int(address.rsplit(":", 1)[1].split("/")[0])
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.2", port))  # free: the server does not listen on all addresses


def test_promtool_finds_no_fault_with_the_names(live: LiveSweep) -> None:
    """Its linter knows the conventions: base units, `_total`, a help text."""
    skip_without("promtool")
    with served(live) as address:
        _, text = fetch(address, Accept="text/plain; version=0.0.4")
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_prometheus_scrapes_it(live: LiveSweep, tmp_path: Path) -> None:
    """Debian's Prometheus, with a configuration of a few lines; its API then has the samples."""
    skip_without("prometheus")
    port = free_port()
    with served(live) as address, prometheus(tmp_path, address, port):
        query = f"http://127.0.0.1:{port}/api/v1/query?query=ackbench_records_total"

        def scraped() -> list[dict[str, object]]:
            try:
                result: list[dict[str, object]] = json.loads(fetch(query)[1])["data"]["result"]
            except OSError:
                return []
            return result

        found = wait_until(scraped, awaiting="a scrape by Prometheus", timeout_s=90)
    by_state = {one["metric"]["state"]: one["value"][1] for one in found}  # type: ignore[index]
    assert by_state == {"sent": "3", "acked": "2", "failed": "0", "refused": "0", "read": "1"}


@contextmanager
def prometheus(folder: Path, address: str, port: int) -> Iterator[None]:
    """Run Prometheus on a port of this machine; it scrapes an address once a second."""
    target = address.removeprefix("http://").removesuffix("/metrics")
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"  - {{job_name: ackbench, static_configs: [{{targets: ['{target}']}}]}}\n"
    )
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()
