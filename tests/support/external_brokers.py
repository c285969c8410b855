"""Brokers that are started without a supervisor, like those of an external cluster.

Each has four listeners: plain text; TLS that requires a client certificate; SASL_SSL with
SCRAM-SHA-512; and SASL_SSL with OAUTHBEARER, whose tokens are signed. An authorizer permits
everything to clients without SASL or a certificate of their own name, and to others what the ACLs
say.
"""

from __future__ import annotations

import datetime as dt
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.broker_keeper import BrokerKeeper, control_command
from support.token_program import write_keys

from ackbench.infra.cluster.external import probe_cluster
from ackbench.infra.kafka.commands import launch_spec
from ackbench.infra.kafka.kraft import NodeAddress, node_properties, properties_text
from ackbench.infra.kafka.secrets import provide_references
from ackbench.infra.kafka.spec import ClusterSpec, LaunchSpec
from ackbench.infra.kafka.storage import copy_formatted, random_uuid
from ackbench.infra.network.reservations import reserve_ports
from ackbench.infra.process.log_tail import failure_excerpt
from ackbench.infra.process.waiting import wait_until

PASSWORD = "a pass phrase"  # noqa: S105 - of a key and a user that live as long as one test
VARIABLE = "ACKBENCH_TEST_PASSWORD"
"""The environment variable that holds the pass phrase of the key, and the user's password."""
USER = "bench"
_NODE_PORTS = 6
_TOKEN_PROGRAM = Path(__file__).with_name("token_program.py")
_EVERYTHING: Any = None
_EVERY_ACL = AclBindingFilter(
    ResourceType.ANY,
    _EVERYTHING,
    ResourcePatternType.ANY,
    _EVERYTHING,
    _EVERYTHING,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@dataclass(frozen=True)
class ExternalBrokers:
    """Running brokers and how to contact them."""

    plain: str
    secure: str
    """Requires the client certificate `certificate`."""
    sasl: str
    """Requires the user `USER`."""
    oauth: str
    """Requires a token of the user."""
    token_key: Path
    """The private key that signs tokens."""
    certificate: Path
    """One self-signed certificate, the authority and the only client; its key is encrypted."""
    keepers: Mapping[int, BrokerKeeper]
    """By node id."""
    name: str
    """Of the keepers, before the node id."""

    def command(self, action: str, node: str = "$LEADER") -> list[str]:
        """Return a command that kills, pauses, resumes or starts a broker."""
        return control_command(f"{self.name}{node}", action)

    def ports(self) -> frozenset[int]:
        """Return the ports of all listeners of clients."""
        addresses = f"{self.plain},{self.secure},{self.sasl},{self.oauth}".split(",")
        return frozenset(int(address.rpartition(":")[2]) for address in addresses)

    def pids(self) -> frozenset[int]:
        """Return the processes of the brokers that run now."""
        return frozenset(keeper.pid for keeper in self.keepers.values())

    @property
    def public_certificate(self) -> Path:
        """The certificate without the key."""
        return public_part(self.certificate)

    def certificate_security(self) -> dict[str, str]:
        """Return librdkafka's properties of a client with the certificate."""
        public = str(self.public_certificate)
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": public,
            "ssl.certificate.location": public,
            "ssl.key.location": str(self.certificate),
            "ssl.key.password": f"${VARIABLE}",
        }

    def user_security(self) -> dict[str, str]:
        """Return librdkafka's properties of a client that is the user."""
        return {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.public_certificate),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": f"${VARIABLE}",
        }

    def token_security(self) -> dict[str, str]:
        """Return librdkafka's properties of a client that has tokens of the user."""
        return {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(self.public_certificate),
            "sasl.mechanism": "OAUTHBEARER",
        }

    def token_command(self, seconds: float = 3600, *arguments: str, user: str = USER) -> list[str]:
        """Return the command that prints a token; its arguments are those of the program."""
        key = ["--key", str(self.token_key)]
        return [sys.executable, str(_TOKEN_PROGRAM), user, *key, *arguments, "--", str(seconds)]

    @contextmanager
    def permitting(self, acls: Sequence[AclBinding]) -> Iterator[None]:
        """Add ACLs, as the administrator of the cluster, and delete them in the end."""
        admin = AdminClient({"bootstrap.servers": self.plain})
        added = set(acls)
        for future in admin.create_acls(list(added)).values():
            future.result(30)
        wait_until(
            lambda: added <= set(admin.describe_acls(_EVERY_ACL).result(30)),
            awaiting="the broker to know the ACLs",
            timeout_s=30,
        )
        try:
            yield
        finally:
            admin.delete_acls([_EVERY_ACL])[_EVERY_ACL].result(30)


