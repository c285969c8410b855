"""Refuse properties that make a client or a broker load or run code.

Who may start a sweep may start brokers, not programs. librdkafka opens the libraries in
`plugin.library.paths` as soon as the property is set, so even a check of its value by the client
would run the code. The names come from librdkafka's CONFIGURATION.md and from Kafka's
ProducerConfig, ConsumerConfig and broker settings.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from experiments.errors import ExperimentError

CODE_LOADING_PROPERTIES: Final = (
    "plugin.library.paths",
    "ssl.engine.location",
    "ssl.engine.id",
    "ssl.provider",
    "ssl.providers",
    "security.providers",
    "sasl.kerberos.kinit.cmd",
    "sasl.jaas.config",
    "config.providers",
    "config.providers.*",
    "interceptor.classes",
    "metric.reporters",
    "kafka.metrics.reporters",
    "*.class.path",
)
"""Properties that name a library, a command or arbitrary classes; patterns as in fnmatch(3)."""
CLASS_NAME_PROPERTIES: Final = (
    "*.class",
    "*.class.name",
    "*.serializer",
    "*.deserializer",
    "partition.assignment.strategy",
    "*.assignors",
)
"""Properties whose values are class names, or short names of Kafka's own classes."""
KAFKA_PACKAGE: Final = "org.apache.kafka."


def refuse_code_loading(scope: str, name: str, text: str) -> None:
    """Refuse a property that loads or runs code, before a client sees its value.

    Args:
        scope: the scope of the property, for the message.
        name: the property, without a prefix.
        text: the value as Kafka or librdkafka would get it.

    Raises:
        ExperimentError: the property is one of `CODE_LOADING_PROPERTIES`, or it names a class that
            is not Kafka's own.
    """
    if any(fnmatchcase(name, pattern) for pattern in CODE_LOADING_PROPERTIES):
        raise ExperimentError(
            f"{scope} property {name} loads or runs code: an experiment cannot set it"
        )
    if any(fnmatchcase(name, pattern) for pattern in CLASS_NAME_PROPERTIES):
        words = map(str.strip, text.split(","))
        foreign = next(
            (word for word in words if "." in word and not word.startswith(KAFKA_PACKAGE)), None
        )
        if foreign:
            raise ExperimentError(
                f"{scope} property {name} names the class {foreign}; "
                f"allowed: Kafka's own classes ({KAFKA_PACKAGE}*)"
            )
