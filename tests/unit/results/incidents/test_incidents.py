"""What logs of brokers say of an incident: a trial of each kind of fault, and lines of clients."""

from __future__ import annotations

import gzip
import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from support.command_line import ackbench
from support.incident_logs import StoredIncident, unpack

from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.planning.yaml_reader import parse_yaml
from ackbench.experiments.results.incidents.experiment_file import experiment_of
from ackbench.experiments.results.incidents.likeness import Likeness, likenesses
from ackbench.experiments.results.incidents.lines import LogFile, zone_of
from ackbench.experiments.results.incidents.logs import Window, is_log, read_logs
from ackbench.experiments.results.incidents.node_outages import How, Incident
from ackbench.experiments.results.incidents.sightings import Kind
from ackbench.experiments.results.incidents.timeline import moment_text, timeline
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "reproduce.md"
OPEN = Window()


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StoredIncident]:
    """Return the logs of each kind of fault."""
    return {one.fault: one for one in unpack(tmp_path_factory.mktemp("incidents"))}


def incident_of(one: StoredIncident) -> Incident:
    """Return what the logs of a trial say."""
    return Incident(read_logs(one.logs, one.window), one.window.begin_s, {one.topic})


def names(alike: Sequence[Likeness]) -> list[str]:
    """Return the faults, the most alike first; `none` if there is none."""
    return [one.fault for one in alike] or ["none"]


def test_the_document_says_which_fault_each_kind_of_fault_is_most_like(
    stored: dict[str, StoredIncident],
) -> None:
    """The confusion matrix: what is mistaken for what."""
    rows = []
    for fault, one in stored.items():
        best, *others = names(likenesses(incident_of(one)))
        sign = "✓" if best == fault else ""
        rows.append(f"| {fault} | {best} | {', '.join(others)} | {sign} |")
    assert "\n".join(rows) in DOCUMENT.read_text(), "\n".join(rows)


def test_the_experiment_of_each_kind_is_one_that_ackbench_plans(
    stored: dict[str, StoredIncident],
) -> None:
    """With the fault that is most like it, the version and the number of brokers."""
    for fault, one in stored.items():
        incident = incident_of(one)
        alike = likenesses(incident)
        written = experiment_of(incident, alike[0] if alike else None)
        document = parse_yaml(written.text, fault)
        assert written.problem == "", fault
        experiment = parse_experiment(document, fault)
        assert (experiment.kafka_version, experiment.nodes) == ("4.3.1", 3), fault
        assert plan(experiment, "s").expectations


def test_settings_that_brokers_print_are_those_of_the_experiment(
    stored: dict[str, StoredIncident],
) -> None:
    """Where they differ from Kafka's defaults; no path and no address of the other machine."""
    incident = incident_of(stored["leader-crash"])
    text = experiment_of(incident, likenesses(incident)[0]).text
    document = parse_yaml(text, "incident")
    assert document["broker"]["broker.session.timeout.ms"] == 3000
    assert document["faults"]["leader-crash"].keys() == {"at_s", "restart_after_s"}
    assert not any("dir" in name or "listener" in name for name in document["broker"])
    assert "log.retention.hours" not in document["broker"]


def test_an_outage_has_the_lines_that_show_it(stored: dict[str, StoredIncident]) -> None:
    """Each with its file and its number."""
    incident = incident_of(stored["leader-crash"])
    (outage,) = incident.outages
    assert outage.how is How.CRASH
    assert outage.evidence
    folder = stored["leader-crash"].folder
    for one in outage.evidence:
        name, _, number = one.source.rpartition(":")
        line = (folder.parent / name).read_text().splitlines()[int(number) - 1]
        assert line == one.text


def test_the_timeline_is_in_order_and_says_the_same_once(stored: dict[str, StoredIncident]) -> None:
    """Lines that say the same within seconds are counted."""
    entries = timeline(incident_of(stored["leader-crash"]))
    assert [one.at_s for one in entries] == sorted(one.at_s for one in entries)
    assert any(one.times > 1 for one in entries)
    assert len(entries) < 60


