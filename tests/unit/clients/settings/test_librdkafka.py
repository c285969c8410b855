"""What clients are given is explicit, each property by one name, and librdkafka judges it itself."""

import pytest

from experiments.clients.librdkafka.properties import known_properties, refusal
from experiments.clients.settings.librdkafka import (
    FIRST_NAME,
    consumer_settings,
    delivery_timeout_ms,
    producer_settings,
)
from infra.errors import InputError


@pytest.mark.parametrize("settings", [producer_settings({}), consumer_settings({})])
def test_every_default_is_one_of_the_librarys_properties(settings: dict[str, str]) -> None:
    """And the library takes them together."""
    assert set(settings) <= set(known_properties())
    assert refusal(settings) is None


def test_the_second_names_are_the_librarys() -> None:
    """Whichever of two names is the first, the library knows them as one."""
    properties = known_properties()
    for second, first in FIRST_NAME.items():
        assert second == properties[first].alias_of or first == properties[second].alias_of


def test_an_override_by_its_other_name_leaves_one_value() -> None:
    """`message.timeout.ms` is `delivery.timeout.ms`."""
    settings = producer_settings({"message.timeout.ms": "1234", "request.required.acks": "1"})
    assert (settings["delivery.timeout.ms"], settings["acks"]) == ("1234", "1")
    assert not {"message.timeout.ms", "request.required.acks"} & set(settings)
    assert delivery_timeout_ms(settings) == 1234


def test_two_names_that_disagree_are_refused() -> None:
    """Nobody guesses which was meant."""
    with pytest.raises(
        InputError, match=r"linger\.ms is given twice, as 5 and, by its other name, as 6"
    ):
        producer_settings({"linger.ms": "5", "queue.buffering.max.ms": "6"})


@pytest.mark.parametrize(("idempotent", "in_flight"), [("true", "5"), ("false", "1000000")])
def test_an_idempotent_producer_has_five_requests_in_flight(
    idempotent: str, in_flight: str
) -> None:
    """As brokers keep track of five."""
    assert (
        producer_settings({"enable.idempotence": idempotent})[
            "max.in.flight.requests.per.connection"
        ]
        == in_flight
    )


def test_an_override_of_in_flight_stands() -> None:
    """Also one that librdkafka will refuse."""
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
def test_refused_settings_have_the_clients_own_reason(
    settings: dict[str, str], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And nothing is written to the terminal."""
    assert reason in (refusal(settings) or "accepted")
    assert capfd.readouterr() == ("", "")


def test_properties_without_a_default_are_known() -> None:
    """A dump of a configuration would not show them."""
    assert {"transactional.id", "group.id", "bootstrap.servers", "acks", "partitioner"} <= set(
        known_properties()
    )
