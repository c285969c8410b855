"""Properties whose values are secrets, and the references `$NAME` that stand for their values.

A reference names an environment variable. Plans, records, messages between processes and files
hold the reference. The value exists only in the environment, and in the process of the client or
the broker that uses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from ackbench.infra.errors import InputError

SECURITY_PREFIXES: Final = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")
"""Prefixes of the security properties of clients and brokers; their values may be references."""
HIDDEN: Final = "[hidden]"
"""What Kafka writes instead of the value of a property of type `password`."""

SENSITIVE_NAME: Final = (
    r"(?:password|passphrase|secret|secret\.key|master\.key|key\.pem|jaas\.config"
    r"|oauthbearer\.config|keystore\.key|keystore\.certificate\.chain|truststore\.certificates)"
)
"""The ends of the names of Kafka's properties of type `password`, and of those librdkafka redacts.

A prefix does not matter, so that `listener.name.*` and `zookeeper.*` are covered. librdkafka also
redacts `sasl.username`, `ssl.ca.pem` and the paths of private keys, which are no secrets.
"""
_SECRET: Final = re.compile(rf"(?:^|\.){SENSITIVE_NAME}$")
_REDACTED_FROM: Final = 4
_REFERENCE: Final = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_PROVIDER: Final = "env"
_PROVIDER_CLASS: Final = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


def is_secret(name: str) -> bool:
    """Return whether the value of a client's or broker's property, by any alias, is a secret."""
    return _SECRET.search(name.strip().lower()) is not None


def is_security_property(name: str) -> bool:
    """Return whether a property is about authentication or encryption."""
    return name.startswith(SECURITY_PREFIXES) or is_secret(name)


def variable_of(value: str) -> str | None:
    """Return the environment variable that a value refers to, if it is a reference."""
    found = _REFERENCE.fullmatch(value)
    return found[1] if found else None


def is_reference(name: str, value: str) -> bool:
    """Return whether a property's value refers to an environment variable."""
    return is_security_property(name) and variable_of(value) is not None


def resolve_reference(name: str, value: str) -> str:
    """Return the value of a property that may refer to an environment variable.

    Raises:
        InputError: the variable is not set.
    """
    return _value_of(name, value) if variable_of(value) else value


def is_literal_secret(name: str, value: str) -> bool:
    """Return whether a secret is written as its value instead of as a reference."""
    return is_secret(name) and not is_reference(name, value)


def resolve_references(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with each reference replaced by the value of its variable.

    Raises:
        InputError: an environment variable is not set.
    """
    return {
        name: _value_of(name, value) if is_reference(name, value) else value
        for name, value in settings.items()
    }


def hide_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with `[hidden]` for each secret that is not a reference."""
    return {
        name: HIDDEN if value and is_literal_secret(name, value) else value
        for name, value in settings.items()
    }


def redact(text: str, settings: Mapping[str, str]) -> str:
    """Return a library's message without the secrets among the settings that it got.

    Values of less than four characters stay: replacing them would make every message unreadable.
    """
    secrets = (value for name, value in settings.items() if is_secret(name))
    long = (value for value in secrets if len(value) >= _REDACTED_FROM)
    # The longest first: one secret may be part of another.
    for value in sorted(long, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


def provide_references(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a broker's properties with its references in Kafka's own notation.

    The broker reads the values from its environment, with the config provider of KIP-887. So
    `server.properties` never holds a secret.

    Raises:
        InputError: an environment variable is not set.
    """
    resolve_references(properties)
    variables = {
        name: value.removeprefix("$")
        for name, value in properties.items()
        if is_reference(name, value)
    }
    if not variables:
        return dict(properties)
    others = properties.get("config.providers")
    return {
        **properties,
        **{name: f"${{{_PROVIDER}:{variable}}}" for name, variable in variables.items()},
        "config.providers": f"{others},{_PROVIDER}" if others else _PROVIDER,
        f"config.providers.{_PROVIDER}.class": _PROVIDER_CLASS,
        f"config.providers.{_PROVIDER}.param.allowlist.pattern": "|".join(
            sorted(set(variables.values()))
        ),
    }


def _value_of(name: str, reference: str) -> str:
    variable = reference.removeprefix("$")
    value = os.environ.get(variable)
    if value is None:
        raise InputError(f"environment variable {variable} is not set; it must hold {name}")
    return value
