"""Files that people have: what each is, and which settings it has, from its content alone."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from support.golden_files import Says

from ackbench.experiments.planning.properties import kafka_properties, known_versions
from ackbench.experiments.results.checkup.assembly import configuration_of
from ackbench.experiments.results.checkup.files.found import FoundFile, FoundTopic
from ackbench.experiments.results.checkup.files.names import property_of_variable
from ackbench.experiments.results.checkup.files.reading import read_file
from ackbench.experiments.results.checkup.first_sight import first_sight
from ackbench.infra.errors import InputError


def found_in(folder: Path, name: str, text: str) -> FoundFile:
    """Return what is found in a file with this text."""
    path = folder / name
    path.write_text(text)
    return read_file(path)


def settings_of(found: FoundFile) -> set[tuple[str, str, str, int | None]]:
    """Return the settings as scope, name, value and line."""
    return {(one.scope, one.name, one.value, one.line) for one in found.settings}


COMPOSE = """\
services:
  zookeeper:
    image: confluentinc/cp-zookeeper:7.6.1
  kafka:
    image: confluentinc/cp-kafka:7.6.1
    deploy: {replicas: 3}
    environment:
      - KAFKA_ZOOKEEPER_CONNECT=zookeeper:2181
      - KAFKA_MIN_INSYNC_REPLICAS=${MIN_ISR:-2}
      - KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR=$FACTOR
      - KAFKA_HEAP_OPTS=-Xmx1g
      - KAFKA_CREATE_TOPICS=orders:6:2,audit:1:1
    volumes: ["data:/var/lib/kafka/data", "./log4j.properties:/etc/kafka/log4j.properties"]
  connect:
    image: confluentinc/cp-kafka-connect:7.6.1
    environment:
      CONNECT_CONFIG_STORAGE_TOPIC: configs
      CONNECT_PRODUCER_ACKS: "1"
  shop:
    image: example/shop
"""


def test_a_compose_file_is_brokers_with_their_variables(tmp_path: Path) -> None:
    """Defaults of variables count; what the image reads itself, and what is elsewhere, is named."""
    found = found_in(tmp_path, "docker-compose.yml", COMPOSE)
    (node,) = found.nodes

    assert found.format == "Docker Compose"
    assert found.kafka_version == "3.6"
    assert (node.name, node.count, node.volumes) == ("kafka", 3, ("data",))
    assert found.topics == (FoundTopic("orders", 2, 6), FoundTopic("audit", 1, 1))
    assert {
        ("broker", "zookeeper.connect", "zookeeper:2181", 8),
        ("broker", "min.insync.replicas", "2", 9),
        ("producer", "acks", "1", 18),
    } <= settings_of(found)
    assert found.left_out == {
        "values of variables that are not set here": ("KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR",),
        "variables of the image": ("KAFKA_HEAP_OPTS",),
        "services that are no part of Kafka": ("shop",),
    }


def test_brokers_of_a_compose_file_share_what_they_have_by_a_merge_key(
    says: Says, tmp_path: Path
) -> None:
    """What differs between them in a setting that decides is said."""
    text = """\
services:
  one: &broker
    image: apache/kafka:4.1.1
    environment: &variables
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_NODE_ID: 1
      KAFKA_MIN_INSYNC_REPLICAS: 2
  two:
    <<: *broker
    environment: {<<: *variables, KAFKA_NODE_ID: 2, KAFKA_MIN_INSYNC_REPLICAS: 1}
