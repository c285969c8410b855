"""Products with an output of Kafka: log shippers, collectors, and their options' Kafka names.

Each is a `Product`: what its options are in Kafka's own names, and what it sets itself. A new one
is a `Product`, and where its options stand: in `tree_options` (YAML, TOML), or in `NOTATIONS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ackbench.experiments.planning.clients.rules import canonical_acks
from ackbench.experiments.results.checkup.files.found import FoundFile, Scope, Taking
from ackbench.experiments.results.checkup.files.names import decides_nothing
from ackbench.experiments.results.checkup.files.trees import LineText, at, entries, items, mapping
from ackbench.experiments.sweep.client_kinds import ClientKind
from ackbench.experiments.trial.clients.settings.kinds import ACKS

_ACKS_BY_NUMBER: Final = ("Sarama", "ruby-kafka")
_ACKS_IN_WORDS: Final = {"local": "1", "wait_for_all": "all", "none": "0"}


@dataclass(frozen=True)
class Product:
    """A product with a producer."""

    title: str
    source: str
    """Where its options and their defaults are documented."""
    client: ClientKind
    """Whose rules judge it."""
    library: str
    """The client library that it uses."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Kafka's property for each option."""
    prefix: str = ""
    """Options that begin with it are properties of the library."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """What it sets itself where the file does not."""
    sights: Mapping[str, str] = field(default_factory=dict)
    """What it loses itself, with the source, by the option that makes it so; empty: always."""
    sign: str = ": "
    """Stands between an option and its value."""

    def option(self, name: str) -> str | None:
        """Return the option that sets a property; `None`: it has none."""
        options = (option for option, known in self.names.items() if known == name)
        return next(options, f"{self.prefix}{name}" if self.prefix else None)

    def spelling(self, scope: Scope, name: str, value: str) -> str | None:
        """Return a setting as its configuration has it; `None`: it has no option for it."""
        option = self.option(name) if scope == "producer" else None
        if option is None:
            return None
        by_number = name == ACKS and value == "all" and self.library in _ACKS_BY_NUMBER
        return f"{option}{self.sign}{'-1' if by_number else value}"


FLUENT_BIT: Final = Product(
    title="Fluent Bit",
    source="docs.fluentbit.io/manual/pipeline/outputs/kafka",
    client="librdkafka",
    library="librdkafka",
    prefix="rdkafka.",
    sign=" ",
    sights={
        "": "Fluent Bit counts a record as sent once librdkafka has it; what is not delivered is "
        "only logged [fluent-bit, plugins/out_kafka/kafka.c]"
    },
)
FLUENTD: Final = Product(
    title="Fluentd",
    source="github.com/fluent/fluent-plugin-kafka",
    client="java",
    library="ruby-kafka",
    sign=" ",
    names={
        "required_acks": "acks",
        "max_send_retries": "retries",
        "idempotent": "enable.idempotence",
        "compression_codec": "compression.type",
    },
    sets={"acks": "all", "enable.idempotence": "false", "retries": "2"},
)
LOGSTASH: Final = Product(
    title="Logstash",
    source="www.elastic.co/docs/reference/logstash/plugins/plugins-outputs-kafka",
    client="java",
    library="Kafka's Java client",
    sign=" => ",
    names={
        "acks": "acks",
        "retries": "retries",
        "batch_size": "batch.size",
        "linger_ms": "linger.ms",
        "request_timeout_ms": "request.timeout.ms",
        "compression_type": "compression.type",
        "buffer_memory": "buffer.memory",
        "max_request_size": "max.request.size",
        "enable_idempotence": "enable.idempotence",
        "max_in_flight_requests_per_connection": "max.in.flight.requests.per.connection",
        "retry_backoff_ms": "retry.backoff.ms",
    },
    sets={"acks": "1"},
    sights={
        "retries": "with retries set, Logstash drops an event after the last one "
        "[logstash-integration-kafka, outputs/kafka.rb]"
    },
)
VECTOR: Final = Product(
    title="Vector",
    source="vector.dev/docs/reference/configuration/sinks/kafka",
    client="librdkafka",
    library="librdkafka",
    names={"message_timeout_ms": "delivery.timeout.ms", "compression": "compression.type"},
    prefix="librdkafka_options.",
)
TELEGRAF: Final = Product(
    title="Telegraf",
    source="github.com/influxdata/telegraf/blob/master/plugins/outputs/kafka/README.md",
    client="java",
    library="Sarama",
    sign=" = ",
    names={
        "required_acks": "acks",
        "max_retry": "retries",
        "idempotent_writes": "enable.idempotence",
    },
    sets={"acks": "all", "retries": "3", "enable.idempotence": "false"},
)
FILEBEAT: Final = Product(
    title="Filebeat",
    source="www.elastic.co/docs/reference/beats/filebeat/kafka-output",
    client="java",
    library="Sarama",
    names={"required_acks": "acks", "compression": "compression.type"},
    sets={"acks": "1", "enable.idempotence": "false"},
)
COLLECTOR: Final = Product(
    title="OpenTelemetry Collector",
    source="github.com/open-telemetry/opentelemetry-collector-contrib/tree/main/exporter/kafkaexporter",
    client="java",
    library="franz-go",
    names={"required_acks": "acks"},
    sets={"acks": "1"},
)
_FLUENT_SECTION: Final = re.compile(r"^\s*\[(\w+)\]\s*$", re.MULTILINE)
_FLUENTD_BLOCK: Final = re.compile(r"@type\s+(kafka2|kafka_buffered|kafka|rdkafka2|rdkafka)\b")
_LOGSTASH_PAIR: Final = re.compile(r"(\w+)\s*=>\s*(\"[^\"]*\"|'[^']*'|[^\s\"'\[{]+)")


def fluent_bit_options(text: str) -> list[dict[LineText, str]]:
    """Return the options of each Kafka output in Fluent Bit's classic form."""
    found: list[dict[LineText, str]] = []
    section, options = "", dict[LineText, str]()

    def is_kafka() -> bool:
        return section.upper() == "OUTPUT" and str(at(options, "name")).lower() == "kafka"

    for number, line in enumerate([*text.splitlines(), "[END]"], start=1):
        head = _FLUENT_SECTION.match(line)
        if head:
            if is_kafka():
                found.append(options)
            section, options = head[1], {}
        elif line.strip() and not line.lstrip().startswith("#"):
            name, _, value = line.strip().partition(" ")
            options[LineText(name.lower(), number)] = value.strip()
    return found


