"""Files written again with safer settings, and an organisation's own rules."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.command_line import ackbench

COMPOSE = """\
services:
  kafka:  # the only one
    image: apache/kafka:4.1.1
    deploy: {replicas: 3}
    environment:
      KAFKA_NODE_ID: 1
      KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE: 'true'
"""


def fixed(folder: Path, name: str, text: str, *others: str) -> str:
    """Return what `--fix` writes beside a file."""
    path = folder / name
    path.write_text(text)
    result = ackbench("check", str(path), "--fix", *others)

    assert result.exit_code == 0
    assert path.read_text() == text
    return path.with_name(f"{path.stem}.fixed{path.suffix}").read_text()


def test_a_fixed_file_differs_in_the_lines_of_the_changes_alone(tmp_path: Path) -> None:
    """Comments, order and spelling stay, and a new line is like its neighbours."""
    assert fixed(tmp_path, "producer.properties", "# ours\nacks = 1\nlinger.ms = 5\n") == (
        "# ours\nacks = all\nlinger.ms = 5\n"
    )
    after = fixed(tmp_path, "compose.yml", COMPOSE)
    assert after.splitlines()[:6] == COMPOSE.splitlines()[:6]
    assert yaml.safe_load(after)["services"]["kafka"]["environment"] == {
        "KAFKA_NODE_ID": 1,
        "KAFKA_DEFAULT_REPLICATION_FACTOR": 3,
        "KAFKA_MIN_INSYNC_REPLICAS": 2,
        "KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE": "false",
    }


def test_what_a_fixed_file_says_is_checked_to_be_safer(tmp_path: Path) -> None:
    """The check of the fixed file has nothing more to fix."""
    path = tmp_path / "compose.fixed.yml"
    path.write_text(fixed(tmp_path, "compose.yml", COMPOSE))

    output = " ".join(ackbench("check", str(path), "--fix").output.split())

    assert not path.with_name("compose.fixed.fixed.yml").exists()
    assert "topic: replication.factor=3" in output


def test_a_change_that_a_framework_spells_in_its_own_way_is_left_to_its_author(
    tmp_path: Path,
) -> None:
    """Kafka's own name would be a key that Spring ignores."""
    path = tmp_path / "application.properties"
    path.write_text("spring.kafka.producer.properties.enable.idempotence=false\n")

    result = ackbench("check", str(path), "--fix")

    assert result.exit_code == 0
    fixed_file = path.with_name("application.fixed.properties")
    assert fixed_file.read_text() == "spring.kafka.producer.properties.enable.idempotence=true\n"
    assert "topic min.insync.replicas" not in fixed_file.read_text()


@pytest.mark.parametrize(
    ("rules", "code", "line"),
    [
        ("producer acks: all", 3, "--policy: producer acks is 1; the policy requires all"),
        ("producer acks: 0 or 1", 0, None),
        ("topic replication.factor: '>= 3'", 3, "topic replication.factor is 1; the policy"),
        ("topic replication.factor: '>= 1'", 0, None),
        ("broker auto.create.topics.enable: false", 3, "broker auto.create.topics.enable is true"),
        ("consumer enable.auto.commit: false", 0, None),
        ("producer ack: all", 2, "unknown producer property ack; did you mean acks"),
        ("acks: all", 2, "acks begins with no scope; allowed: broker, topic, producer"),
        ("producer acks: [all]", 2, "producer acks needs a value"),
        ("topic replication.factor: '> x'", 2, "a bound is a number"),
    ],
)
def test_a_policy_is_a_gate(tmp_path: Path, rules: str, code: int, line: str | None) -> None:
    """Exit code 3 for each rule that is broken, 2 for a rule that is none; no consumer, no rule."""
    producer, policy = tmp_path / "producer.properties", tmp_path / "policy.yaml"
    producer.write_text("acks=1\n")
    policy.write_text(f"require:\n  {rules}\n")

    result = ackbench("check", str(producer), "--policy", str(policy))

    assert result.exit_code == code
    assert line is None or line in result.output


def test_a_file_without_rules_is_no_policy(tmp_path: Path) -> None:
    """A policy that can never fail is refused."""
    policy = tmp_path / "policy.yaml"
    for text in ("", "require: {}\n", "require:\n  producer acks: all\nrules: 3\n"):
        policy.write_text(text)
        result = ackbench("check", "--policy", str(policy))
        assert (result.exit_code, "is no policy" in result.output) == (2, True)
