"""Options of clients that stand in source code as plain values.

Only what a reader sees at once is taken: literals beside the names of options. A value that is
computed is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.experiments.planning.clients.rules import canonical_acks
from ackbench.experiments.results.checkup.files.found import FoundFile, Scope, Taking
from ackbench.experiments.results.checkup.files.names import names_of
from ackbench.experiments.sweep.client_kinds import ClientKind

_NUMBER_OR_WORD: Final = r"[-\w.]+"


@dataclass(frozen=True)
class Option:
    """An option in source code."""

    pattern: str
    """A regular expression; its first group, if it has one, is the value."""
    scope: Scope
    name: str
    value: Callable[[str], str] = str
    """Of the pattern's group, or of the empty text."""


@dataclass(frozen=True)
class ClientInSource:
    """A client library in source code."""

    title: str
    source: str
    recognised_by: str
    """A regular expression that only a program with it has."""
    suffixes: tuple[str, ...]
    options: tuple[Option, ...]
    sets: Mapping[Scope, Mapping[str, str]]
    """What the library sets where the program does not, by the clients that the program has."""
    clients: Mapping[Scope, str]
    """A regular expression that shows that the program has a producer, or a consumer."""
    writes: Mapping[str, str]
    """Settings, as `acks=all`, as a program with it writes them."""
    client: ClientKind = "java"

    def spelling(self, _scope: Scope, name: str, value: str) -> str | None:
        """Return a setting as a program writes it; `None`: the library has no option for it."""
        return self.writes.get(f"{name}={value}")


def _constant(value: str) -> Callable[[str], str]:
    return lambda _: value


_KAFKAJS: Final = ClientInSource(
    title="kafkajs",
    source="kafka.js.org/docs/producing, /docs/consuming",
    recognised_by=r"from ['\"]kafkajs['\"]|require\(['\"]kafkajs['\"]\)",
    suffixes=(".js", ".mjs", ".cjs", ".ts"),
    options=(
        Option(rf"\backs\s*:\s*({_NUMBER_OR_WORD})", "producer", "acks", canonical_acks),
        Option(r"\bidempotent\s*:\s*(true|false)", "producer", "enable.idempotence"),
        Option(
            r"\bmaxInFlightRequests\s*:\s*(\d+)",
            "producer",
            "max.in.flight.requests.per.connection",
        ),
        Option(r"\bretries\s*:\s*(\d+)", "producer", "retries"),
        Option(r"\btransactionalId\s*:\s*['\"]([^'\"]+)", "producer", "transactional.id"),
        Option(
            r"\bfromBeginning\s*:\s*(true|false)",
            "consumer",
            "auto.offset.reset",
            lambda text: "earliest" if text == "true" else "latest",
        ),
        Option(r"\bautoCommit\s*:\s*(true|false)", "consumer", "enable.auto.commit"),
    ),
    sets={
        "producer": {"acks": "all", "enable.idempotence": "false", "retries": "5"},
        "consumer": {
            "enable.auto.commit": "true",
            "auto.offset.reset": "latest",
            "isolation.level": "read_committed",
        },
    },
    clients={"producer": r"\.producer\(", "consumer": r"\.consumer\("},
    writes={
        "acks=all": "acks: -1 in send()",
        "enable.idempotence=true": "idempotent: true",
        "retries=2147483647": "retry: {retries: 2147483647}",
        "max.in.flight.requests.per.connection=1": "maxInFlightRequests: 1",
        "auto.offset.reset=earliest": "fromBeginning: true",
    },
)
_FRANZ_GO: Final = ClientInSource(
    title="franz-go",
    source="pkg.go.dev/github.com/twmb/franz-go/pkg/kgo",
    recognised_by=r"twmb/franz-go/pkg/kgo",
    suffixes=(".go",),
    options=(
        Option(r"kgo\.AllISRAcks\(\)", "producer", "acks", _constant("all")),
        Option(r"kgo\.LeaderAck\(\)", "producer", "acks", _constant("1")),
        Option(r"kgo\.NoAck\(\)", "producer", "acks", _constant("0")),
        Option(
            r"kgo\.DisableIdempotentWrite\(\)", "producer", "enable.idempotence", _constant("false")
        ),
        Option(r"kgo\.RecordRetries\((\d+)\)", "producer", "retries"),
        Option(
            r"kgo\.MaxProduceRequestsInflightPerBroker\((\d+)\)",
            "producer",
            "max.in.flight.requests.per.connection",
        ),
        Option(r"kgo\.TransactionalID\(\"([^\"]+)", "producer", "transactional.id"),
        Option(r"kgo\.DisableAutoCommit\(\)", "consumer", "enable.auto.commit", _constant("false")),
        Option(
            r"kgo\.FetchIsolationLevel\(kgo\.ReadCommitted\(\)\)",
            "consumer",
            "isolation.level",
            _constant("read_committed"),
        ),
    ),
    sets={
        "producer": {"acks": "all", "enable.idempotence": "true"},
        "consumer": {"enable.auto.commit": "true", "auto.offset.reset": "earliest"},
    },
    clients={
        "producer": r"\.(Produce|ProduceSync|TryProduce)\(|kgo\.(RequiredAcks|DefaultProduceTopic)",
        "consumer": r"kgo\.(ConsumerGroup|ConsumeTopics)\(",
    },
    writes={
        "acks=all": "kgo.RequiredAcks(kgo.AllISRAcks())",
        "enable.idempotence=true": "without kgo.DisableIdempotentWrite()",
        "retries=2147483647": "kgo.RecordRetries(2147483647)",
        "max.in.flight.requests.per.connection=1": "kgo.MaxProduceRequestsInflightPerBroker(1)",
        "auto.offset.reset=earliest": "kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())",
    },
)
_SARAMA: Final = ClientInSource(
    title="Sarama",
    source="pkg.go.dev/github.com/IBM/sarama#Config",
    recognised_by=r"(IBM|Shopify)/sarama",
    suffixes=(".go",),
    options=(
        Option(r"RequiredAcks\s*[=:]\s*sarama\.WaitForAll", "producer", "acks", _constant("all")),
        Option(r"RequiredAcks\s*[=:]\s*sarama\.WaitForLocal", "producer", "acks", _constant("1")),
        Option(r"RequiredAcks\s*[=:]\s*sarama\.NoResponse", "producer", "acks", _constant("0")),
        Option(r"\bIdempotent\s*[=:]\s*(true|false)", "producer", "enable.idempotence"),
        Option(
            r"MaxOpenRequests\s*[=:]\s*(\d+)", "producer", "max.in.flight.requests.per.connection"
        ),
        Option(r"Producer\.Retry\.Max\s*=\s*(\d+)", "producer", "retries"),
        Option(r"AutoCommit\.Enable\s*=\s*(true|false)", "consumer", "enable.auto.commit"),
        Option(
            r"Offsets\.Initial\s*=\s*sarama\.OffsetOldest",
            "consumer",
            "auto.offset.reset",
            _constant("earliest"),
        ),
        Option(
            r"Offsets\.Initial\s*=\s*sarama\.OffsetNewest",
            "consumer",
            "auto.offset.reset",
            _constant("latest"),
        ),
    ),
    sets={
        "producer": {"acks": "1", "enable.idempotence": "false", "retries": "3"},
        "consumer": {"enable.auto.commit": "true", "auto.offset.reset": "latest"},
    },
    clients={
        "producer": r"New(Sync|Async)Producer|RequiredAcks",
        "consumer": r"NewConsumerGroup|AutoCommit|Offsets\.Initial",
    },
    writes={
        "acks=all": "Producer.RequiredAcks = sarama.WaitForAll",
        "enable.idempotence=true": "Producer.Idempotent = true",
        "retries=2147483647": "Producer.Retry.Max = 2147483647",
        "max.in.flight.requests.per.connection=1": "Net.MaxOpenRequests = 1",
        "auto.offset.reset=earliest": "Consumer.Offsets.Initial = sarama.OffsetOldest",
    },
)
LIBRARIES: Final = (_KAFKAJS, _FRANZ_GO, _SARAMA)
_PAIR: Final = re.compile(
    r"['\"]([a-z][a-z0-9]*(?:[._-][a-z0-9]+)*)['\"]\s*(?::|,|=>|\]\s*=|=)\s*"
    r"(?:['\"]([^'\"]*)['\"]|(-?\d+)|([Tt]rue|[Ff]alse))"
)
"""A property's name and a plain value: in a dictionary, a map, or the arguments of a call."""
_CODE: Final = re.compile(
    r"\.(py|[mc]?js|ts|go|java|kt|scala|groovy|rb|cs|rs|php|c|cc|cpp)", re.IGNORECASE
)
_LIBRDKAFKA: Final = re.compile(r"confluent[_-]kafka|rdkafka|Confluent\.Kafka")


