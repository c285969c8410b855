"""An external cluster, in plain text and with TLS: contacted, observed, and never changed."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from support.external_brokers import (
    PASSWORD,
    VARIABLE,
    ExternalBrokers,
    external_brokers,
    public_part,
    write_certificate,
)

from ackbench.experiments.commands.clean import clean
from ackbench.experiments.ledger.documents import without_version
from ackbench.experiments.orchestration import external_use
from ackbench.experiments.orchestration.external_use import ExternalUse
from ackbench.experiments.sweep.plan import ExternalAccess, external_prefix
from ackbench.experiments.trial.clients.librdkafka import leftovers
from ackbench.experiments.trial.clients.librdkafka.client import Client
from ackbench.experiments.trial.clients.librdkafka.library import PRODUCER
from ackbench.experiments.trial.clients.librdkafka.topics import (
    BROKER_DEFAULT,
    admin_client,
    create_topic,
    delete_topic,
    ensure_topic,
)
from ackbench.experiments.trial.clients.settings.librdkafka import producer_settings
from ackbench.experiments.trial.clients.settings.security import (
    connection_settings,
    register_security,
)
from ackbench.infra.cluster.external import (
    ExternalCluster,
    ExternalMetadataPoller,
    describe_topic,
    probe_cluster,
)
from ackbench.infra.cluster.external import admin_client as external_admin_client
from ackbench.infra.cluster.local import provision
from ackbench.infra.errors import InputError, SupervisorError
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.home import Home
from ackbench.infra.network.reservations import reserve_ports
from ackbench.infra.process.waiting import wait_until

SPEC = ClusterSpec(nodes=1)
SWEEP_ID = "external-20260101T000000-abcd"
PREFIX = external_prefix(SWEEP_ID)
TOPIC = f"{PREFIX}000-abcdef"
LEFT = f"{PREFIX}001-abcdef"
"""The topic that a sweep has left."""
OTHERS = "trial-of-others"


@pytest.fixture(scope="module")
def external(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBrokers]:
    """One broker that ackbench does not control."""
    with external_brokers(cache, tmp_path_factory.mktemp("external")) as running:
        yield running


@pytest.fixture
def security(external: ExternalBrokers, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The client's authentication; the pass phrase is only in the environment."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    return external.certificate_security()


@pytest.mark.further
def test_a_cluster_that_requires_certificates_is_contacted_and_observed(
    external: ExternalBrokers, security: dict[str, str], tmp_path: Path
) -> None:
    """Brokers, settings, a topic's leader and end offset are read; the pass phrase stays secret."""
    assert probe_cluster({"bootstrap.servers": external.plain}).brokers == (1,)
    register_security(external.secure, security)
    connection = connection_settings(external.secure)
    info = probe_cluster(connection)
    assert info.brokers == (1,)
    assert info.settings is not None
    assert info.settings["ssl.keystore.type"] == "PEM"
    assert not any(PASSWORD in value for value in info.settings.values())
    create_topic(external.secure, TOPIC, partitions=1, replication_factor=1)
    cluster = ExternalCluster(tmp_path, SPEC, connection, info, PREFIX)
    assert cluster.wait_until_healthy().of(TOPIC)[0].leader == 1
    snapshot = cluster.metadata_poller(TOPIC).partitions()
    assert snapshot is not None
    assert (snapshot.partitions, cluster.log_end_offsets(TOPIC)) == (
        cluster.describe([TOPIC]).of(TOPIC),
        {0: 0},
    )
    assert (cluster.leader_epochs(TOPIC), cluster.node_log_sizes()) == ((), {})
    with Client(
        PRODUCER, {**producer_settings(security), "bootstrap.servers": external.secure}
    ) as client:
        assert client.leaders(TOPIC, 10) == (1,)
        assert client.effective_settings()["ssl.key.password"] == f"${VARIABLE}"
    with pytest.raises(SupervisorError, match="external cluster: ackbench does not control node 1"):
        cluster.kill(1)


@pytest.fixture
def used(
    external: ExternalBrokers, security: dict[str, str], tmp_path: Path
) -> Iterator[tuple[Home, ExternalUse]]:
    """A home whose sweep has used the broker and left a topic there, beside one of others."""
    register_security(external.secure, security)
    home = Home(tmp_path / "home")
    access = ExternalAccess(addresses=external.secure, security=security)
    external_use.note_use(home, SWEEP_ID, access)
    for name in (LEFT, OTHERS):
        create_topic(external.secure, name, partitions=1, replication_factor=1)
    (note,) = home.external.glob("*/use.json")
    yield home, ExternalUse.model_validate_json(without_version(note.read_bytes()))
    external_use.end_noted_use(home, SWEEP_ID)  # it may name a cluster that does not answer
    for name in (LEFT, OTHERS):
        delete_topic(external.secure, name)


