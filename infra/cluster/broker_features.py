"""Ask one broker of an external cluster for its features, over a connection of ackbench's own.

librdkafka does not return them. No authentication is needed for this request, but TLS may be.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.api_versions import BrokerFeatures, api_versions_request, read_features
from ackbench.infra.network.timed_connection import TimedConnection
from ackbench.infra.network.tls import tls_context

_TIMEOUT_S: Final = 5.0
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
        with TimedConnection((host, port), _TIMEOUT_S, tls_context(connection)) as broker:
            broker.send(api_versions_request())
            return read_features(broker.receive_response(_MOST_BYTES))
    except (OSError, HarnessError) as error:  # ssl.SSLError is an OSError
        _LOG.info("broker %s:%s does not tell its features: %s", host, port, error)
        return None