LINES_OF_CLIENTS = {
    "[2026-11-27 10:00:01,250] WARN [Producer clientId=p] Got error produce response with "
    "correlation id 5 on topic-partition orders-0, retrying (2147483646 attempts left). "
    "Error: NOT_LEADER_OR_FOLLOWER (org.apache.kafka.clients.producer.internals.Sender)": (
        Kind.RETRIED,
        "NOT_LEADER_OR_FOLLOWER",
    ),
    "2026-11-27 10:00:01.250  WARN 7 --- [ad | p] o.a.k.c.NetworkClient : [Producer clientId=p] "
    "Connection to node 2 (kafka-2/10.0.0.2:9092) could not be established.": (
        Kind.UNREACHABLE,
        "",
    ),
    "2026-11-27T12:00:01.250+02:00 INFO [kafka-producer] Disconnecting from node 3 due to request "
    "timeout.": (Kind.REQUEST_TIMED_OUT, ""),
    "%5|1795773601.250|REQTMOUT|rdkafka#producer-1| [thrd:kafka-1:9092/1]: kafka-1:9092/1: "
    "Timed out ProduceRequest in flight (after 1023ms, timeout #0)": (Kind.REQUEST_TIMED_OUT, ""),
    "%4|1795773601.250|MAXPOLL|rdkafka#consumer-1| [thrd:main]: Application maximum poll interval "
    "(300000ms) exceeded by 20ms": (Kind.SLOW_MEMBER, ""),
    '{"@timestamp":"2026-11-27T10:00:01.250Z","level":"ERROR","message":"Expiring 12 record(s) for '
    'orders-3:120001 ms has passed since batch creation"}': (Kind.DELIVERY_TIMED_OUT, ""),
    "2026-11-27 10:00:01,250 ERROR app: org.apache.kafka.common.errors.ProducerFencedException: "
    "There is a newer producer": (Kind.PRODUCER_FENCED, ""),
}


@pytest.mark.parametrize("line", LINES_OF_CLIENTS, ids=lambda line: line[:40])
def test_a_line_of_a_client_says_the_same_in_each_layout(line: str, tmp_path: Path) -> None:
    """Kafka's own, an application's, librdkafka's, and JSON; all at one moment."""
    log = tmp_path / "app.log"
    log.write_text(f"{line}\n")
    (read,) = read_logs([log], OPEN)
    (sighting,) = read.sightings
    assert (sighting.kind, sighting.detail) == LINES_OF_CLIENTS[line]
    assert sighting.at_s == pytest.approx(1795773601.25)
    assert read.node is None


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["WARN consumer poll timeout has expired."], "consumer-stall"),
        (["ERROR ProducerFencedException"], "producer-fenced"),
        (["INFO Disconnecting from node 1 due to request timeout."], "responses-dropped"),
        (
            ["WARN Got error produce response on topic-partition o-0. Error: NOT_ENOUGH_REPLICAS"],
            "followers-throttled",
        ),
        (["INFO all is well"], "none"),
    ],
)
def test_what_only_clients_saw_is_most_like_a_fault_of_clients(
    lines: list[str], fault: str, tmp_path: Path
) -> None:
    """No broker was away."""
    log = tmp_path / "app.log"
    log.write_text("".join(f"2026-11-27 10:00:0{n},000 {line}\n" for n, line in enumerate(lines)))
    assert names(likenesses(Incident(read_logs([log], OPEN))))[0] == fault


FENCED = "[QuorumController id=1000] Fencing broker 0 at epoch 9 because its session has timed out."
FENCED_BY_3_3 = "[Controller 1000] Fencing broker 0 because its session has timed out."
UNCLEAN = (
    "[Controller 1000] UNCLEAN partition change for orders-5 with topic ID x: "
    "replicas: [0] -> [1], isr: [0] -> [1], leader: 0 -> 1, leaderEpoch: 85 -> 86"
)


def written(path: Path, *lines: str) -> Incident:
    """Write a log of INFO lines, and read it."""
    path.write_text("".join(f"[2026-11-27 10:00:00,000] INFO {line} (kafka)\n" for line in lines))
    return Incident(read_logs([path], OPEN))


@pytest.mark.parametrize("line", [FENCED, FENCED_BY_3_3])
def test_one_fenced_broker_is_not_said_to_be_all_of_them(line: str, tmp_path: Path) -> None:
    """Nor that it ended: a controller's log alone says that it was missed, and no more."""
    incident = written(tmp_path / "controller.log", line)
    first, second = likenesses(incident)
    document = experiment_of(incident, first)

    assert (first.fault, second.fault) == ("leader-crash", "leader-pause")
    assert "ended" not in " ".join(first.reasons)
    assert parse_yaml(document.text, "incident.yaml")["nodes"] == 3
    assert "How many brokers does the cluster have?" in document.questions


def test_an_unclean_election_says_who_led_before(tmp_path: Path) -> None:
    """Kafka 3.3 logs so at the controller, when a broker is fenced."""
    incident = written(tmp_path / "controller.log", FENCED_BY_3_3, UNCLEAN)
    unclean, crash, *_ = likenesses(incident)

    assert (unclean.fault, crash.fault) == ("unclean-election", "leader-crash")
    assert crash.reasons[1:] == ("it led orders-5",)
    assert incident.brokers == {0, 1}


@pytest.mark.parametrize(
    "line",
    [
        "Number of insync replicas for partition orders-0 is [1], below required minimum [2]",
        "ISR Set(2) is insufficient to satisfy the min.isr requirement of 2 for partition orders-0",
    ],
)
def test_the_replicas_that_a_broker_required_are_those_of_the_experiment(
    line: str, tmp_path: Path
) -> None:
    """With Kafka's default of 1 it would accept every record."""
    incident = written(tmp_path / "server.log", f"[ReplicaManager broker=2] {line}")
    (likeness,) = likenesses(incident)
    document = parse_yaml(experiment_of(incident, likeness).text, "incident.yaml")

    assert likeness.fault == "followers-throttled"
    assert document["topic"] == {"min.insync.replicas": 2}