def is_source(path: Path) -> bool:
    """Return whether a file is a program's source."""
    return _CODE.fullmatch(path.suffix) is not None


def read_source(text: str, path: Path) -> FoundFile:
    """Return the options of Kafka's clients in a program's source.

    Raises:
        InputError: none is there as a plain value.
    """
    for library in LIBRARIES:
        if path.suffix in library.suffixes and re.search(library.recognised_by, text):
            return _read_library(text, path, library)
    taking = Taking(path, "source code")
    taking.has_kafkas_names = False
    if _LIBRDKAFKA.search(text):
        taking.client = "librdkafka"
    for pair in _PAIR.finditer(text):
        name, value = pair[1], next(one for one in pair.groups()[1:] if one is not None)
        knowing = [scope for scope in _CLIENT_SCOPES if name in names_of(scope)]
        line = text.count("\n", 0, pair.start()) + 1
        for scope in knowing if "." in name or name in _PLAIN_NAMES else ():
            taking.take(scope, name, value.lower() if pair[4] else value, line)
    return _only_used(taking, text).found()


_CLIENT_SCOPES: Final[tuple[Scope, ...]] = ("producer", "consumer")
_PLAIN_NAMES: Final = ("acks", "retries")
_USES: Final[Mapping[Scope, str]] = {"producer": r"[Pp]roducer", "consumer": r"[Cc]onsumer"}


def _only_used(taking: Taking, text: str) -> Taking:
    """Leave out the settings of a client that the program does not name."""
    for scope, pattern in _USES.items():
        if not re.search(pattern, text):
            taking.settings = [one for one in taking.settings if one.scope != scope]
    return taking


def _read_library(text: str, path: Path, library: ClientInSource) -> FoundFile:
    taking = Taking(path, f"source code ({library.title})")
    taking.has_kafkas_names = False
    taking.client = library.client
    taking.spelling = library.spelling
    for option in library.options:
        for found in re.finditer(option.pattern, text):
            value = option.value(found[1] if found.groups() else "")
            taking.take(option.scope, option.name, value, text.count("\n", 0, found.start()) + 1)
    for scope, pattern in library.clients.items():
        if re.search(pattern, text):
            for name, value in library.sets[scope].items():
                taking.default(scope, name, value, library.title)
    taking.note(
        f"only plain values were read; judged by what Kafka says of acks, retries and idempotence: "
        f"a sweep with {library.title} shows what it does (docs/clients.md)"
    )
    return taking.found()
