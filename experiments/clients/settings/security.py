"""The security properties of the clients of an external cluster, by its addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.clients.settings.java_security import java_security
from infra.kafka.secrets import resolve_references

_security_by_servers: Final[dict[str, Mapping[str, str]]] = {}


def register_security(servers: str, security: Mapping[str, str]) -> None:
    """Use these security properties for every later client of this process with these servers."""
    _security_by_servers[servers] = dict(security)


def connection_settings(servers: str) -> dict[str, str]:
    """Return the properties that a client needs to connect, with references resolved.

    Raises:
        InputError: an environment variable is not set.
    """
    return {"bootstrap.servers": servers, **_resolved(servers)}


def java_connection_settings(servers: str) -> dict[str, str]:
    """Return the properties that a Java client needs to connect, with references resolved.

    Raises:
        InputError: an environment variable is not set, a file cannot be read, or a property has no
            counterpart in the Java clients.
    """
    return {"bootstrap.servers": servers, **java_security(_resolved(servers))}


def _resolved(servers: str) -> dict[str, str]:
    return resolve_references(_security_by_servers.get(servers, {}))
