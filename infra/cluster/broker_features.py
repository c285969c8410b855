"""Ask one broker of an external cluster for its features, over a connection of ackbench's own.

librdkafka does not return them. No authentication is needed for this request, but TLS may be.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from infra.errors import HarnessError
from infra.kafka.api_versions import BrokerFeatures, api_versions_request, read_features
from infra.network.tls import tls_context

_TIMEOUT_S: Final = 5.0
_SIZE: Final = struct.Struct(">i")
_MOST_BYTES: Final = 1 << 20
_LOG: Final = logging.getLogger(__name__)


def fetch_features(host: str, port: int, connection: Mapping[str, str]) -> BrokerFeatures | None:
    """Return the features that a broker reports; `None`: it does not tell, for a logged reason.

    Args:
        host: of the broker.
        port: of the broker.
        connection: librdkafka's properties, with references resolved. TLS is with PEM files only.
    """
    try:
        with closing(_connect(host, port, connection)) as connected:
            connected.sendall(api_versions_request())
            return read_features(_receive_response(connected))
    except (OSError, HarnessError) as error:  # ssl.SSLError is an OSError
        _LOG.info("broker %s:%s does not tell its features: %s", host, port, error)
        return None


def _connect(host: str, port: int, connection: Mapping[str, str]) -> socket.socket:
    context = tls_context(connection)
    connected = socket.create_connection((host, port), _TIMEOUT_S)
    try:
        return context.wrap_socket(connected, server_hostname=host) if context else connected
    except OSError:
        connected.close()
        raise


def _receive_response(connected: socket.socket) -> bytes:
    (size_bytes,) = _SIZE.unpack(_receive(connected, _SIZE.size))
    if not 0 < size_bytes <= _MOST_BYTES:
        raise HarnessError(f"a response of {size_bytes} bytes is not Kafka's")
    return _receive(connected, size_bytes)


def _receive(connected: socket.socket, size_bytes: int) -> bytes:
    received = b""
    while len(received) < size_bytes:
        part = connected.recv(size_bytes - len(received))
        if not part:
            raise HarnessError("it closed the connection")
        received += part
    return received
