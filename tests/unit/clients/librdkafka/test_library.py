"""The library is the verified one, and its structures are laid out as compiled code reads them."""

import numpy as np
import pytest

from experiments.clients.librdkafka import library
from experiments.clients.librdkafka.client import Client
from experiments.errors import ClientLibraryError


def test_the_installed_version_is_verified() -> None:
    """Another one is refused when it is loaded."""
    assert library.version().startswith(library.VERIFIED_SERIES)


@pytest.mark.parametrize("version", ["2.15.0", "2.17.0", "2.160.0", "3.0.0", ""])
def test_an_unverified_version_is_refused(version: str) -> None:
    """With the one that would do."""
    with pytest.raises(ClientLibraryError, match=r"verified for 2\.16 only"):
        library.require_verified(version)


def test_another_layout_is_refused() -> None:
    """A field that lies elsewhere is named."""
    names = ["error", "partition", "payload", "payload_bytes", "offset", "opaque"]
    moved = np.dtype(
        {
            "names": names,
            "formats": ["<i4", "<i4", "<i8", "<i8", "<i8", "<i8"],
            "offsets": [0, 8, 24, 32, 56, 64],
            "itemsize": 72,
        }
    )
    with pytest.raises(ClientLibraryError, match="another layout on this platform: partition"):
        library.require_layout(moved)


def test_a_missing_library_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to do."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ClientLibraryError, match="make setup"):
        library.library_path()


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
    """A wrong number would handle another error."""
    assert library.error_text(code).startswith(f"{name} (")


def test_the_library_tells_all_that_it_runs_with() -> None:
    """Its own defaults, those of topics too, and what it made of them: idempotence has five requests in flight."""
    with Client(library.PRODUCER, {"linger.ms": "7"}) as client:
        own = client.effective_settings()
    with Client(library.PRODUCER, {"enable.idempotence": "true"}) as client:
        idempotent = client.effective_settings()
    assert {
        name: own[name]
        for name in ("acks", "linger.ms", "delivery.timeout.ms", "enable.idempotence")
    } == {
        "acks": "-1",
        "linger.ms": "7",
        "delivery.timeout.ms": "300000",
        "enable.idempotence": "false",
    }
    assert idempotent["max.in.flight.requests.per.connection"] == "5"
