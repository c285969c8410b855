"""TLS to an external cluster on connections that ackbench makes itself, as librdkafka would."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ackbench.infra.network.timed_connection import TimedConnection

_TIMEOUT_S: Final = 5.0
UNDERSTOOD: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "enable.ssl.certificate.verification",
    }
)
"""librdkafka's TLS properties that have an effect here."""


def tls_context(connection: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return how to connect to the cluster; `None`: in plain text.

    Args:
        connection: librdkafka's properties, with references resolved. Certificates and keys are
            PEM files.

    Raises:
        OSError: a file cannot be read, or is not what it should be (`ssl.SSLError`).
    """
    if not connection.get("security.protocol", "plaintext").lower().endswith("ssl"):
        return None
    authorities = connection.get("ssl.ca.location")
    is_folder = authorities is not None and Path(authorities).is_dir()
    context = ssl.create_default_context(
        cafile=None if is_folder else authorities,
        capath=authorities if is_folder else None,
        cadata=connection.get("ssl.ca.pem"),
    )
    if connection.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if connection.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if "ssl.certificate.location" in connection:
        context.load_cert_chain(
            connection["ssl.certificate.location"],
            connection.get("ssl.key.location"),
            connection.get("ssl.key.password", ""),
        )
    return context


def certificate_problem(host: str, port: int, connection: Mapping[str, str]) -> str | None:
    """Return what is wrong with a server's certificate; `None`: nothing, or it is unknown.

    librdkafka says that it could not be verified, and not why.

    Args:
        host: of the server.
        port: of the server.
        connection: as for `tls_context`.
    """
    try:
        with TimedConnection((host, port), _TIMEOUT_S, tls_context(connection)):
            pass
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except OSError:
        pass
    return None