def acl(kind: ResourceType, prefix: str, operation: AclOperation) -> AclBinding:
    """Return the permission of one operation for the user, on names with a prefix."""
    cluster = kind is ResourceType.BROKER
    return AclBinding(
        kind,
        "kafka-cluster" if cluster else prefix,
        ResourcePatternType.LITERAL if cluster else ResourcePatternType.PREFIXED,
        f"User:{USER}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )


@contextmanager
def external_brokers(
    cache: Path, folder: Path, count: int = 1, settings: Mapping[str, str] | None = None
) -> Iterator[ExternalBrokers]:
    """Start brokers, and stop them in the end.

    Args:
        cache: of a home, with Kafka's jars.
        folder: for their data and logs.
        count: how many; each is a controller as well.
        settings: those that all brokers share; by default nearly Kafka's own.
    """
    certificate = write_certificate(folder, "broker")
    public_part(certificate)
    token_key, public_keys = folder / "token-key.pem", folder / "token-keys.json"
    write_keys(token_key, public_keys)
    launch = launch_spec(cache, ClusterSpec(nodes=count))
    java, *options = launch.command
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={public_keys.as_uri()}"
    launch = replace(launch, command=(java, allowed, *options))
    ports = reserve_ports(count * _NODE_PORTS)
    groups = [ports.ports[at : at + _NODE_PORTS] for at in range(0, len(ports.ports), _NODE_PORTS)]
    nodes = [NodeAddress(id_, own[0], own[1], own[2]) for id_, own in enumerate(groups, 1)]
    cluster_id, name = random_uuid(), f"ackbench-test-{random_uuid()}-"
    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        running.callback(ports.release)
        patch.setenv(VARIABLE, PASSWORD)
        keepers = {
            node.node_id: running.enter_context(
                _broker(
                    f"{name}{node.node_id}",
                    folder / str(node.node_id),
                    launch,
                    {
                        **node_properties(node, nodes),
                        **_secured(node_properties(node, nodes), own[3:], certificate, public_keys),
                        "offsets.topic.replication.factor": str(min(count, 3)),
                        "transaction.state.log.replication.factor": str(min(count, 3)),
                        "transaction.state.log.min.isr": "1",
                        **(settings or {}),
                    },
                    cluster_id,
                )
            )
            for node, own in zip(nodes, groups, strict=True)
        }
        wait_until(
            lambda: all(map(_listens, ports.ports)),
            awaiting="the external brokers to listen",
            timeout_s=90,
            seen=lambda: failure_excerpt(folder / "1" / "log"),
        )
        plain = ",".join(f"127.0.0.1:{own[0]}" for own in groups)
        secure, sasl, oauth = (
            ",".join(f"localhost:{own[at]}" for own in groups) for at in (3, 4, 5)
        )
        wait_until(
            lambda: len(probe_cluster({"bootstrap.servers": plain}).brokers) == count,
            awaiting="the external brokers to be one cluster",
            timeout_s=60,
        )
        _create_user(plain)
        yield ExternalBrokers(plain, secure, sasl, oauth, token_key, certificate, keepers, name)


@contextmanager
def _broker(
    name: str, folder: Path, launch: LaunchSpec, settings: Mapping[str, str], cluster_id: str
) -> Iterator[BrokerKeeper]:
    (folder / "data").mkdir(parents=True)
    copy_formatted(Path(launch.formatted), folder / "data", int(settings["node.id"]), cluster_id)
    (folder / "server.properties").write_text(properties_text(provide_references(settings)))
    keeper = BrokerKeeper(name, launch.command, folder, {VARIABLE: PASSWORD})
    try:
        yield keeper
    finally:
        keeper.close()


def _secured(
    own: Mapping[str, str], ports: Sequence[int], certificate: Path, public_keys: Path
) -> dict[str, str]:
    listeners = "".join(
        f",{name}://localhost:{port}"
        for name, port in zip(("SECURE", "SASL", "OAUTH"), ports, strict=True)
    )
    return {
        "listeners": own["listeners"] + listeners,
        "advertised.listeners": own["advertised.listeners"] + listeners,
        "listener.security.protocol.map": (
            f"{own['listener.security.protocol.map']},SECURE:SSL,SASL:SASL_SSL,OAUTH:SASL_SSL"
        ),
        "listener.name.secure.ssl.client.auth": "required",
        "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'unsecuredLoginStringClaim_sub="broker";'
        ),
        "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.oauth.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": (
            public_keys.as_uri()
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificate),
        "ssl.key.password": f"${VARIABLE}",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(public_part(certificate)),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:CN=broker",
    }


def _create_user(servers: str) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.alter_user_scram_credentials([user]).values():
        future.result(30)


def write_certificate(folder: Path, name: str, *, valid_days: int = 1) -> Path:
    """Write a self-signed certificate for localhost and its encrypted key into one PEM file.

    Args:
        folder: where.
        name: of its owner, and of the file.
        valid_days: from now on; -1: it has expired yesterday.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=2))
        .not_valid_after(now + dt.timedelta(days=valid_days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    )
    parts = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(PASSWORD.encode()),
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        parts + builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    return path


def public_part(certificate: Path) -> Path:
    """Return a file beside it that has the certificate without the key."""
    text = certificate.read_text()
    path = certificate.with_suffix(".crt")
    path.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    return path


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
