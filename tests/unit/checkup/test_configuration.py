"""Property files as Kafka reads them: names, defaults, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from experiments.checkup.configuration import Configuration, configuration_of, read_properties
from infra.errors import InputError


def checked(tmp_path: Path, options: dict[str, Any] | None = None, **texts: str) -> Configuration:
    """Return the settings of files with these texts."""
    files = {}
    for scope, text in texts.items():
        files[scope] = tmp_path / f"{scope}.properties"
        files[scope].write_text(text)
    return configuration_of(files, **(options or {}))


def test_a_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    """Comments, separators, continued lines and escapes."""
    path = tmp_path / "a.properties"
    path.write_text(
        "# a comment\n! another\nacks = all\nlinger.ms:5\nretries=1\\\n  0\nx=\\u0041\n"
    )

    assert read_properties(path) == {"acks": "all", "linger.ms": "5", "retries": "10", "x": "A"}


def test_what_the_files_do_not_set_has_the_default_of_the_client() -> None:
    """Not ackbench's own: Java's producer is idempotent, librdkafka's is not."""
    assert Configuration().effective_producer()["enable.idempotence"] == "true"
    librdkafka = Configuration(client="librdkafka")
    assert librdkafka.effective_producer()["enable.idempotence"] == "false"
    assert Configuration().effective_broker()["broker.session.timeout.ms"] == "9000"


def test_the_replication_factor_is_the_brokers_default_unless_it_is_given(tmp_path: Path) -> None:
    """Kafka's own default is one."""
    assert Configuration().replicas == 1
    assert checked(tmp_path, broker="default.replication.factor=3").replicas == 3
    assert checked(tmp_path, {"replication_factor": 2}).replicas == 2


@pytest.mark.parametrize(
    ("producer", "client"),
    [
        ("acks=1\nsocket.timeout.ms=1000\nqueue.buffering.max.ms=5", "librdkafka"),
        ("acks=1\nmax.request.size=1000\nmax.block.ms=5", "java"),
        ("acks=1", "java"),
    ],
)
def test_the_names_tell_whose_client_it_is(tmp_path: Path, producer: str, client: str) -> None:
    """Names that both know are taken for Java's."""
    assert checked(tmp_path, producer=producer).client == client


def test_addresses_classes_and_secrets_are_left_out(tmp_path: Path) -> None:
    """They decide nothing here."""
    text = (
        "bootstrap.servers=kafka:9092\nkey.serializer=org.example.Mine\n"
        "sasl.jaas.config=secret\nacks=1"
    )

    assert checked(tmp_path, producer=text).producer == {"acks": "1"}


@pytest.mark.parametrize(
    ("scope", "text", "message"),
    [
        ("producer", "ack=1", "unknown producer property ack; did you mean acks"),
        ("producer", "acks=2", "producer property acks is 2"),
        ("broker", "min.insync.replica=2", "unknown broker property min.insync.replica; did you"),
        ("topic", "min.insync.replicas=0", "min.insync.replicas is 0; allowed: a whole number"),
        (
            "producer",
            "enable.idempotence=true\nacks=1",
            "the producer refuses these settings: Must",
        ),
        ("producer", "acks=\\u00zz", "is no property file"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, scope: str, text: str, message: str) -> None:
    """With the property, its value and what is allowed."""
    with pytest.raises(InputError) as refused:
        checked(tmp_path, None, **{scope: text})

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replication_factor": 4}, "replication factor 4 with 3 brokers"),
        ({"kafka_version": "2.8.0"}, "Kafka 2.8.0 is unknown here; allowed: 3.9.2"),
    ],
)
def test_an_impossible_cluster_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    """Before anything is computed."""
    with pytest.raises(InputError, match=message):
        checked(tmp_path, options)


def test_a_folder_a_missing_file_and_an_endless_one_are_one_line(tmp_path: Path) -> None:
    """Size and kind are asked before reading."""
    for path in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(InputError, match="is no file"):
            read_properties(path)
