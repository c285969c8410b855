"""The values of an experiment's references `$NAME` from where an Airflow keeps them.

A variable of the worker's environment comes first, then a Variable of Airflow of the same name,
then a Connection: `$PROD_KAFKA_PASSWORD` is the password of the connection `prod_kafka`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "_ADDRESS": ("", "bootstrap.servers"),
    "_LOGIN": ("login", "sasl.username"),
    "_PASSWORD": ("password", "sasl.password"),
}
"""By the end of a reference: the field of a connection, and the key of its extra.

Connections of Airflow's provider for Kafka have the properties of a client as their extra.
"""


def provide_values(names: Iterable[str]) -> None:
    """Set variables that this process lacks, as far as Airflow has them.

    Their values are masked in Airflow's logs. They are in the environment of this process and of
    those that it starts, and nowhere else.

    Args:
        names: of references that a file of this machine permits. Whoever starts a sweep must not
            name one: programs read some variables as commands (`JAVA_TOOL_OPTIONS`).
    """
    from airflow.sdk.log import mask_secret

    for name in names:
        value = _value(name) if name not in os.environ else None
        if value:
            mask_secret(value)
            os.environ[name] = value


def _value(name: str) -> str | None:
    from airflow.sdk import Variable

    value = Variable.get(name, default=None)
    return str(value) if value else next(_of_connections(name), None)


def _of_connections(name: str) -> Iterator[str]:
    """Yield the value that a reference has in the connection that it names."""
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException

    for end, (field, key) in _FIELDS.items():
        if not name.endswith(end) or name == end:
            continue
        try:
            found = Connection.get(name.removesuffix(end).lower())
        except AirflowNotFoundException:
            continue
        value = _address(found) if not field else getattr(found, field)
        value = value or found.extra_dejson.get(key)
        if value:
            yield str(value)


def _address(connection: Any) -> str | None:
    if not connection.host:
        return None
    return f"{connection.host}:{connection.port}" if connection.port else str(connection.host)
