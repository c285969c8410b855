"""The Java clients' security properties: the same principal and trust as librdkafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ackbench.experiments.trial.clients.settings.java_security import java_security
from ackbench.experiments.trial.clients.settings.security import (
    java_connection_settings,
    register_security,
)
from ackbench.infra.errors import InputError

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII\n-----END ENCRYPTED PRIVATE KEY-----\n"


@pytest.fixture
def pem(tmp_path: Path) -> dict[str, str]:
    """Return librdkafka's properties of a client with a certificate of its own, in files."""
    for name, text in (("ca", CERTIFICATE), ("own", CERTIFICATE), ("key", KEY)):
        (tmp_path / f"{name}.pem").write_text(text)
    return {
        "security.protocol": "ssl",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(tmp_path / "own.pem"),
        "ssl.key.location": str(tmp_path / "key.pem"),
        "ssl.key.password": "a pass phrase",
    }


def test_a_cluster_without_security_needs_no_property() -> None:
    """Java's defaults hold."""
    assert java_security({}) == {}


def test_certificates_and_key_are_passed_as_the_text_of_their_files(pem: dict[str, str]) -> None:
    """As KIP-651 has them."""
    assert java_security(pem) == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.key.password": "a pass phrase",
    }


def test_a_name_and_a_password_become_a_login_module_with_both_quoted() -> None:
    """A quotation mark or a backslash in a password does not end it."""
    java = java_security(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "bench",
            "sasl.password": 'a"b\\c',
        }
    )
    assert java == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="bench" password="a\\"b\\\\c";'
        ),
    }


def test_a_pkcs12_keystore_keeps_its_file() -> None:
    """No other kind is read by librdkafka."""
    given = {"ssl.keystore.location": "/own.p12", "ssl.keystore.password": "secret"}
    java = java_security({"security.protocol": "ssl", **given})
    assert java.items() >= {"ssl.keystore.type": "PKCS12", **given}.items()


def test_host_names_are_not_checked_if_librdkafka_does_not_check_them() -> None:
    """Java's word for it is the empty text."""
    java = java_security(
        {"security.protocol": "ssl", "ssl.endpoint.identification.algorithm": "none"}
    )
    assert java["ssl.endpoint.identification.algorithm"] == ""


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"ssl.curves.list": "X25519"}, "no counterpart of librdkafka's ssl.curves.list"),
        (
            {"enable.ssl.certificate.verification": "false"},
            "enable.ssl.certificate.verification is false; allowed for Java clients: true",
        ),
        (
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "GSSAPI"},
            "sasl.mechanism is GSSAPI; allowed for Java clients: PLAIN, SCRAM-SHA-256",
        ),
        ({"security.protocol": "sasl_ssl"}, "sasl.mechanism is GSSAPI; allowed"),
        (
            {"ssl.ca.location": "/ca.pem", "ssl.ca.pem": CERTIFICATE},
            "ssl.ca.location and ssl.ca.pem are both given; allowed: one of them",
        ),
        (
            {"security.protocol": "ssl", "ssl.ca.location": "/no/such/ca.pem"},
            "cannot read ssl.ca.location /no/such/ca.pem: No such file or directory",
        ),
        (
            {
                "security.protocol": "ssl",
                "ssl.certificate.pem": CERTIFICATE,
                "ssl.key.pem": "-----BEGIN RSA PRIVATE KEY-----",
            },
            "ssl.key.pem has no private key in PKCS #8",
        ),
    ],
)
def test_what_the_java_clients_cannot_have_is_refused_in_one_line(
    properties: dict[str, str], message: str
) -> None:
    """With what is allowed instead."""
    with pytest.raises(InputError) as refused:
        java_security(properties)
    assert message in str(refused.value)


def test_a_reference_is_resolved_and_a_value_that_looks_like_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A password may begin with a dollar sign."""
    monkeypatch.setenv("ACKBENCH_TEST_PASSWORD", "$HOME")
    register_security(
        "broker:1",
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "bench",
            "sasl.password": "$ACKBENCH_TEST_PASSWORD",
        },
    )
    assert 'password="$HOME"' in java_connection_settings("broker:1")["sasl.jaas.config"]
