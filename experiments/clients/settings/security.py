"""Addresses and security properties of an external cluster.

Secrets are never written down. Files, messages between processes and records hold a reference,
`$NAME`, to an environment variable. It is resolved only when a client is created.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from infra.errors import InputError

SECURITY_PREFIXES: Final = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")
"""Prefixes of librdkafka's security properties."""
SECRET_PROPERTIES: Final = frozenset(
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
"""Properties whose values must be references."""
_REFERENCE_PREFIX: Final = "$"
_security_by_servers: dict[str, Mapping[str, str]] = {}


def register_security(servers: str, security: Mapping[str, str]) -> None:
    """Use these security properties for every later client of this process with these servers."""
    _security_by_servers[servers] = dict(security)


def connection_settings(servers: str) -> dict[str, str]:
    """Return the properties that a client needs to connect, with references resolved.

    Raises:
        InputError: an environment variable is not set.
    """
    security = _security_by_servers.get(servers, {})
    return {"bootstrap.servers": servers, **resolve_references(security)}


def resolve_references(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with `$NAME` in security properties replaced from the environment.

    Raises:
        InputError: an environment variable is not set.
    """
    return {
        name: _resolve(name, value) if is_reference(name, value) else value
        for name, value in settings.items()
    }


def is_reference(name: str, value: str) -> bool:
    """Return whether a property's value refers to an environment variable."""
    return name.startswith(SECURITY_PREFIXES) and value.startswith(_REFERENCE_PREFIX)


def _resolve(name: str, reference: str) -> str:
    variable = reference.removeprefix(_REFERENCE_PREFIX)
    value = os.environ.get(variable)
    if value is None:
        raise InputError(f"environment variable {variable} is not set; it must hold {name}")
    return value
