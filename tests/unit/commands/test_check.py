"""`ackbench check` as a user and a CI job run it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from support.command_line import ackbench


@pytest.fixture
def producer(tmp_path: Path) -> str:
    """Return the path of a producer's properties that may lose records."""
    path = tmp_path / "producer.properties"
    path.write_text("acks=1\nenable.idempotence=false\n")
    return str(path)


def check(producer: str, *options: str) -> tuple[int, str]:
    """Return the exit code and the output."""
    result = ackbench("check", "--producer", producer, "--replication-factor", "3", *options)
    return result.exit_code, result.output


def test_it_prints_what_is_guaranteed_and_what_to_change(producer: str) -> None:
    """Exit code 0: a check is no gate unless it is asked to be one."""
    code, output = check(producer)
    text = " ".join(output.split())  # however wide the terminal is

    assert code == 0
    assert "acks=1, enable.idempotence=false, retries=2147483647 (default)" in text
    assert "smallest change: producer acks=all" in text


@pytest.mark.parametrize(
    ("fail_on", "code"),
    [("no-acked-loss:leader-crash", 3), ("no-acked-loss:follower-crash", 0), ("no-acked-loss", 3)],
)
def test_it_is_a_gate_for_one_fault_or_for_all(producer: str, fail_on: str, code: int) -> None:
    """The reason is printed for each that fails."""
    found, output = check(producer, "--fail-on", fail_on)

    assert found == code
    assert (
        f"--fail-on: {fail_on.split(':', maxsplit=1)[0]} is not guaranteed under" in output
    ) == (code == 3)


def test_a_single_replica_has_no_fault_of_a_follower(producer: str) -> None:
    """It is not counted, and a gate that names one is refused in one line."""
    options = ("check", "--producer", producer, "--nodes", "1")
    result = ackbench(*options, "--fail-on", "availability:follower-crash")

    assert "follower-" not in ackbench(*options).output
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "availability:follower-crash: follower-crash is not possible with" in result.output


@pytest.mark.parametrize(
    ("fail_on", "message"),
    [
        ("no-loss", "unknown guarantee no-loss; did you mean no-read-loss"),
        ("order:leader-crsh", "unknown fault leader-crsh; did you mean leader-crash"),
        ("atomicity", "allowed: no-acked-loss, no-duplicates, order"),
    ],
)
def test_a_gate_that_can_never_fail_is_refused(producer: str, fail_on: str, message: str) -> None:
    """A typo, or a guarantee that these settings are not about."""
    code, output = check(producer, "--fail-on", fail_on)

    assert code == 2
    assert message in output


def test_the_json_has_settings_reasons_and_changes(producer: str) -> None:
    """For programs."""
    _, output = check(producer, "--json")
    document = json.loads(output)

    assert document["settings"]["producer"] == {"acks": "1", "enable.idempotence": "false"}
    assert document["guarantees"]["no-acked-loss"]["changes"][0]["set"] == [
        {"scope": "producer", "name": "acks", "value": "all"}
    ]


def test_the_junit_file_counts_what_is_not_guaranteed(producer: str, tmp_path: Path) -> None:
    """A test case is one guarantee under one fault."""
    path = tmp_path / "junit.xml"
    check(producer, "--junit", str(path))
    suite = next(one for one in ET.parse(path).getroot() if one.get("name") == "no-acked-loss")  # noqa: S314

    failures = [case.get("name") for case in suite if case.find("failure") is not None]
    assert "leader-crash" in failures
    assert str(len(failures)) == suite.get("failures")
    assert str(len(suite)) == suite.get("tests")


def test_many_topics_that_are_alike_are_one_line_and_the_weakest_is_judged(tmp_path: Path) -> None:
    """An operator's folder has thousands of them."""
    path = tmp_path / "topics.yaml"
    path.write_text(
        "".join(
            "---\napiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaTopic\n"
            f"metadata: {{name: t{number}}}\n"
            f"spec: {{partitions: 3, replicas: {1 if number == 77 else 3}}}\n"
            for number in range(500)
        )
    )
    output = ackbench("check", str(path)).output
    text = " ".join(output.split())

    assert "judged is t77 with 1" in text
    assert "topics t0, t1, t2, t3, t4 and 494 others: 3 replicas, 3 partitions" in text
    assert "topic t77: 1 replica, 3 partitions" in text
