"""How clients reach a cluster that is not ours: its addresses, and librdkafka's properties that say who they are.

A secret is never written down: what is kept, sent to other processes and recorded is `$NAME`, the environment variable that holds it. Only when a
client is made does its value take that place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from infra.errors import InputError

PREFIXES: Final = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")
"""What properties of security begin with."""
SECRETS: Final = frozenset(
    {
        "sasl.password",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.config",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    }
)
"""Those that no file may hold."""
_MARK: Final = "$"
_KNOWN: dict[str, Mapping[str, str]] = {}


def remember(servers: str, security: Mapping[str, str]) -> None:
    """Have every client of this process that is told these addresses say who it is."""
    _KNOWN[servers] = dict(security)


def connecting(servers: str) -> dict[str, str]:
    """Return what a client needs to reach the cluster at these addresses, its secrets filled in.

    Raises:
        InputError: an environment variable is not set.
    """
    return {"bootstrap.servers": servers, **filled(_KNOWN.get(servers, {}))}


def filled(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with the environment's values in the place of `$NAME`, of properties of security alone.

    Raises:
        InputError: an environment variable is not set.
    """
    return {
        name: _value(name, text) if is_reference(name, text) else text
        for name, text in settings.items()
    }


def is_reference(name: str, text: str) -> bool:
    """Whether a setting's text names an environment variable."""
    return name.startswith(PREFIXES) and text.startswith(_MARK)


def _value(name: str, text: str) -> str:
    value = os.environ.get(text.removeprefix(_MARK))
    if value is None:
        raise InputError(
            f"{name} is to be taken from the environment variable {text.removeprefix(_MARK)}, which is not set"
        )
    return value