"""
    found = found_in(tmp_path, "compose.yaml", text)

    assert [sorted(node.roles) for node in found.nodes] == [["broker", "controller"]] * 2
    says(found.notes)
    assert ("broker", "min.insync.replicas", "2", 7) in settings_of(found)


@pytest.mark.parametrize(
    ("name", "text", "format_name", "settings"),
    [
        (
            "Dockerfile",
            "FROM apache/kafka:3.9.1\nENV KAFKA_MIN_INSYNC_REPLICAS=2 \\\n  A=b\n",
            "Dockerfile",
            {("broker", "min.insync.replicas", "2", 2)},
        ),
        (
            "kafka.env",
            "KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE='true'\n",
            "environment variables",
            {("broker", "unclean.leader.election.enable", "true", 1)},
        ),
        (
            "server.properties",
            "broker.id=1\nmin.insync.replicas=2\n",
            "properties",
            {("broker", "broker.id", "1", 1), ("broker", "min.insync.replicas", "2", 2)},
        ),
        (
            "application.yml",
            (
                "spring:\n  kafka:\n    producer:\n      acks: 1\n      batch-size: 16KB\n"
                "      properties:\n        enable.idempotence: false\n"
            ),
            "Spring Boot",
            {
                ("producer", "acks", "1", 4),
                ("producer", "batch.size", "16384", 5),
                ("producer", "enable.idempotence", "false", 7),
            },
        ),
        (
            "application.properties",
            "spring.kafka.consumer.autoOffsetReset=earliest\n",
            "Spring Boot",
            {
                ("consumer", "auto.offset.reset", "earliest", 1),
                ("consumer", "enable.auto.commit", "false", None),
            },
        ),
        (
            "application.properties",
            (
                "mp.messaging.outgoing.orders.connector=smallrye-kafka\n"
                "%prod.mp.messaging.outgoing.orders.acks=all\n"
                "mp.messaging.outgoing.orders.acks=0\n"
            ),
            "SmallRye Reactive Messaging (Quarkus)",
            {("producer", "acks", "all", 2)},
        ),
        (
            "connect-distributed.properties",
            "config.storage.topic=c\nproducer.acks=1\n",
            "Kafka Connect, a worker",
            {
                ("producer", "acks", "1", 2),
                ("producer", "enable.idempotence", "false", None),
                ("producer", "max.in.flight.requests.per.connection", "1", None),
                ("producer", "delivery.timeout.ms", "2147483647", None),
                ("consumer", "auto.offset.reset", "earliest", None),
                ("consumer", "enable.auto.commit", "false", None),
            },
        ),
        (
            "source.json",
            (
                '{"name": "a", "config": {\n "connector.class": "io.debezium.connector.mysql.M",\n'
                ' "producer.override.acks": "0"}}'
            ),
            "Kafka Connect, a connector",
            {
                ("producer", "acks", "0", 3),
                ("producer", "enable.idempotence", "false", None),
                ("producer", "max.in.flight.requests.per.connection", "1", None),
                ("producer", "delivery.timeout.ms", "2147483647", None),
            },
        ),
        (
            "fluent-bit.conf",
            (
                "[SERVICE]\n    Flush 1\n[OUTPUT]\n    Name kafka\n"
                "    rdkafka.request.required.acks 1\n    Topics logs\n"
            ),
            "Fluent Bit",
            {("producer", "request.required.acks", "1", 5)},
        ),
        (
            "pipeline.conf",
            (
                'input { beats { port => 1 } }\noutput {\n  kafka {\n    acks => "0"\n'
                '    retries => 3\n    topic_id => "logs"\n  }\n}\n'
            ),
            "Logstash",
            {("producer", "acks", "0", 4), ("producer", "retries", "3", 5)},
        ),
        (
            "vector.toml",
            (
                '[sinks.out]\ntype = "kafka"\n[sinks.out.librdkafka_options]\n'
                '"request.required.acks" = "1"\n'
            ),
            "Vector",
            {("producer", "request.required.acks", "1", 4)},
        ),
        (
            "kafka.json",
            '{"bootstrap.servers": "a:1",\n "acks": "1", "retries": 0}',
            "names and values",
            {
                ("producer", "bootstrap.servers", "a:1", 1),
                ("consumer", "bootstrap.servers", "a:1", 1),
                ("producer", "acks", "1", 2),
                ("producer", "retries", "0", 2),
            },
        ),
        (
            "app.py",
            (
                "from confluent_kafka import Producer\n"
                "Producer({'bootstrap.servers': 'a', 'acks': 1,\n  'enable.idempotence': True})\n"
            ),
            "source code",
            {
                ("producer", "bootstrap.servers", "a", 2),
                ("producer", "acks", "1", 2),
                ("producer", "enable.idempotence", "true", 3),
            },
        ),
    ],
)
def test_the_content_says_what_a_file_is(
    tmp_path: Path,
    name: str,
    text: str,
    format_name: str,
    settings: set[tuple[str, str, str, int | None]],
) -> None:
    """Each setting has its line, or none where the product sets it itself."""
    found = found_in(tmp_path, name, text)

    assert found.format == format_name
    if format_name in {"names and values", "source code"}:
        assert settings_of(found) <= settings
    else:
        assert settings_of(found) == settings


def test_resources_of_strimzi_are_one_cluster(tmp_path: Path) -> None:
    """Pools, the cluster's settings and a topic in one file."""
    text = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata: {name: controllers}
