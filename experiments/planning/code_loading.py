"""Which properties make a client or a broker load or run code: an experiment cannot set them.

Whoever may start a sweep may start brokers, not programs. librdkafka opens the libraries of `plugin.library.paths` when the property is set, so that asking
it about the value runs the code. The names are those of librdkafka's CONFIGURATION.md and of Kafka's ProducerConfig, ConsumerConfig and broker settings.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from experiments.errors import ExperimentError

REFUSED: Final = (
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
"""Properties that name a library, a command or classes of somebody's; patterns as fnmatch(3) reads them."""
CLASSES: Final = (
    "*.class",
    "*.class.name",
    "*.serializer",
    "*.deserializer",
    "partition.assignment.strategy",
    "*.assignors",
)
"""Properties whose values are names of classes, or short names of Kafka's own."""
KAFKAS_OWN: Final = "org.apache.kafka."


def refuse_code(scope: str, name: str, text: str) -> None:
    """Refuse a property that loads or runs code, before anything is asked about its value.

    Args:
        scope: whose property it is, for the message.
        name: the property, without a prefix.
        text: its value as Kafka or librdkafka would get it.

    Raises:
        ExperimentError: it is one of `REFUSED`, or it names a class that is not Kafka's own.
    """
    if any(fnmatchcase(name, pattern) for pattern in REFUSED):
        raise ExperimentError(
            f"{scope} property {name} loads or runs code: an experiment cannot set it"
        )
    if any(fnmatchcase(name, pattern) for pattern in CLASSES):
        foreign = next(
            (
                word
                for word in map(str.strip, text.split(","))
                if "." in word and not word.startswith(KAFKAS_OWN)
            ),
            None,
        )
        if foreign:
            raise ExperimentError(
                f"{scope} property {name} names the class {foreign}; allowed: Kafka's own classes ({KAFKAS_OWN}*)"
            )
