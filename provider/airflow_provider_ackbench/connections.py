"""An Airflow connection of type Kafka as the external cluster of an experiment.

The connection is that of Airflow's own Kafka provider: its extra has librdkafka's properties,
`bootstrap.servers` among them. Secrets get into the environment of ackbench, never into a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

BOOTSTRAP: Final = "bootstrap.servers"
_PREFIXES: Final = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.")
_VARIABLE: Final = "ACKBENCH_CONNECTION"
_SECRET: Final = re.compile(
    r"(?:^|\.)(?:password|passphrase|secret|secret\.key|key\.pem|jaas\.config|oauthbearer\.config"
    r"|keystore\.key|keystore\.certificate\.chain|truststore\.certificates)$"
)
"""Properties that ackbench accepts only as the name of a variable."""


class UnusableConnection(ValueError):
    """A connection without what a client needs."""


@dataclass(frozen=True)
class KafkaCluster:
    """How to reach a cluster."""

    servers: str
    security: Mapping[str, str]
    """librdkafka's properties; a secret is the name of a variable, as `$NAME`."""
    variables: Mapping[str, str]
    """The values of those variables."""

    def experiment(self, text: str) -> str:
        """Return an experiment's file with this cluster in the place of the one that it has.

        Args:
            text: the file, YAML.

        Raises:
            UnusableConnection: the file is no mapping.
        """
        try:
            content = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UnusableConnection(f"the experiment's file is no YAML: {error}") from error
        if not isinstance(content, dict):
            raise UnusableConnection("the experiment's file is no mapping of names to values")
        content |= {"cluster": "external", BOOTSTRAP: self.servers, "security": {**self.security}}
        if not self.security:
            del content["security"]
        return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def kafka_cluster(conn_id: str, extra: str | None) -> KafkaCluster:
    """Return the cluster of a connection; properties that are not about security are left out.

    Args:
        conn_id: the connection's id, for messages.
        extra: its extra, JSON.

    Raises:
        UnusableConnection: there is no `bootstrap.servers`, or the extra is no JSON object.
    """
    try:
        found: Any = json.loads(extra or "{}")
    except ValueError as error:
        raise UnusableConnection(f"connection {conn_id}: its extra is no JSON: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get(BOOTSTRAP), str):
        raise UnusableConnection(
            f"connection {conn_id}: its extra has no {BOOTSTRAP}, as of a connection of type Kafka"
        )
    properties = {
        str(name): _text(value) for name, value in found.items() if name.startswith(_PREFIXES)
    }
    variables = {
        _variable_of(name): value for name, value in properties.items() if _SECRET.search(name)
    }
    security = {
        name: f"${_variable_of(name)}" if _SECRET.search(name) else value
        for name, value in properties.items()
    }
    return KafkaCluster(found[BOOTSTRAP], security, variables)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _variable_of(name: str) -> str:
    return f"{_VARIABLE}_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}"