spec: {replicas: 3, roles: [controller], storage: {type: ephemeral}}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaNodePool
metadata: {name: brokers}
spec:
  replicas: 4
  roles: [broker]
  storage: {type: jbod, volumes: [{id: 0, type: persistent-claim}]}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: Kafka
metadata: {name: mine}
spec:
  kafka:
    version: 4.1.0
    config:
      min.insync.replicas: 2
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaTopic
metadata: {name: orders}
spec: {partitions: 12, replicas: 3, config: {retention.ms: 7200000}}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaUser
metadata: {name: somebody}
"""
    found = found_in(tmp_path, "cluster.yaml", text)

    assert [(node.name, node.count, sorted(node.roles)) for node in found.nodes] == [
        ("controllers", 3, ["controller"]),
        ("brokers", 4, ["broker"]),
    ]
    assert found.topics == (FoundTopic("orders", 3, 12),)
    assert settings_of(found) == {
        ("broker", "min.insync.replicas", "2", 21),
        ("topic", "retention.ms", "7200000", 26),
    }
    assert found.left_out == {"resources that decide nothing here": ("KafkaUser somebody",)}


def test_a_service_that_runs_kafkas_tools_is_no_broker(tmp_path: Path) -> None:
    """It has the image of one; what cannot be read of another is named, and volumes are unknown."""
    text = """\
services:
  broker:
    image: confluentinc/cp-kafka:7.6.0
    environment: {KAFKA_BROKER_ID: 1, KAFKA_ZOOKEEPER_CONNECT: "z:1"}
    extends: {file: base.yml, service: broker}
  make-topics:
    image: confluentinc/cp-kafka:7.6.0
    command: kafka-topics --create --topic orders
"""
    found = found_in(tmp_path, "compose.yml", text)

    assert [(node.name, node.volumes) for node in found.nodes] == [("broker", None)]
    assert found.notes == (f"broker: extends is not followed: {tmp_path}/base.yml is no file",)


EXTENDING = """\
services:
  base:
    image: apache/kafka:4.1.2
    env_file: [settings/all.env]
    environment: {KAFKA_NODE_ID: 1, KAFKA_MIN_INSYNC_REPLICAS: 2}
    volumes: ["data:/var/lib/kafka/data"]
  second:
    extends: {service: base}
    environment: [KAFKA_NODE_ID=2]
    env_file: {path: absent.env, required: false}
  third:
    extends: {file: settings/more.yml, service: broker}
