"""Tests of librdkafka's settings: explicit, one name per property, and checked by the library."""

import pytest

from ackbench.experiments.trial.clients.librdkafka.properties import known_properties
from ackbench.experiments.trial.clients.librdkafka.settings_check import refusal
from ackbench.experiments.trial.clients.settings.librdkafka import (
    CANONICAL_NAMES,
    consumer_settings,
    delivery_timeout_ms,
    is_true,
    producer_settings,
)
from ackbench.infra.errors import InputError


@pytest.mark.parametrize("settings", [producer_settings({}), consumer_settings({})])
def test_librdkafka_accepts_the_explicit_settings(settings: dict[str, str]) -> None:
    """The library knows every property and accepts all of them together."""
    assert set(settings) <= set(known_properties())
    assert refusal(settings) is None


def test_librdkafka_knows_each_pair_of_names_as_one_property() -> None:
    """Either name of a pair can be the alias in the library."""
    properties = known_properties()
    for alias, name in CANONICAL_NAMES.items():
        assert alias == properties[name].alias_of or name == properties[alias].alias_of


def test_override_by_an_alias_sets_the_property_once() -> None:
    """`message.timeout.ms` is an alias of `delivery.timeout.ms`."""
    settings = producer_settings({"message.timeout.ms": "1234", "request.required.acks": "1"})
    assert (settings["delivery.timeout.ms"], settings["acks"]) == ("1234", "1")
    assert not {"message.timeout.ms", "request.required.acks"} & set(settings)
    assert delivery_timeout_ms(settings) == 1234


def test_conflicting_values_of_two_names_are_refused() -> None:
    """Neither value silently takes precedence."""
    with pytest.raises(
        InputError, match=r"linger\.ms is given twice, as 5 and, under its alias, as 6"
    ):
        producer_settings({"linger.ms": "5", "queue.buffering.max.ms": "6"})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("true", True),
        ("True", True),
        ("t", True),
        ("1", True),
        ("false", False),
        ("f", False),
        ("0", False),
        ("", False),
        ("yes", False),
    ],
)
def test_boolean_values_are_parsed_as_in_librdkafka(value: str, *, expected: bool) -> None:
    """`true`, `t` and `1` are true, in any case; every other text is not."""
    assert is_true(value) is expected


@pytest.mark.parametrize(("idempotent", "in_flight"), [("true", "5"), ("false", "1000000")])
def test_idempotent_producer_has_five_requests_in_flight(idempotent: str, in_flight: str) -> None:
    """Brokers track five batches per idempotent producer."""
    assert (
        producer_settings({"enable.idempotence": idempotent})[
            "max.in.flight.requests.per.connection"
        ]
        == in_flight
    )


def test_override_of_requests_in_flight_takes_precedence() -> None:
    """This includes a value that librdkafka will refuse."""
    assert (
        producer_settings({"enable.idempotence": "true", "max.in.flight": "6"})[
            "max.in.flight.requests.per.connection"
        ]
        == "6"
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"enable.idempotence": "true", "acks": "1"},
            "`acks` must be set to `all` when `enable.idempotence` is true",
        ),
        ({"enable.idempotence": "true", "max.in.flight": "6"}, "max.in.flight"),
        ({"no.such.property": "1"}, "No such configuration property"),
        ({"linger.ms": "-3"}, "outside allowed range"),
    ],
)
def test_refusal_is_librdkafkas_own_message(
    settings: dict[str, str], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written to the terminal."""
    assert reason in (refusal(settings) or "accepted")
    assert capfd.readouterr() == ("", "")


def test_properties_without_a_default_are_known() -> None:
    """A dump of a configuration omits them."""
    assert {"transactional.id", "group.id", "bootstrap.servers", "acks", "partitioner"} <= set(
        known_properties()
    )
