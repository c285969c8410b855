"""Refuse properties that load or run code, and secrets that are written as their values.

Who may start a sweep may start brokers, not programs. librdkafka opens the libraries in
`plugin.library.paths` as soon as the property is set, so even a check of its value by the client
would run the code. Only an experiment's file with `allow_code: true` may set such properties. The
names come from librdkafka's CONFIGURATION.md and from Kafka's ProducerConfig, ConsumerConfig and
broker settings.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.secrets import is_literal_secret, is_security_property, resolve_references

CODE_LOADING_PROPERTIES: Final = (
    "plugin.*",
    "*.engine.*",
    "*.library.*",
    "*.provider",
    "*.provider.*",
    "*.providers",
    "*.providers.*",
    "*.cmd",
    "*.command",
    "*.jaas.config",
    "*interceptor*",
    "*.reporters",
    "*.class",
    "*.class.*",
    "*.classes",
    "*.classes.*",
    "*.callback.handler.*",
    "*.serializer",
    "*.deserializer",
    "*.assignors",
    "partition.assignment.strategy",
    "zookeeper.clientcnxnsocket",
)
"""Names, in lower case, of properties that hold a library, a command or a class.

Patterns as in fnmatch(3), so that properties that a later version adds are covered.
"""
KAFKA_CLASSES: Final = {
    "replica.selector.class": "org.apache.kafka.common.replica.",
    "partitioner.class": "org.apache.kafka.clients.producer.",
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.",
    "group.consumer.assignors": "org.apache.kafka.coordinator.group.assignor.",
    "group.share.assignors": "org.apache.kafka.coordinator.group.assignor.",
    "key.serializer": "org.apache.kafka.common.serialization.",
    "value.serializer": "org.apache.kafka.common.serialization.",
    "key.deserializer": "org.apache.kafka.common.serialization.",
    "value.deserializer": "org.apache.kafka.common.serialization.",
}
"""Properties that may hold Kafka's own classes of one package, or their short names."""
_CLASS: Final = re.compile(r"[A-Za-z0-9_$]+")
_SHORT_NAME: Final = re.compile(r"[a-z][a-z-]*")
_SHELL_WORDS: Final = (
    "sasl.kerberos.principal",
    "sasl.kerberos.keytab",
    "sasl.kerberos.service.name",
)
"""librdkafka inserts their values into the shell command `sasl.kerberos.kinit.cmd`."""
_SHELL_SAFE: Final = re.compile(r"[\w.@/:+-]*", re.ASCII)
_CREDENTIALS: Final = re.compile(r"://[^/?#]*@")
_PROVIDED: Final = re.compile(r"\$\{[^}]*:[^}]*\}")
"""Kafka's notation for a value of a config provider (KIP-297)."""


def refuse_protected(scope: str, name: str, text: str, *, allow_code: bool = False) -> None:
    """Refuse a property that loads code or writes down a secret, before a client sees its value.

    Args:
        scope: the scope of the property, for the message.
        name: the property, without a prefix.
        text: the value as Kafka or librdkafka would get it.
        allow_code: whether the experiment's file has `allow_code: true`.

    Raises:
        ExperimentError: it does; the message has no secret. Or it refers to an environment variable
            that is not set.
    """
    refuse_literal_secret(f"{scope} property {name}", name, text)
    problem = None if allow_code else code_problem(name, text)
    if problem:
        raise ExperimentError(f"{scope} property {name} {problem}")
    try:
        resolve_references({name: text})
    except InputError as error:
        raise ExperimentError(f"{scope} property: {error}") from error


def refuse_literal_secret(subject: str, name: str, text: str) -> None:
    """Refuse a secret that is no reference.

    Args:
        subject: the beginning of the message.
        name: the property.
        text: its value, which the message does not contain.

    Raises:
        ExperimentError: the value is a secret, or a URL with a password.
    """
    if is_literal_secret(name, text):
        raise ExperimentError(
            f"{subject} is a secret; "
            "allowed: the name of an environment variable that holds it, as in $KAFKA_SECRET"
        )
    if name.endswith(".url") and _CREDENTIALS.search(text):
        raise ExperimentError(f"{subject} has credentials; allowed: a URL without them")


def refuse_in_form(scope: str, name: str) -> None:
    """Refuse a security property in a form: it could send any environment variable to any address.

    Args:
        scope: the scope of the property, for the message.
        name: the property, without a prefix.

    Raises:
        ExperimentError: it is one.
    """
    if is_security_property(name):
        raise ExperimentError(
            f"{scope} property {name} is a security property; allowed: in an experiment's file, "
            "not in a form"
        )


def loads_code(name: str) -> bool:
    """Return whether a property holds a library, a command or a class."""
    lowered = name.strip().lower()
    return any(fnmatchcase(lowered, pattern) for pattern in CODE_LOADING_PROPERTIES)


@lru_cache(maxsize=4096)
def code_problem(name: str, text: str) -> str | None:
    """Return how a property loads or runs code, as a clause; `None`: it does not.

    Args:
        name: the property, without the prefix of a scope.
        text: the value as Kafka or librdkafka would get it.
    """
    name = name.strip().lower()
    if name in KAFKA_CLASSES:
        package = KAFKA_CLASSES[name]
        foreign = next((word for word in _words(text) if not _is_own_class(word, package)), None)
        if foreign is not None:
            return (
                f"names the class {foreign}; allowed: Kafka's own classes ({package}*), "
                "or any in an experiment's file with `allow_code: true`"
            )
    elif loads_code(name):
        return "loads or runs code; allowed: only in an experiment's file with `allow_code: true`"
    if name in _SHELL_WORDS and not _SHELL_SAFE.fullmatch(text):
        return "is part of a shell command; allowed: letters, digits and . _ @ / : + -"
    if _PROVIDED.search(text):
        return (
            "refers to a config provider, which is a class; allowed: a plain value, "
            "or any in an experiment's file with `allow_code: true`"
        )
    return None


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _is_own_class(word: str, package: str) -> bool:
    if word.startswith(package):
        return _CLASS.fullmatch(word.removeprefix(package)) is not None
    return _SHORT_NAME.fullmatch(word) is not None