"""


def test_a_service_has_the_variables_of_its_files_and_of_what_it_extends(tmp_path: Path) -> None:
    """Its own come first; each setting has the file and the line where it stands."""
    (tmp_path / "settings").mkdir()
    (tmp_path / "settings" / "all.env").write_text(
        "# ours\nKAFKA_MIN_INSYNC_REPLICAS=1\nKAFKA_UNCLEAN_LEADER_ELECTION_ENABLE=true\n"
    )
    (tmp_path / "settings" / "more.yml").write_text(
        "services:\n  broker:\n    image: apache/kafka\n    env_file: all.env\n"
        "    environment:\n      KAFKA_NODE_ID: 3\n"
    )
    found = found_in(tmp_path, "compose.yml", EXTENDING)
    settings = [{one.name: (one.value, one.where) for one in node.settings} for node in found.nodes]

    assert [one["node.id"] for one in settings] == [
        ("1", "compose.yml:5"),
        ("2", "compose.yml:9"),
        ("3", "more.yml:6"),
    ]
    assert [one["min.insync.replicas"] for one in settings] == [
        ("2", "compose.yml:5"),
        ("2", "compose.yml:5"),
        ("1", "settings/all.env:2"),
    ]
    assert all(
        one["unclean.leader.election.enable"] == ("true", "settings/all.env:3") for one in settings
    )
    assert [node.volumes for node in found.nodes] == [("data",), ("data",), ()]
    (note,) = found.notes
    assert note.startswith("brokers differ in min.insync.replicas: base 2, second 2 and third 1;")


@pytest.mark.parametrize(
    ("service", "note"),
    [
        ("env_file: ../secret.env", "env_file is not read: ../secret.env is outside of compose"),
        ("env_file: /etc/passwd", "env_file is not read: /etc/passwd is outside of compose"),
        ("env_file: absent.env", "absent.env is no file"),
        ("extends: kafka", "extends leads back to itself"),
        ("extends: {service: nobody}", "extends nobody, which is no service of compose.yml"),
        ("extends: {file: ../x.yml, service: a}", "../x.yml is outside of compose"),
        ("extends: {file: bad.yml, service: a}", "extends is not followed"),
    ],
)
def test_what_a_service_names_and_cannot_be_read_is_one_note(
    tmp_path: Path, service: str, note: str
) -> None:
    """No file outside of the folder is opened."""
    folder = tmp_path / "compose"
    folder.mkdir()
    (tmp_path / "secret.env").write_text("KAFKA_MIN_INSYNC_REPLICAS=2\n")
    (folder / "bad.yml").write_text("services: [\n")
    text = f"services:\n  kafka:\n    image: apache/kafka:4.1.2\n    {service}\n"
    found = found_in(folder, "compose.yml", text)

    assert len(found.notes) == 1
    assert note in found.notes[0]
    assert found.settings == ()


def test_replicas_of_a_service_share_its_volume_and_those_of_a_stateful_set_do_not(
    tmp_path: Path,
) -> None:
    """A named volume of Docker is one; a claim's template makes one for each."""
    shared = "3 brokers share the volume data"
    compose = found_in(tmp_path, "compose.yml", COMPOSE)
    claims = found_in(
        tmp_path,
        "brokers.yml",
        """\
kind: StatefulSet
metadata: {name: kafka}
spec:
  replicas: 3
  template:
    spec:
      containers: [{name: kafka, image: apache/kafka, env: [{name: KAFKA_NODE_ID, value: "1"}]}]
  volumeClaimTemplates: [{metadata: {name: data}}]
""",
    )

    assert any(shared in one for one in first_sight(configuration_of([compose]), [compose]))
    assert not any(shared in one for one in first_sight(configuration_of([claims]), [claims]))


