"""Settings as Kafka reads them: names, defaults, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.golden_files import Says

from ackbench.experiments.results.checkup.assembly import configuration_of
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.diagnosis import diagnose
from ackbench.experiments.results.checkup.files.found import SCOPES
from ackbench.experiments.results.checkup.files.properties_files import read_properties
from ackbench.experiments.results.checkup.files.reading import read_file
from ackbench.infra.errors import InputError


def checked(tmp_path: Path, options: dict[str, Any] | None = None, **texts: str) -> Configuration:
    """Return the settings of property files with these texts."""
    found = []
    for scope in (one for one in SCOPES if one in texts):
        path = tmp_path / f"{scope}.properties"
        path.write_text(texts[scope])
        found.append(read_file(path, (scope,)))
    return configuration_of(found, **(options or {}))


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


UNKNOWN = [
    (
        "producer",
        "ack=1",
        "producer.properties:1: unknown producer property ack; did you mean acks",
    ),
    ("broker", "min.insync.replica=2", "unknown broker property min.insync.replica; did you mean"),
    ("broker", "acks=1", "unknown broker property acks: it is one of a producer"),
    ("topic", "\nlinger.ms=1", "topic.properties:2: unknown topic property linger.ms: it is one"),
    ("broker", "port=9092", "unknown broker property port, removed in 3.0"),
    ("producer", "spring.kafka.producer.acks=1", "unknown producer property spring.kafka"),
    ("producer", "max.retries=3", "unknown producer property max.retries"),
    ("producer", "retries.wait.ms=3", "unknown producer property retries.wait.ms"),
]


@pytest.mark.parametrize(("scope", "text", "message"), UNKNOWN)
def test_an_unknown_name_is_a_warning_as_kafka_ignores_it(
    tmp_path: Path, scope: str, text: str, message: str
) -> None:
    """With the line, and the nearest name, or whose it is."""
    (warning,) = checked(tmp_path, None, **{scope: text}).warnings

    assert message in warning
    assert warning.endswith("; Kafka ignores it")


@pytest.mark.parametrize(("scope", "text", "message"), UNKNOWN)
def test_strict_refuses_an_unknown_name(
    tmp_path: Path, scope: str, text: str, message: str
) -> None:
    """For a gate."""
    with pytest.raises(InputError) as refused:
        checked(tmp_path, {"strict": True}, **{scope: text})

    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("scope", "text", "message"),
    [
        ("producer", "acks=2", "producer property acks is 2"),
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
        ({"kafka_version": "2.8.0"}, "invalid kafka.version: '2.8.0' .allowed: a released version"),
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


@pytest.mark.parametrize(
    "text", ["acks: all\nretries: 3\n", "acks=all\nretries=3\n", "acks : all\n# {a: [b]}\n"]
)
def test_colons_alone_do_not_make_a_file_yaml(tmp_path: Path, text: str) -> None:
    """They are separators of property files too."""
    assert checked(tmp_path, producer=text).producer["acks"] == "all"


def test_names_of_a_product_are_left_out_with_a_warning(tmp_path: Path, says: Says) -> None:
    """Kafka's clients and brokers ignore what only a product's classes read."""
    configuration = checked(
        tmp_path,
        producer="acks=1\nschema.registry.url=http://a\nauto.register.schemas=false",
        broker="confluent.license.topic.replication.factor=1",
    )

    assert configuration.producer == {"acks": "1"}
    says(configuration.warnings)


@pytest.mark.parametrize(
    "name",
    [
        "avro.remove.java.properties",
        "bearer.auth.client.id",
        "derive.type",
        "http.connect.timeout.ms",
        "key.schema.id.serializer",
        "latest.cache.ttl.sec",
        "missing.schema.cache.ttl.sec",
        "propagate.schema.tags",
        "proxy.host",
        "reference.subject.name.strategy",
        "request.header.tenant",
        "schema.reflection",
        "specific.avro.value.type",
        "type.property",
        "use.latest.with.metadata",
        "use.schema.guid",
        "validation.rules.fail.fast",
    ],
)
def test_each_property_of_the_serializers_of_confluent_is_left_out(
    tmp_path: Path, name: str
) -> None:
    """A name of each configuration of github.com/confluentinc/schema-registry."""
    configuration = checked(tmp_path, producer=f"acks=1\n{name}=x")

    assert configuration.producer == {"acks": "1"}
    assert configuration.warnings == (f"producer.properties: {name} of Confluent left out",)


def test_a_file_of_3x_is_judged_by_3_9_with_its_zookeeper_servers(
    tmp_path: Path, says: Says
) -> None:
    """Kafka 4.0 has neither the property nor ZooKeeper."""
    configuration = checked(tmp_path, broker="broker.id=0\nzookeeper.connect=a:1,b:1,c:1/kafka")

    assert configuration.kafka_version == "3.9.2"
    assert configuration.zookeepers == 3
    says(configuration.warnings)
    assert any(one.fault.startswith("zookeeper") for one in diagnose(configuration).faults)


def test_a_release_that_removed_a_property_ignores_it_and_another_is_named(tmp_path: Path) -> None:
    """As Kafka 4 does with what was ZooKeeper's."""
    (warning,) = checked(
        tmp_path, {"kafka_version": "4.1"}, broker="zookeeper.connect=a:1"
    ).warnings

    assert "Kafka 4.1.2 does not have it, Kafka 3.9.2 has it; Kafka ignores it" in warning


def test_librdkafka_allows_acks_all_by_its_alias_and_no_time_limit(tmp_path: Path) -> None:
    """Java refuses both."""
    text = "request.required.acks=all\nmessage.timeout.ms=0\n"

    for client in ("librdkafka", None):
        configuration = checked(tmp_path, {"client": client}, producer=text)
        assert configuration.producer == {"acks": "all", "delivery.timeout.ms": "0"}
        assert configuration.client == "librdkafka"


def test_librdkafka_refuses_what_it_refuses(tmp_path: Path) -> None:
    """With its own words, not Java's."""
    with pytest.raises(InputError, match=r"the producer refuses these settings: .*acks"):
        checked(
            tmp_path,
            {"client": "librdkafka"},
            producer="enable.idempotence=true\nrequest.required.acks=1",
        )


def test_a_library_that_a_checked_file_names_is_not_loaded(tmp_path: Path) -> None:
    """Even the check of its value would make librdkafka open it."""
    text = "plugin.library.paths=/tmp/x.so\nqueue.buffering.max.ms=5"

    assert checked(tmp_path, producer=text).producer == {"linger.ms": "5"}


@pytest.mark.parametrize(
    ("given", "version"),
    [("3.9", "3.9.2"), ("4.1", "4.1.2"), ("3.9.0", "3.9.0"), ("4.3.1", "4.3.1")],
)
def test_any_release_from_3_9_0_can_be_checked(tmp_path: Path, given: str, version: str) -> None:
    """Two numbers are the newest patch; nothing is downloaded."""
    assert checked(tmp_path, {"kafka_version": given}).kafka_version == version


def test_the_release_whose_properties_stand_in_for_those_of_another_is_named(
    tmp_path: Path,
) -> None:
    """The newest patch of the same line, or the newest release before it."""
    for given, known in (("3.9.0", "3.9.2"), ("9.0.0", "4.3.1")):
        warnings = checked(tmp_path, {"kafka_version": given}).warnings
        assert warnings == (f"names and defaults are those of Kafka {known}",)
