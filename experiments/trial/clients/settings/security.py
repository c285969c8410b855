"""The security properties of the clients of an external cluster, by its addresses.

Clients behind a relay of ackbench's own connect to it in plain text, on loopback: the relay speaks
TLS to the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ackbench.experiments.trial.clients.settings.java_security import java_security
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.secrets import resolve_references
from ackbench.infra.network import tls

WITHOUT_TLS: Final = {"ssl": "plaintext", "sasl_ssl": "sasl_plaintext"}
"""The protocol that is left of another one without TLS."""
_TLS_PREFIXES: Final = ("ssl.", "enable.ssl.")
_GSSAPI: Final = "GSSAPI"
"""librdkafka's default mechanism."""
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

    The command for tokens stays among them, under its own name.

    Raises:
        InputError: an environment variable is not set, a file cannot be read, or a property has no
            counterpart in the Java clients.
    """
    return {"bootstrap.servers": servers, **java_security(_resolved(servers))}


def _resolved(servers: str) -> dict[str, str]:
    return resolve_references(_security_by_servers.get(servers, {}))


def security_behind_relay(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a client's properties for the connection to a relay: SASL stays, TLS does not.

    Args:
        properties: librdkafka's, of security or any others.
    """
    kept = {name: value for name, value in properties.items() if not name.startswith(_TLS_PREFIXES)}
    protocol = kept.get("security.protocol", "").lower()
    if protocol in WITHOUT_TLS:
        kept["security.protocol"] = WITHOUT_TLS[protocol]
    return kept


def refuse_unrelayable(properties: Mapping[str, str]) -> None:
    """Check that a relay can stand between the clients and a cluster with this security.

    Args:
        properties: librdkafka's security properties, by their canonical names.

    Raises:
        InputError: a TLS property has no effect on relays; or the mechanism is GSSAPI, whose
            tickets are for the broker's host name.
    """
    protocol = properties.get("security.protocol", "").lower()
    has_tls = protocol.endswith("ssl")
    for name in sorted(set(properties) - tls.UNDERSTOOD):
        if has_tls and name.startswith(_TLS_PREFIXES):
            allowed = ", ".join(sorted(tls.UNDERSTOOD))
            raise InputError(f"relays have no {name}; allowed with this fault: {allowed}")
    if protocol.startswith("sasl") and properties.get("sasl.mechanism", _GSSAPI) == _GSSAPI:
        raise InputError(
            "sasl.mechanism is GSSAPI, which does not work behind a relay; allowed with this "
            "fault: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
        )