@pytest.mark.parametrize(
    ("volumes", "kept"),
    [
        ("[data:/var/lib/kafka/data]", ("data",)),
        ("[./data/one:/var/lib/kafka/data]", ("./data/one",)),
        ("[./keys:/etc/kafka/secrets]", None),
        ("[./log4j.properties:/opt/kafka/log4j.properties]", ()),
        ("[/var/lib/kafka/data]", ("kafka:/var/lib/kafka/data",)),
        ("[]", ()),
        ("[{type: volume, source: logs, target: /kafka}]", ("logs",)),
    ],
)
def test_only_what_holds_the_log_is_a_volume_of_a_broker(
    tmp_path: Path, volumes: str, kept: tuple[str, ...] | None
) -> None:
    """A folder of keys that brokers share is no shared disk; a folder may be one: unknown."""
    text = f"services: {{kafka: {{image: apache/kafka:4.1.1, volumes: {volumes}}}}}\n"

    assert found_in(tmp_path, "compose.yml", text).nodes[0].volumes == kept


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("apache/kafka:4.1.1", "4.1.1"),
        ("apache/kafka-native:4.0.0-rc1", "4.0.0"),
        ("confluentinc/cp-kafka:5.5.1", "2.5"),
        ("confluentinc/cp-kafka:6.2.0", "2.8"),
        ("confluentinc/cp-server:7.9.0", "3.9"),
        ("confluentinc/cp-kafka:8.1.0", "4.1"),
        ("confluentinc/cp-kafka:latest", None),
        ("registry.example.com/team/kafka:12", None),
    ],
)
def test_the_tag_of_an_image_is_a_version_of_kafka(
    tmp_path: Path, image: str, version: str | None
) -> None:
    """Confluent Platform 7.x is Kafka 3.x, 8.x is 4.x."""
    text = f"services: {{a: {{image: {image}, environment: {{KAFKA_NODE_ID: 1}}}}}}\n"

    assert found_in(tmp_path, "compose.yml", text).kafka_version == version


@pytest.mark.parametrize(
    ("name", "text", "format_name", "settings", "brokers"),
    [
        (
            "values.yaml",
            (
                "replicaCount: 3\nmaxMessageBytes: _2000\nzookeeper: {enabled: true}\n"
                "persistence: {enabled: false}\n"
            ),
            "values of Bitnami's chart",
            {("broker", "message.max.bytes", "2000", 2)},
            3,
        ),
        (
            "values.yaml",
            (
                "kafka:\n  controller: {replicaCount: 3}\n  extraConfig: |\n"
                "    min.insync.replicas=2\n"
            ),
            "values of Bitnami's chart",
            {("broker", "min.insync.replicas", "2", 4)},
            3,
        ),
        (
            "kafka.yaml",
            (
                "apiVersion: platform.confluent.io/v1beta1\nkind: Kafka\nspec:\n  replicas: 3\n"
                "  configOverrides:\n    server: [min.insync.replicas=2]\n"
            ),
            "Confluent for Kubernetes",
            {("broker", "min.insync.replicas", "2", 6)},
            3,
        ),
        (
            "map.yaml",
            (
                "apiVersion: v1\nkind: ConfigMap\ndata:\n  out.conf: |\n    [OUTPUT]\n"
                "        Name kafka\n        rdkafka.request.required.acks 1\n"
            ),
            "Kubernetes",
            {("producer", "request.required.acks", "1", 7)},
            0,
        ),
        (
            "map.yaml",
            (
                "apiVersion: v1\nkind: ConfigMap\ndata:\n  server.properties: |\n"
                "    # ours\n    broker.id=1\n    min.insync.replicas=2\n"
            ),
            "Kubernetes",
            {("broker", "broker.id", "1", 6), ("broker", "min.insync.replicas", "2", 7)},
            0,
        ),
        (
            "shop.conf",
            "name = shop\nout.kafka.message.send.max.retries = 3\nout.kafka.acks = 1\n",
            "properties",
            {("producer", "message.send.max.retries", "3", 2), ("producer", "acks", "1", 3)},
            0,
        ),
        (
            "app.yml",
            "shop: {kafka: {producer: {acks: 1, max.in.flight.requests.per.connection: 3}}}\n",
            "names and values",
            {
                ("producer", "acks", "1", 1),
                ("producer", "max.in.flight.requests.per.connection", "3", 1),
            },
            0,
        ),
        (
            "application.yml",
            "kafka:\n  acks: all\n  producers:\n    orders:\n      retries: 3\n",
            "Micronaut",
            {("producer", "acks", "all", 2), ("producer", "retries", "3", 5)},
            0,
        ),
    ],
)
def test_what_stands_within_other_things_is_found(
    tmp_path: Path,
    name: str,
    text: str,
    format_name: str,
    settings: set[tuple[str, str, str, int | None]],
    brokers: int,
) -> None:
    """Files within a map, values of a chart that is a part, names below a prefix."""
    found = found_in(tmp_path, name, text)

    assert found.format == format_name
    assert settings_of(found) == settings
    assert sum(node.count for node in found.nodes) == brokers