def _topics(servers: str) -> set[str]:
    return set(admin_client(servers).list_topics(timeout=10).topics)


def test_polling_a_topic_that_is_deleted_does_not_make_it_again(external: ExternalBrokers) -> None:
    """The brokers have Kafka's default, `auto.create.topics.enable=true`."""
    topic = f"{PREFIX}polled"
    create_topic(external.plain, topic, partitions=1, replication_factor=1)
    client, _ = external_admin_client({"bootstrap.servers": external.plain})
    poller = ExternalMetadataPoller(client, topic)
    assert poller.partitions() is not None
    delete_topic(external.plain, topic)
    assert [poller.partitions() for _ in range(20)][-1] is None
    assert topic not in _topics(external.plain)


def test_describing_a_topic_that_does_not_exist_does_not_create_it(
    external: ExternalBrokers,
) -> None:
    """The brokers have Kafka's default, `auto.create.topics.enable=true`."""
    with pytest.raises(InputError, match="has no topic absent"):
        describe_topic({"bootstrap.servers": external.plain}, "absent")
    assert "absent" not in _topics(external.plain)


def test_cleaning_deletes_what_a_killed_sweep_left_and_nothing_else(
    used: tuple[Home, ExternalUse], capsys: pytest.CaptureFixture[str]
) -> None:
    """Once; the second time nothing is left to do."""
    home, use = used
    assert clean(home, [], force=False) == 0
    assert f"deleted from external cluster {use.servers}: {PREFIX}" in capsys.readouterr().out
    assert {name for name in _topics(use.servers) if not name.startswith("__")} == {OTHERS}
    assert external_use.noted_uses(home) == []
    assert clean(home, [], force=False) == 0
    assert capsys.readouterr().out == "nothing to clean\n"


@pytest.mark.further
def test_the_groups_of_a_sweep_are_deleted_with_its_topics(used: tuple[Home, ExternalUse]) -> None:
    """A group keeps its offsets for a week otherwise."""
    home, use = used
    group = f"{LEFT}-group-1"
    settings = {**connection_settings(use.servers), "group.id": group}
    consumer = Consumer(settings)
    offsets = [TopicPartition(LEFT, 0, 0)]

    def commit() -> bool:
        # The group's coordinator is found once Kafka has created the topic of the offsets.
        with suppress(KafkaException):
            return bool(consumer.commit(offsets=offsets, asynchronous=False))
        return False

    wait_until(commit, awaiting="the coordinator of the group", timeout_s=60)
    consumer.close()

    assert group in external_use.end_use(home, SWEEP_ID)


