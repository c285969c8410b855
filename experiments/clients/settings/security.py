"""The security properties of the clients of an external cluster, by its addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
    security = _security_by_servers.get(servers, {})
    return {"bootstrap.servers": servers, **resolve_references(security)}
