"""Metadata requests of a client, on mock brokers, and its secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.fakes.mock_brokers import MockBrokers

from ackbench.experiments.trial.clients.librdkafka.client import Client, ConfigRejected
from ackbench.experiments.trial.clients.librdkafka.library import PRODUCER
from ackbench.experiments.trial.clients.librdkafka.properties import known_properties
from ackbench.experiments.trial.clients.settings.librdkafka import CANONICAL_NAMES
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.kafka.secrets import SECURITY_PREFIXES, is_secret

UNKNOWN_TOPIC_OR_PART, TOPIC_AUTHORIZATION_FAILED = 3, 29


def test_a_client_waits_for_a_topic_that_a_broker_does_not_know_yet() -> None:
    """A broker that was just unfenced may not know it although the others do."""
    with (
        MockBrokers() as brokers,
        Client(PRODUCER, {"bootstrap.servers": brokers.bootstrap_servers}) as client,
    ):
        brokers.create_topic("trial", 4)
        brokers.set_topic_error("trial", UNKNOWN_TOPIC_OR_PART)
        with pytest.raises(WaitTimeout, match="a broker's metadata to include topic trial"):
            client.leaders("trial", 1)
        brokers.set_topic_error("trial", 0)
        assert len(client.leaders("trial", 10)) == 4


def test_any_other_error_of_a_topic_is_raised_at_once() -> None:
    """Waiting would not resolve it."""
    with (
        MockBrokers() as brokers,
        Client(PRODUCER, {"bootstrap.servers": brokers.bootstrap_servers}) as client,
    ):
        brokers.create_topic("trial", 1)
        brokers.set_topic_error("trial", TOPIC_AUTHORIZATION_FAILED)
        with pytest.raises(HarnessError, match="topic trial: TOPIC_AUTHORIZATION_FAILED"):
            client.leaders("trial", 10)


SECRET = "correct horse"  # noqa: S105 - of no account
ALIASES = ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret")
NO_SECRETS = {
    "sasl.username",
    "ssl.ca.pem",
    "ssl.key.location",
    "sasl.oauthbearer.assertion.private.key.file",
}
"""Names, public certificates and paths that librdkafka redacts all the same."""


@pytest.mark.parametrize("name", ALIASES)
def test_effective_settings_hold_the_reference_under_the_canonical_name(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Librdkafka reports the value under its own name, whichever alias was set."""
    monkeypatch.setenv("ACKBENCH_TEST_SECRET", SECRET)
    with Client(PRODUCER, {name: "$ACKBENCH_TEST_SECRET", "ssl.key.password": SECRET}) as client:
        effective = client.effective_settings()
    assert SECRET not in json.dumps(effective)
    assert effective["sasl.oauthbearer.client.credentials.client.secret"] == "$ACKBENCH_TEST_SECRET"
    assert effective["ssl.key.password"] == "[hidden]"


def test_errors_and_the_log_hold_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The text about a wrong value contains the value."""
    monkeypatch.setenv("ACKBENCH_TEST_SECRET", SECRET)
    log = tmp_path / "log"
    settings = {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "$ACKBENCH_TEST_SECRET",
        "debug": "all",
    }
    with Client(PRODUCER, settings, log=log) as client:
        for _ in range(5):
            client.poll(100)
    assert "oauthbearer" in log.read_text().lower()
    assert SECRET not in log.read_text()
    monkeypatch.setenv("ACKBENCH_TEST_SECRET", "no protocol")
    with pytest.raises(ConfigRejected) as rejected:
        Client(PRODUCER, {"security.protocol": "$ACKBENCH_TEST_SECRET", "sasl.password": SECRET})
    assert SECRET not in str(rejected.value)


def test_all_that_librdkafka_redacts_is_a_secret_or_is_known_to_be_none(tmp_path: Path) -> None:
    """It marks them `[redacted]` in its log; no function of its interface lists them."""
    names = [
        known.name
        for known in known_properties().values()
        if known.name.startswith(SECURITY_PREFIXES) and not (known.allowed or known.alias_of)
    ]
    redacted = {name for name in names if _is_redacted(name, tmp_path / name)}
    assert {name for name in redacted if is_secret(name)} == redacted - NO_SECRETS
    assert len(redacted) > len(NO_SECRETS)
    assert {name for name in names if is_secret(name)} <= redacted


def _is_redacted(name: str, log: Path) -> bool:
    try:
        with Client(PRODUCER, {"debug": "conf", name: "1"}, log=log):
            return f"{name} = [redacted]" in log.read_text()
    except ConfigRejected:
        return name == "ssl.keystore.password"  # it needs a key store, which needs a password


def test_every_alias_of_librdkafka_has_a_canonical_name() -> None:
    """Two names of one property would be two settings, and one of them would not be masked."""
    for known in known_properties().values():
        if known.alias_of:
            canonical = CANONICAL_NAMES.get(known.name, known.name)
            assert CANONICAL_NAMES.get(known.alias_of, known.alias_of) == canonical
