"""librdkafka's version and struct layout are verified before compiled code uses them."""

import pytest

from ackbench.experiments.messages.errors import ClientLibraryError
from ackbench.experiments.trial.clients.librdkafka import library
from ackbench.experiments.trial.clients.librdkafka.client import Client
from ackbench.experiments.trial.clients.librdkafka.library_file import library_path


def test_the_installed_version_is_verified() -> None:
    """Any other version is refused when it is loaded."""
    assert library.version().startswith(library.VERIFIED_SERIES)


@pytest.mark.parametrize("version", ["2.15.0", "2.17.0", "2.160.0", "3.0.0", ""])
def test_an_unverified_version_is_refused(version: str) -> None:
    """The message names the supported version."""
    with pytest.raises(ClientLibraryError, match=r"verified for 2\.16 only"):
        library.require_verified(version)


def test_another_layout_is_refused() -> None:
    """The message names the field with another offset."""
    moved = {**library.MESSAGE_FIELDS, "partition": (8, 4)}
    with pytest.raises(ClientLibraryError, match="another layout on this platform: partition"):
        library.require_layout(moved)


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command to install it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ClientLibraryError, match="make setup"):
        library_path()


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (library.QUEUE_FULL, "_QUEUE_FULL"),
        (library.PARTITION_EOF, "_PARTITION_EOF"),
        (library.FATAL, "_FATAL"),
        (library.AUTO_OFFSET_RESET, "_AUTO_OFFSET_RESET"),
        (library.LOG_TRUNCATION, "_LOG_TRUNCATION"),
    ],
)
def test_error_codes_are_the_librarys(code: int, name: str) -> None:
    """With a wrong number the code would handle another error."""
    assert library.error_text(code).startswith(f"{name} (")


def test_effective_settings_include_defaults_and_derived_values() -> None:
    """Topic defaults too. Idempotence changes the number of requests in flight to 5."""
    with Client(library.PRODUCER, {"linger.ms": "7"}) as client:
        defaults = client.effective_settings()
    with Client(library.PRODUCER, {"enable.idempotence": "true"}) as client:
        idempotent = client.effective_settings()
    assert {
        name: defaults[name]
        for name in ("acks", "linger.ms", "delivery.timeout.ms", "enable.idempotence")
    } == {
        "acks": "-1",
        "linger.ms": "7",
        "delivery.timeout.ms": "300000",
        "enable.idempotence": "false",
    }
    assert idempotent["max.in.flight.requests.per.connection"] == "5"