def test_a_moment_without_a_zone_is_read_by_the_zone_that_is_given(tmp_path: Path) -> None:
    """And it is known that it had none."""
    log = tmp_path / "app.log"
    log.write_text("2026-11-27 12:00:00,000 INFO x\n")
    file = LogFile(log)
    (line,) = file.read(zone_of("+02:00"))
    assert line.at_s == 1795773600
    assert file.without_zone


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (gzip.compress(b"2026-11-27 10:00:00,000 INFO x", mtime=0), "compressed: unpack it first"),
        (b"2026-11-27 10:00:00,000 INFO \0\n", "line 1: no text"),
    ],
    ids=["compressed", "binary"],  # each worker gives the tests the same names
)
def test_what_is_no_text_is_one_line(content: bytes, problem: str, tmp_path: Path) -> None:
    """A compressed or binary file."""
    log = tmp_path / "x.log"
    log.write_bytes(content)
    with pytest.raises(InputError, match=problem):
        list(LogFile(log).read())


def test_the_end_of_a_log_that_says_too_much_is_left_out_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a file which is too large."""
    monkeypatch.setattr("ackbench.experiments.results.incidents.logs.MOST_SIGHTINGS", 2)
    log, line = tmp_path / "x.log", "2026-11-27 10:00:00,000 ERROR ProducerFencedException\n"
    log.write_text(line * 5)
    (read,) = read_logs([log], OPEN)
    assert (len(read.sightings), read.file.left_out_bytes) == (2, 3 * len(line))


def test_a_line_of_a_gigabyte_takes_no_memory(tmp_path: Path) -> None:
    """Its beginning is read, the rest is left out."""
    log = tmp_path / "x.log"
    with log.open("wb") as opened:
        opened.write(b"2026-11-27 10:00:00,000 INFO ")
        for _ in range(64):
            opened.write(b"x" * 2**20)
        opened.write(b"\n2026-11-27 10:00:01,000 INFO y\n")
    lines = list(LogFile(log).read())
    assert [(line.number, len(line.text) < 5000) for line in lines] == [(1, True), (2, True)]


def test_damaged_logs_are_read_or_refused_in_one_line(
    stored: dict[str, StoredIncident], tmp_path: Path
) -> None:
    """Cut, repeated and exchanged bytes: never another error."""
    source = stored["leader-crash"].logs[0].read_bytes()
    rng = random.Random(37)  # noqa: S311 - a sample, no secret
    for number in range(60):
        data = bytearray(source[rng.randrange(len(source)) :][:20_000])
        for _ in range(rng.randrange(1, 40)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        log = tmp_path / f"{number}.log"
        log.write_bytes(bytes(data))
        with suppress(InputError):
            incident = Incident(read_logs([log], OPEN))
            timeline(incident)
            alike = likenesses(incident)
            experiment_of(incident, alike[0] if alike else None)


def test_the_command_prints_the_timeline_and_writes_the_experiment(
    stored: dict[str, StoredIncident], tmp_path: Path
) -> None:
    """With what cannot be known of the files; a file of settings answers some of it."""
    one, out = stored["leader-crash"], tmp_path / "incident.yaml"
    settings = tmp_path / "producer.properties"
    settings.write_text("bootstrap.servers=k:9092\nacks=1\nlinger.ms=20\ncompression.type=lz4\n")
    begin, end = (moment_text(at_s) for at_s in (one.window.begin_s, one.window.end_s) if at_s)
    options = ("--topic", one.topic, "--out", str(out), "--from", begin, "--to", end)
    result = ackbench("reproduce", str(one.folder), str(settings), *options)
    assert result.exit_code == 0
    assert "\nMost like: leader-crash: node " in result.stdout
    assert "Which acks" not in result.stdout
    assert "How much do the producers send?" in result.stdout
    document = parse_yaml(out.read_text(), "incident")
    assert (document["axes"]["acks"], document["producer"]) == (
        1,
        {"compression.type": "lz4", "linger.ms": 20},
    )
    assert document["expect"] == {"lost": 0}
    assert f"run it: ackbench run {out}" in result.stdout.replace("\n", " ")


def test_a_folder_without_a_log_of_kafka_is_one_line(tmp_path: Path) -> None:
    """And nothing is written."""
    (tmp_path / "x.log").write_text("2026-11-27 10:00:00,000 INFO all is well\n")
    out = tmp_path / "incident.yaml"
    result = ackbench("reproduce", str(tmp_path), "--out", str(out))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert not out.exists()
    assert is_log(tmp_path / "x.log")