def test_a_cluster_that_does_not_answer_keeps_the_note_of_its_use(
    used: tuple[Home, ExternalUse],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What may be left is named, and cleaning again can delete it."""
    monkeypatch.setattr(leftovers, "_TIMEOUT_S", 1.0)
    home, use = used
    unused = reserve_ports(1)
    address = f"127.0.0.1:{unused.ports[0]}"
    (note,) = home.external.glob("*/use.json")
    note.write_text(use.model_copy(update={"servers": address}).model_dump_json())

    assert clean(home, [], force=False) == 0

    unused.release()
    assert f"{SWEEP_ID} may be left in external cluster {address}" in capsys.readouterr().out
    assert note.is_file()


def test_a_warm_up_topic_has_the_replication_factor_of_the_cluster(
    external: ExternalBrokers, security: dict[str, str]
) -> None:
    """A managed cluster may refuse any other."""
    register_security(external.secure, security)
    name = f"{PREFIX}warm-up"
    ensure_topic(external.secure, name, partitions=2, replication_factor=BROKER_DEFAULT)
    ensure_topic(external.secure, name, partitions=2, replication_factor=BROKER_DEFAULT)
    assert name in _topics(external.secure)
    delete_topic(external.secure, name)


@pytest.mark.further
def test_a_broker_reads_its_secrets_from_its_environment_and_no_file_holds_them(
    external: ExternalBrokers, security: dict[str, str]
) -> None:
    """Its TLS listener has the encrypted key; its log hides the pass phrase."""
    register_security(external.secure, security)
    assert probe_cluster(connection_settings(external.secure)).brokers == (1,)
    folder = external.certificate.parent
    assert _files_holding(folder, f"${{env:{VARIABLE}}}") == ["server.properties"]
    assert _files_holding(folder, PASSWORD) == []


@pytest.mark.further("3.9.2")
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_a_provisioned_cluster_leaves_no_secret_behind(
    clusters: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Nor has it one while it runs: in its handle, its properties and its logs."""
    broker = {
        "ssl.keystore.password": f"${VARIABLE}",
        "delegation.token.secret.key": f"${VARIABLE}",
    }
    spec = ClusterSpec(nodes=1, kafka_version=version, broker=broker)
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(InputError, match=f"{VARIABLE} is not set; it must hold ssl.keystore"):
        provision(clusters, cache, "secret", spec)
    monkeypatch.setenv(VARIABLE, PASSWORD)
    cluster = provision(clusters, cache, "secret", spec)
    try:
        assert _files_holding(clusters, PASSWORD) == []
        assert _files_holding(clusters, "ssl.keystore.password = [hidden]") != []
    finally:
        cluster.destroy()
    assert _files_holding(clusters, PASSWORD) == []
    assert _files_holding(clusters, f"${{env:{VARIABLE}}}") == ["server.properties"]


def _files_holding(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if text.encode() in _content_of(path)]


def _content_of(path: Path) -> bytes:
    """Return the content of a file; nothing of what is none, or of one that a broker deletes."""
    with suppress(FileNotFoundError):
        return path.read_bytes() if path.is_file() else b""
    return b""


def test_an_untrusted_certificate_is_an_error_of_one_line(
    external: ExternalBrokers, security: dict[str, str], tmp_path: Path
) -> None:
    """It has librdkafka's own reason."""
    register_security(
        external.secure,
        {**security, "ssl.ca.location": str(public_part(write_certificate(tmp_path, "stranger")))},
    )
    with pytest.raises(
        InputError, match=r"cannot reach bootstrap.servers .*: .*certificate verify failed"
    ) as refused:
        probe_cluster(connection_settings(external.secure))
    assert "\n" not in str(refused.value)


def test_an_unreachable_cluster_is_an_error_of_one_line() -> None:
    """No process listens at the address."""
    unused = reserve_ports(1)
    with pytest.raises(
        InputError, match=r"cannot reach bootstrap.servers .*: .*Connection refused"
    ):
        probe_cluster({"bootstrap.servers": f"127.0.0.1:{unused.ports[0]}"})
    unused.release()


@contextmanager
def listener(answer: bytes, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Yield the address of a server that is no broker: it sends this and closes the connection."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connected, _ = server.accept()
            except OSError:  # the server is closed
                return
            with suppress(OSError), connected:
                stream = tls.wrap_socket(connected, server_side=True) if tls else connected
                stream.recv(4096)
                stream.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"localhost:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def refusal_of(connection: dict[str, str]) -> str:
    """Return why a cluster cannot be contacted; it is one line."""
    with pytest.raises(InputError, match=r"cannot reach bootstrap\.servers") as refused:
        probe_cluster(connection)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_an_address_that_answers_as_something_else_is_an_error_of_one_line() -> None:
    """A web server is a frequent one."""
    with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        reason = refusal_of({"bootstrap.servers": address})
    assert "HTTP" in reason or "nvalid response size" in reason, reason


@pytest.mark.further
def test_an_address_that_never_answers_is_an_error_that_names_the_protocol() -> None:
    """A listener with TLS waits as well, for the rest of what it takes for a TLS record."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reason = refusal_of({"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"})
    assert "no answer to requests of Kafka's protocol over plaintext within 10 s" in reason


def test_an_address_without_tls_is_an_error_that_says_so() -> None:
    """OpenSSL says "wrong version number"."""
    with listener(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        reason = refusal_of({"bootstrap.servers": address, "security.protocol": "ssl"})
    assert "what listens there answers without TLS; allowed: a listener with TLS" in reason


def test_an_expired_certificate_is_an_error_of_one_line(tmp_path: Path) -> None:
    """Its authority is trusted."""
    expired = write_certificate(tmp_path, "expired", valid_days=-1)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(expired, password=PASSWORD)
    with listener(b"", tls) as address:
        reason = refusal_of(
            {
                "bootstrap.servers": address,
                "security.protocol": "ssl",
                "ssl.ca.location": str(public_part(expired)),
            }
        )
    assert reason.endswith(": certificate has expired")
