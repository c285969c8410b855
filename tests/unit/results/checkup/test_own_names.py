"""Changes of settings as the product whose file has the settings writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from support.golden_files import Says

from ackbench.experiments.results.checkup.changes import Change
from ackbench.experiments.results.checkup.files.applications import FRAMEWORKS, Framework
from ackbench.experiments.results.checkup.files.found import FoundFile, Scope
from ackbench.experiments.results.checkup.files.names import property_of_variable
from ackbench.experiments.results.checkup.files.products import (
    COLLECTOR,
    FILEBEAT,
    FLUENT_BIT,
    FLUENTD,
    LOGSTASH,
    TELEGRAF,
    VECTOR,
    Product,
    read_products,
)
from ackbench.experiments.results.checkup.files.reading import read_file
from ackbench.experiments.results.checkup.files.sources import LIBRARIES, ClientInSource
from ackbench.experiments.results.checkup.files.trees import LineText
from ackbench.experiments.results.checkup.own_names import named_changes

SAFER: Final[tuple[tuple[Scope, str, str], ...]] = (
    ("producer", "acks", "all"),
    ("producer", "enable.idempotence", "true"),
    ("producer", "retries", "2147483647"),
    ("producer", "max.in.flight.requests.per.connection", "1"),
    ("producer", "delivery.timeout.ms", "120000"),
    ("consumer", "auto.offset.reset", "earliest"),
)
"""The proposals of a check to clients."""
PROGRAMS = {
    "kafkajs": "import { Kafka } from 'kafkajs'\nkafka.producer(); kafka.consumer(); ",
    "franz-go": 'import "github.com/twmb/franz-go/pkg/kgo"\nc.Produce(); kgo.ConsumeTopics(); ',
    "Sarama": 'import "github.com/IBM/sarama"\nNewSyncProducer(); NewConsumerGroup(); ',
}
NOT_READ = {("franz-go", "auto.offset.reset"), ("franz-go", "enable.idempotence")}
"""The library's default, which a program has without writing anything, or a nested call."""


def settings_of(found: FoundFile) -> set[tuple[Scope, str, str]]:
    """Return the settings as scope, name and value."""
    return {(one.scope, one.name, one.value) for one in found.settings}


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.title)
def test_what_a_framework_writes_is_read_as_the_setting_that_was_meant(
    framework: Framework, tmp_path: Path
) -> None:
    """Its own names are those that its patterns know."""
    for scope, name, value in SAFER:
        written = framework.spelling(scope, name, value)
        if written is None:
            assert scope not in framework.writes
            continue
        path = tmp_path / "application.properties"
        marker = framework.recognised_by[0].replace("*", "x")
        extra = "connector.class=a.Source\n" if scope == "producer" else "connector.class=a.Sink\n"
        first = extra if marker == "connector.class" else ""
        path.write_text(f"{first}{written}\n")
        if "offset.storage.*" in framework.recognised_by:
            path.write_text(f"offset.storage.topic=x\n{written}\n")
        found = read_file(path)

        assert found.format == framework.title
        assert (scope, name, value) in settings_of(found)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda one: one.title)
def test_what_a_library_writes_is_read_as_the_setting_that_was_meant(
    library: ClientInSource, tmp_path: Path
) -> None:
    """As a program of it has the option."""
    for scope, name, value in SAFER:
        written = library.spelling(scope, name, value)
        if written is None or (library.title, name) in NOT_READ:
            continue
        path = tmp_path / f"program{library.suffixes[0]}"
        path.write_text(f"{PROGRAMS[library.title]}\n{written}\n")

        assert (scope, name, value) in settings_of(read_file(path))


@pytest.mark.parametrize(
    "product",
    [FLUENT_BIT, FLUENTD, LOGSTASH, VECTOR, TELEGRAF, FILEBEAT, COLLECTOR],
    ids=lambda one: one.title,
)
def test_what_a_product_writes_is_read_as_the_setting_that_was_meant(product: Product) -> None:
    """Options that it does not have are written by none."""
    for scope, name, value in SAFER:
        written = product.spelling(scope, name, value)
        if written is None:
            assert name not in product.names.values()
            continue
        option, _, text = written.partition(product.sign)
        found = read_products([(product, {LineText(option, 1): text})], Path("output"))

        assert (scope, name, value) in settings_of(found)


@pytest.mark.parametrize("prefix", ["KAFKA_", "KAFKA_CFG_"])
def test_a_container_gets_the_variable_of_its_image(tmp_path: Path, prefix: str) -> None:
    """Of a topic's property that of the brokers' default."""
    path = tmp_path / "compose.yml"
    variables = f"{{{prefix}NODE_ID: 1, {prefix}MIN_INSYNC_REPLICAS: 1}}"
    path.write_text(
        f"services: {{kafka: {{image: bitnami/kafka:3.9, environment: {variables}}}}}\n"
    )
    found = read_file(path)
    changes = [Change("topic", "min.insync.replicas", "2"), Change("producer", "acks", "all")]

    assert named_changes(changes, [found]) == (
        f"topic min.insync.replicas=2 ({prefix}MIN_INSYNC_REPLICAS=2) and producer acks=all"
    )
    assert property_of_variable(f"{prefix}MIN_INSYNC_REPLICAS") == "min.insync.replicas"


def a_file(name: str, text: str, folder: Path) -> FoundFile:
    """Return what is found in a file."""
    (folder / name).write_text(text)
    return read_file(folder / name)


def test_a_product_without_the_option_is_said_to_have_none(says: Says, tmp_path: Path) -> None:
    """Nobody looks for it in its documentation."""
    found = a_file(
        "filebeat.yml", "output.kafka: {hosts: [k:9092], topic: t, required_acks: 1}\n", tmp_path
    )

    says(
        named_changes(
            [Change("producer", "acks", "all"), Change("producer", "enable.idempotence", "true")],
            [found],
        )
    )


def test_a_file_with_kafkas_own_names_repeats_nothing(tmp_path: Path) -> None:
    """Nor does a file that is about something else."""
    found = a_file("producer.properties", "acks=1\n", tmp_path)

    assert named_changes([Change("producer", "acks", "all")], [found]) == "producer acks=all"
