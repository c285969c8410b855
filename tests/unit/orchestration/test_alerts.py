"""Alerts: which conditions hold, what a webhook receives, and what happens when it is down."""

from __future__ import annotations

import json
import random
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.builders.nights import a_night, as_ever, keep_as_current, shifted

from ackbench.experiments.orchestration.alerts import alert, alert_of, alert_of_plan
from ackbench.experiments.planning.catalog import CATALOG
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

NIGHTS = 12


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return an empty home, which commands use."""
    home = Home(tmp_path / "home")
    monkeypatch.setenv("ACKBENCH_HOME", str(home.root))
    for name in ("ACKBENCH_WEBHOOK", "ACKBENCH_NOTIFIERS", "ACKBENCH_SITE_URL"):
        monkeypatch.delenv(name, raising=False)
    return home


def plant(
    home: Home,
    conditions: Sequence[str],
    *,
    newest: dict[str, Any] | None = None,
    slow: float = 1.0,
) -> SweepFolder:
    """Write the summaries of some nights, and return the newest.

    Args:
        home: the home.
        conditions: the experiment's `alert_on`.
        newest: fields of the newest night's summary.
        slow: the factor of a cell's latency in the newest night.
    """
    rng = random.Random(1)  # noqa: S311 - not used for secrets
    level = as_ever if slow == 1.0 else shifted(NIGHTS - 1, slow)
    for number in range(NIGHTS):
        summary = a_night(number, rng, level=level)
        sweep = SweepFolder(home.sweeps / summary.sweep_id)
        sweep.root.mkdir(parents=True)
        (sweep.root / "plan.json").write_text("{}")
        sweep.experiment_yaml.write_text(json.dumps({"alert_on": list(conditions)}))
        if number == NIGHTS - 1:
            summary = summary.model_copy(update=newest or {})
        keep_as_current(home, summary)
    return sweep


class Receiver:
    """A webhook on loopback that keeps what it receives."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        receiver = self

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.bodies.append(json.loads(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook/secret-token"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Serve a webhook."""
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


@pytest.mark.parametrize(
    ("condition", "newest", "reason"),
    [
        ("violated", {"violated": 2}, "violated: 2 guarantees of Kafka"),
        ("failed", {"pending_trials": 3}, "failed: 3 of 20 trials are missing"),
        ("failed", {"pending_trials": 1, "planned_trials": 1}, "failed: 1 of 1 trials are missing"),
        ("failed", {"measured": False}, "failed: the sweep was not measured"),
        ("failed", {"problem": "trial.json is missing"}, "failed: trial.json is missing"),
        (
            "void>20%",
            {"sealed_trials": 15, "void_trials": 5},
            "void: 5 of 20 trials had no full effect or were disturbed (limit 20 %)",
        ),
    ],
)
def test_a_condition_that_holds_is_reported(
    home: Home, condition: str, newest: dict[str, Any], reason: str
) -> None:
    """And no other."""
    found = alert_of(plant(home, [condition], newest=newest), home)
    assert found is not None
    assert found.reasons == (reason,)


@pytest.mark.parametrize("condition", ["violated", "failed", "worse-than-trend", "void>20%"])
def test_a_night_like_all_others_is_not_reported(home: Home, condition: str) -> None:
    """Whatever the condition."""
    assert alert_of(plant(home, [condition]), home) is None


def test_a_sweep_without_conditions_is_never_reported(home: Home) -> None:
    """Alerts are asked for."""
    assert alert_of(plant(home, [], newest={"violated": 2}), home) is None


def test_a_night_that_is_slower_than_the_trend_is_reported(home: Home) -> None:
    """With the figure, the cell and what was expected."""
    found = alert_of(plant(home, ["worse-than-trend"], slow=2.0), home)
    assert found is not None
    assert found.reasons[0].startswith("worse than the trend: ack p50 ")
    assert found.reasons[0].endswith(f"from {NIGHTS - 1} sweeps)")


def test_the_webhook_receives_one_alert_with_a_link(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is to the page of the site, where that is named."""
    sweep = plant(home, ["violated"], newest={"violated": 1})
    monkeypatch.setenv("ACKBENCH_WEBHOOK", receiver.address)
    monkeypatch.setenv("ACKBENCH_SITE_URL", "https://kafka.example/ackbench/")
    alert(sweep.sweep_id, {})
    (body,) = receiver.bodies
    assert body["sweep_id"] == sweep.sweep_id
    assert body["reasons"] == ["violated: 1 guarantee of Kafka"]
    assert body["link"] == f"https://kafka.example/ackbench/sweeps/{sweep.sweep_id}.html"
    assert body["link"] in body["text"]
    assert not sweep.unnotified.exists()


def test_without_a_site_the_link_is_to_the_report(home: Home) -> None:
    """On this machine."""
    sweep = plant(home, ["violated"], newest={"violated": 1})
    sweep.report.write_text("<html>")
    found = alert_of(sweep, home)
    assert found is not None
    assert found.link == sweep.report.as_uri()


@pytest.mark.usefixtures("home")
def test_a_sweep_of_several_hosts_is_reported_from_its_store(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The host of the last task has only a part of it; the link is to the page in the store."""
    stored = tmp_path / "store" / "nightly-20260101T020000-0000"
    stored.mkdir(parents=True)
    (stored / "plan.json").write_text("{}")
    (stored / "experiment.yaml").write_text("alert_on: [failed]")
    monkeypatch.setenv("ACKBENCH_WEBHOOK", receiver.address)
    monkeypatch.setenv("ACKBENCH_STORE", str(stored.parent))
    alert(stored.as_uri(), {})
    (body,) = receiver.bodies
    assert body["sweep_id"] == stored.name
    assert body["link"] == f"{stored.as_uri()}/report.html"


@pytest.mark.usefixtures("home")
def test_a_store_that_cannot_be_read_is_said_and_fails_nothing(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a webhook that is down."""
    monkeypatch.setenv("ACKBENCH_STORE", str(tmp_path))
    alert((tmp_path / "nightly-20260101T020000-0000").as_uri(), {})
    assert "not notified: " in caplog.text


def test_a_webhook_that_is_down_fails_nothing_and_is_said(
    home: Home,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In the task's log and in the sweep's folder, without the address, until one is delivered."""
    sweep = plant(home, ["violated"], newest={"violated": 1})
    monkeypatch.setenv("ACKBENCH_WEBHOOK", "http://127.0.0.1:9/hook/secret-token")
    alert(sweep.sweep_id, {})
    said = sweep.unnotified.read_text()
    assert "the webhook at 127.0.0.1 (ACKBENCH_WEBHOOK): " in said
    assert said.count("\n") == 1
    assert "not notified: the webhook" in caplog.text
    assert "secret-token" not in said + caplog.text
    monkeypatch.setenv("ACKBENCH_WEBHOOK", receiver.address)
    alert(sweep.sweep_id, {})
    assert not sweep.unnotified.exists()


@pytest.mark.parametrize("address", ["file:///etc/passwd", "ftp://127.0.0.1/x", "nonsense"])
def test_only_http_is_a_webhook(home: Home, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Urllib would open files, too."""
    sweep = plant(home, ["violated"], newest={"violated": 1})
    monkeypatch.setenv("ACKBENCH_WEBHOOK", address)
    alert(sweep.sweep_id, {})
    assert sweep.unnotified.read_text() == "ACKBENCH_WEBHOOK is no http or https address\n"


def test_notifiers_of_airflow_are_called_with_the_alert(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the context of the task, where their templates find it."""
    called: list[dict[str, Any]] = []
    module = types.ModuleType("planted_notifiers")
    module.chat = called.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "planted_notifiers", module)
    sweep = plant(home, ["violated"], newest={"violated": 1})
    monkeypatch.setenv("ACKBENCH_NOTIFIERS", "planted_notifiers:chat")
    alert(sweep.sweep_id, {"run_id": "manual"})
    (context,) = called
    assert context["run_id"] == "manual"
    assert context["alert"]["sweep_id"] == sweep.sweep_id


def test_a_notifier_that_fails_is_said_and_fails_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that does not exist."""
    sweep = plant(home, ["violated"], newest={"violated": 1})
    monkeypatch.setenv("ACKBENCH_NOTIFIERS", "no_such_module:chat")
    alert(sweep.sweep_id, {})
    assert "the notifier no_such_module:chat" in sweep.unnotified.read_text()


def test_a_plan_that_fails_is_reported_if_its_experiment_reports_failures(
    home: Home, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would notice that a schedule runs nothing; the alert says why."""
    monkeypatch.setenv("ACKBENCH_WEBHOOK", receiver.address)
    monkeypatch.setenv("ACKBENCH_EXPERIMENTS", str(tmp_path))
    text = (CATALOG / "quick.yaml").read_text()
    (tmp_path / "loud.yaml").write_text(f"{text}\nalert_on: [failed]\n")
    (tmp_path / "quiet.yaml").write_text(f"{text}\nalert_on: [violated]\n")
    alert_of_plan({"experiment": "quiet.yaml"}, "no disk", {})
    alert_of_plan({"experiment": "loud.yaml"}, "no disk <b>", {})

    (body,) = receiver.bodies
    assert (body["experiment"], body["sweep_id"]) == ("loud.yaml", None)
    assert body["reasons"] == ["failed: no sweep was planned: no disk <b>"]
    assert "&lt;b&gt;" in body["text"]
    assert not home.sweeps.exists()


@pytest.mark.parametrize(("run_type", "alerts"), [("scheduled", 1), ("manual", 0)])
def test_an_experiment_that_cannot_be_read_is_reported_if_a_schedule_runs_it(
    home: Home, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, run_type: str, alerts: int
) -> None:
    """A user who mistypes its name sees the failed task."""
    del home
    monkeypatch.setenv("ACKBENCH_WEBHOOK", receiver.address)
    context = {"dag_run": types.SimpleNamespace(run_type=run_type)}
    alert_of_plan({"experiment": "quikc"}, None, context)

    assert len(receiver.bodies) == alerts


def test_an_alert_notifies_nobody_but_those_who_read_it(home: Home) -> None:
    """`<!channel>` is a command of Slack's, and a control character acts on a terminal."""
    sweep = plant(home, ["failed"], newest={"problem": "<!channel> \x1b[31m"})
    found = alert_of(sweep, home)
    assert found is not None
    assert found.reasons[0] == "failed: <!channel> �[31m"
    assert "failed: &lt;!channel&gt; �[31m" in found.text
