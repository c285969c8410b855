"""An external cluster, in plain text and with TLS: contacted, observed, and never changed."""

import datetime as dt
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from experiments.clients.librdkafka.client import Client
from experiments.clients.librdkafka.library import PRODUCER
from experiments.clients.librdkafka.topics import create_topic
from experiments.clients.settings.librdkafka import producer_settings
from experiments.clients.settings.security import connection_settings, register_security
from infra.cluster.external import ExternalCluster, probe_cluster
from infra.cluster.local import provision
from infra.errors import InputError, SupervisorError
from infra.kafka.commands import launch_spec
from infra.kafka.kraft import NodeAddress, node_properties, properties_text
from infra.kafka.secrets import provide_references
from infra.kafka.spec import ClusterSpec
from infra.kafka.storage import copy_formatted, random_uuid
from infra.network.reservations import reserve_ports
from infra.process.log_tail import failure_excerpt
from infra.process.processes import spawn_dying_with_parent
from infra.process.waiting import wait_until

SPEC = ClusterSpec(nodes=1)
PASSWORD = "a pass phrase"  # noqa: S105 - of a key that lives as long as this test
VARIABLE = "ACKBENCH_TEST_PASSWORD"
TOPIC = "trial-of-mine"


@dataclass(frozen=True)
class ExternalBroker:
    """A broker with two listeners; the second one requires a client certificate."""

    plain: str
    secure: str
    certificate: Path
    """One self-signed certificate, the authority and the only client; its key is encrypted."""


def _certificate(folder: Path, name: str) -> Path:
    """Write a self-signed certificate for 127.0.0.1 and its encrypted key into one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
    )
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(
        now + dt.timedelta(days=1)
    )
    builder = builder.add_extension(
        x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    encryption = serialization.BestAvailableEncryption(PASSWORD.encode())
    parts = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        parts + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture(scope="module")
def external(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExternalBroker]:
    """A broker that is started without a supervisor, like an external one."""
    folder = tmp_path_factory.mktemp("external")
    launch, ports, certificate = (
        launch_spec(cache, SPEC),
        reserve_ports(4),
        _certificate(folder, "broker"),
    )
    client, replication, controller, secure_port = ports.ports
    node = NodeAddress(1, client, replication, controller)
    (folder / "data").mkdir()
    copy_formatted(Path(launch.formatted), folder / "data", 1, random_uuid())
    secure = f"localhost:{secure_port}"
    own = node_properties(node, [node])
    settings = {
        **own,
        "listeners": f"{own['listeners']},SECURE://{secure}",
        "advertised.listeners": f"{own['advertised.listeners']},SECURE://{secure}",
        "listener.security.protocol.map": f"{own['listener.security.protocol.map']},SECURE:SSL",
        "offsets.topic.replication.factor": "1",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        "ssl.key.password": f"${VARIABLE}",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(_public(certificate)),
    }
    environment = {**os.environ, VARIABLE: PASSWORD}
    with pytest.MonkeyPatch.context() as patch, (folder / "log").open("wb") as log:
        patch.setenv(VARIABLE, PASSWORD)
        (folder / "server.properties").write_text(properties_text(provide_references(settings)))
        broker = spawn_dying_with_parent(
            launch.command, cwd=folder, stdout=log, stderr=log, env=environment
        )
    try:
        wait_until(
            lambda: _listens(secure_port),
            awaiting="the external broker to listen",
            timeout_s=90,
            seen=lambda: failure_excerpt(folder / "log"),
        )
        yield ExternalBroker(f"127.0.0.1:{node.client_port}", secure, certificate)
    finally:
        broker.kill()
        broker.wait()
        ports.release()


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def _public(certificate: Path) -> Path:
    text = certificate.read_text()
    path = certificate.with_suffix(".crt")
    path.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    return path


@pytest.fixture
def security(external: ExternalBroker, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The client's authentication; the pass phrase is only in the environment."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    public = str(external.certificate.with_suffix(".crt"))
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": public,
        "ssl.certificate.location": public,
        "ssl.key.location": str(external.certificate),
        "ssl.key.password": f"${VARIABLE}",
    }


def test_a_cluster_that_requires_certificates_is_contacted_and_observed(
    external: ExternalBroker, security: dict[str, str], tmp_path: Path
) -> None:
    """Brokers, settings, a topic's leader and end offset are read; the pass phrase stays secret."""
    assert probe_cluster({"bootstrap.servers": external.plain}).brokers == (1,)
    register_security(external.secure, security)
    connection = connection_settings(external.secure)
    info = probe_cluster(connection)
    assert (info.brokers, info.settings["ssl.client.auth"]) == ((1,), "required")
    assert not any(PASSWORD in value for value in info.settings.values())
    create_topic(external.secure, TOPIC, partitions=1, replication_factor=1)
    cluster = ExternalCluster(tmp_path, SPEC, connection, info)
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


def test_a_broker_reads_its_secrets_from_its_environment_and_no_file_holds_them(
    external: ExternalBroker, security: dict[str, str]
) -> None:
    """Its TLS listener has the encrypted key; its log hides the pass phrase."""
    register_security(external.secure, security)
    assert probe_cluster(connection_settings(external.secure)).brokers == (1,)
    folder = external.certificate.parent
    assert _files_holding(folder, f"${{env:{VARIABLE}}}") == ["server.properties"]
    assert _files_holding(folder, PASSWORD) == []


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
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if text.encode() in path.read_bytes()]


def test_an_untrusted_certificate_is_an_error_of_one_line(
    external: ExternalBroker, security: dict[str, str], tmp_path: Path
) -> None:
    """It has librdkafka's own reason."""
    register_security(
        external.secure,
        {**security, "ssl.ca.location": str(_public(_certificate(tmp_path, "stranger")))},
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
