"""Secrets are known by name, in every notation, and stay references outside of a client."""

from __future__ import annotations

import pytest

from ackbench.experiments.planning.properties import kafka_properties, known_versions
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.secrets import (
    hide_secrets,
    is_literal_secret,
    is_reference,
    is_secret,
    provide_references,
    redact,
    resolve_references,
)

SECRET = "correct horse"  # noqa: S105 - of no account
PASSWORD, USERNAME = "ssl.keystore.password", "sasl.username"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKBENCH_TEST_SECRET", SECRET)


@pytest.mark.parametrize("version", known_versions())
def test_exactly_kafkas_properties_of_type_password_are_secrets(version: str) -> None:
    """`password.encoder.iterations` is none."""
    kafka = kafka_properties(version)
    known = [*kafka.topic, *kafka.broker, *kafka.producer, *kafka.consumer]
    passwords = {one.name for one in known if one.type == "password"}
    assert passwords
    assert {one.name for one in known if is_secret(one.name)} == passwords


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "listener.name.secure.ssl.key.password",
        "Ssl.Key.Password",
        "producer.sasl.jaas.config",
    ],
)
def test_aliases_prefixes_and_case_do_not_matter(name: str) -> None:
    """The name of an axis has a prefix."""
    assert is_secret(name)


def test_a_secret_is_a_reference_or_literal() -> None:
    """Only security properties may be references; the name is one of an environment variable."""
    assert is_reference(PASSWORD, "$ACKBENCH_TEST_SECRET")
    assert is_reference(USERNAME, "$ACKBENCH_TEST_SECRET")
    assert not is_reference("client.rack", "$ACKBENCH_TEST_SECRET")
    for text in ("hunter2", "", "$", "$1", "$a b", "${A}", "x$A"):
        assert is_literal_secret(PASSWORD, text)
        assert not is_literal_secret(USERNAME, text)


def test_a_variable_that_is_not_set_is_named() -> None:
    """The message says what it must hold."""
    with pytest.raises(InputError, match=r"variable NO_SUCH is not set; it must hold ssl.keystore"):
        resolve_references({PASSWORD: "$NO_SUCH"})
    with pytest.raises(InputError, match="NO_SUCH is not set"):
        provide_references({PASSWORD: "$NO_SUCH"})


def test_a_broker_gets_its_secrets_from_its_environment() -> None:
    """Its properties name the variable in Kafka's notation, and may read no other variable."""
    properties = {PASSWORD: "$ACKBENCH_TEST_SECRET", "broker.rack": "$HOME"}
    assert provide_references(properties) == {
        PASSWORD: "${env:ACKBENCH_TEST_SECRET}",
        "broker.rack": "$HOME",
        "config.providers": "env",
        "config.providers.env.class": (
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        ),
        "config.providers.env.param.allowlist.pattern": "ACKBENCH_TEST_SECRET",
    }
    assert provide_references({"broker.rack": "a"}) == {"broker.rack": "a"}
    assert provide_references({**properties, "config.providers": "x"})["config.providers"] == (
        "x,env"
    )


def test_what_a_library_reports_is_masked() -> None:
    """A secret that is no reference came from the environment."""
    reported = {PASSWORD: SECRET, USERNAME: "me", "ssl.key.password": "$A", "ssl.key.pem": ""}
    assert hide_secrets(reported) == {**reported, PASSWORD: "[hidden]"}
    assert redact(f"bad value {SECRET!r} of me", reported) == "bad value '[hidden]' of me"