def fluentd_options(text: str) -> list[dict[LineText, str]]:
    """Return the options of each Kafka output of Fluentd, without those of blocks in it."""
    found: list[dict[LineText, str]] = []
    blocks: list[dict[LineText, str]] = [{}]
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split("#")[0].strip() if "@type" not in line else line.strip()
        if words.startswith("</"):
            block = blocks.pop() if len(blocks) > 1 else {}
            if _FLUENTD_BLOCK.match(f"@type {at(block, '@type')}"):
                found.append(block)
        elif words.startswith("<"):
            blocks.append({})
        elif words:
            name, _, value = words.partition(" ")
            blocks[-1][LineText(name, number)] = value.strip()
    return found


def logstash_options(text: str) -> list[dict[LineText, str]]:
    """Return the options of each Kafka output of a pipeline of Logstash."""
    found = []
    for output in re.finditer(r"\boutput\s*\{", text):
        end = _end_of_block(text, output.end())
        for kafka in re.finditer(r"\bkafka\s*\{", text[output.end() : end]):
            start = output.end() + kafka.end()
            block = text[start : _end_of_block(text, start)]
            found.append(
                {
                    LineText(pair[1], text.count("\n", 0, start + pair.start()) + 1): pair[2].strip(
                        "\"'"
                    )
                    for pair in _LOGSTASH_PAIR.finditer(block)
                }
            )
    return found


def _end_of_block(text: str, start: int) -> int:
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if not depth:
            return place
    return len(text)


NOTATIONS: Final = (
    (FLUENT_BIT, fluent_bit_options),
    (FLUENTD, fluentd_options),
    (LOGSTASH, logstash_options),
)
"""Products whose files are neither YAML nor TOML, and what reads their options."""


def tree_options(document: object) -> Iterator[tuple[Product, dict[LineText, str]]]:
    """Yield the outputs of products whose files are YAML or TOML."""
    for sink in mapping(at(document, "sinks")).values():
        if at(sink, "type") == "kafka":
            of_library = {
                LineText(f"{VECTOR.prefix}{name}", name.line): one
                for name, one in _scalars(at(sink, "librdkafka_options")).items()
            }
            yield VECTOR, {**_scalars(sink), **of_library}
    for output in items(at(document, "outputs", "kafka")):
        yield TELEGRAF, _scalars(output)
    beats = at(document, "output.kafka") or at(document, "output", "kafka")
    if beats:
        yield FILEBEAT, _scalars(beats)
    for name, exporter in mapping(at(document, "exporters")).items():
        if str(name).partition("/")[0] == "kafka":
            yield COLLECTOR, _scalars({**mapping(exporter), **mapping(at(exporter, "producer"))})
    for output in items(at(document, "pipeline", "outputs")):
        if str(at(output, "name")).lower() == "kafka":
            yield FLUENT_BIT, _scalars(output)


def _scalars(value: object) -> dict[LineText, str]:
    return {name: one for name, one in entries(value) if isinstance(one, LineText)}


def read_products(
    outputs: Sequence[tuple[Product, Mapping[LineText, str]]], path: Path
) -> FoundFile:
    """Return the settings of a product's outputs of Kafka; of several, the first one's count.

    Raises:
        InputError: none has a setting of Kafka.
    """
    taking = Taking(path, outputs[0][0].title)
    take_outputs(outputs, taking)
    return taking.found()


def take_outputs(
    outputs: Sequence[tuple[Product, Mapping[LineText, str]]], taking: Taking, lines_before: int = 0
) -> None:
    """Take the settings of a product's outputs of Kafka; of several, the first one's count.

    Args:
        outputs: with their options.
        taking: takes them.
        lines_before: where the options stand in a part of a file.
    """
    product, options = outputs[0]
    taking.has_kafkas_names = False
    if len(outputs) > 1:
        taking.note(f"{len(outputs)} outputs of Kafka: the first one's settings count")
    taking.client = product.client
    taking.spelling = product.spelling
    others = []
    for option, value in options.items():
        name = product.names.get(option)
        if product.prefix and option.startswith(product.prefix):
            name = option.removeprefix(product.prefix)
        if name is None:
            others.append(str(option))
        elif not decides_nothing(name):
            taking.take("producer", name, _acks(name, value), option.line + lines_before)
    for name, value in product.sets.items():
        taking.default("producer", name, value, product.title)
    taking.leave(f"options of {product.title}", others)
    taking.sights += [
        sentence for option, sentence in product.sights.items() if not option or option in options
    ]
    if product.client == "java" and product.library != "Kafka's Java client":
        taking.note(
            f"{product.title} uses {product.library}: judged by what Kafka says of acks, retries "
            "and idempotence; a sweep with that client shows what it does (docs/clients.md)"
        )


def _acks(name: str, value: str) -> str:
    return canonical_acks(_ACKS_IN_WORDS.get(value.lower(), value)) if name == ACKS else value