def test_images_that_change_kafkas_sample_file_have_its_values(tmp_path: Path) -> None:
    """Which have internal topics of one replica."""
    text = "services: {a: {image: bitnami/kafka, environment: {KAFKA_CFG_NODE_ID: 1}}}\n"
    found = found_in(tmp_path, "compose.yml", text)

    assert ("broker", "offsets.topic.replication.factor", "1", None) in settings_of(found)


def test_each_property_of_a_broker_is_found_again_from_its_variable() -> None:
    """As Apache's and Bitnami's images name it."""
    for name in (one.name for one in kafka_properties(known_versions()[-1]).broker):
        apache = name.upper().replace("-", "___").replace("_", "__").replace(".", "_")
        bitnami = name.upper().replace(".", "_")
        assert property_of_variable(f"KAFKA_CFG_{bitnami}") == name
        assert property_of_variable(f"KAFKA_{apache}") == name


def test_the_last_of_two_equal_names_counts_and_it_is_said(says: Says, tmp_path: Path) -> None:
    """As java.util.Properties has it."""
    found = found_in(tmp_path, "producer.properties", "acks=1\nretries=3\nacks=all\n")

    assert ("producer", "acks", "all", 3) in settings_of(found)
    says(found.notes)


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{one}: &a{one} [{','.join([f'*a{one - 1}'] * 9)}]\n" for one in range(1, 9)
)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.yml", BOMB.encode(), "more than 100,000 values"),
        ("a.yml", b"replicas: {{ .Values.replicas }}\nname: {{ x }}\n", "render it first"),
        ("a.yml", b"services:\n  web:\n    image: nginx\n", "no setting of Kafka was found"),
        ("a.yml", b"a: [\n", "not YAML"),
        ("a.yml", b"", "is empty"),
        ("a.log", gzip.compress(b"acks=1", mtime=0), "is gzip, no text"),
        ("a.bin", b"acks=1\0", "is binary, no text"),
        ("a.properties", b"acks=\xff", "is no UTF-8 text"),
        ("a.properties", b"x" * 1_000_001, "has 1,000,001 bytes; allowed: 1,000,000"),
        ("a.properties", b"any text at all\n", "no name is a property of Kafka"),
        ("a.toml", b"[a\n", "not TOML"),
        ("a.go", b"package main\n", "no setting of Kafka was found"),
        ("Dockerfile", b"FROM nginx\nRUN true\n", "no setting of Kafka was found"),
    ],
)
def test_a_file_of_which_nothing_is_understood_is_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    """Never an answer about the defaults."""
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(InputError) as refused:
        read_file(path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


_INSERTED = (
    "{",
    "]",
    ":",
    "\n",
    "  ",
    '"',
    "'",
    "*a",
    "<<: *x",
    "=",
    "${X}",
    "{{ a }}",
    "\\",
    "\t",
)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_file_is_read_or_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    """Whatever is inserted or left out: never another exception."""
    choice = random.Random(seed)  # noqa: S311 - no secret
    names = ("compose.yml", "pipeline.conf", "server.properties", "vector.toml", "app.go", "env")
    for _ in range(100):
        text = list(COMPOSE)
        for _ in range(choice.randint(1, 6)):
            place = choice.randrange(len(text))
            text[place : place + choice.randint(0, 9)] = choice.choice(_INSERTED)
        path = tmp_path / choice.choice(names)
        path.write_text("".join(text))
        assert "\n" not in seen_or_refused(path)


def seen_or_refused(path: Path) -> str:
    """Return what is seen first in a file, or why it is refused."""
    try:
        found = read_file(path)
        return next(first_sight(configuration_of([found]), [found]))
    except InputError as refused:
        return str(refused)
