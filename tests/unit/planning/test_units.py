"""Values with a unit are the numbers that their names are in."""

from __future__ import annotations

from typing import Any

import pytest

from ackbench.experiments.planning.overrides import parse_override
from ackbench.experiments.planning.yaml_reader import number_of, without_units


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("workload.duration_s", "90s", 90),
        ("workload.duration_s", "2m", 120),
        ("workload.duration_s", "500ms", 0.5),
        ("linger.ms", "1.5s", 1500),
        ("retention.ms", "7d", 604_800_000),
        ("workload.rate_records_per_s", "50k/s", 50_000),
        ("workload.rate_records_per_s", "50k", 50_000),
        ("workload.record_size_bytes", "2KB", 2000),
        ("batch.size", "1MiB", 1 << 20),
        ("producer.buffer.memory", "32MiB", 32 << 20),
    ],
)
def test_a_value_with_a_unit_is_a_number(name: str, value: str, number: float) -> None:
    """KB is 1,000 bytes, KiB 1,024."""
    assert number_of(name, value) == number


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("acks", "1s"),
        ("fault", "leader-crash"),
        ("linger.ms", "5MB"),
        ("linger.ms", "5/s"),
        ("batch.size", "5s"),
        ("workload.duration_s", "soon"),
        ("compression.type", "lz4"),
        ("workload.duration_s", 5),
        ("linger.ms", "5"),
        ("topic.cleanup.policy", "compact,delete"),
    ],
)
def test_any_other_value_stays_as_it_is(name: str, value: Any) -> None:
    """Whoever reads it says what is allowed."""
    assert number_of(name, value) == value


def test_the_keys_of_a_document_and_overrides_have_units() -> None:
    """Sections, axes with several values, and `--set`."""
    document = {"workload": {"duration_s": "10s"}, "axes": {"linger.ms": [0, "50ms", 7]}}

    assert without_units(document) == {
        "workload": {"duration_s": 10},
        "axes": {"linger.ms": [0, 50, 7]},
    }
    assert parse_override("linger.ms=5ms,1s") == ("linger.ms", (5, 1000))
