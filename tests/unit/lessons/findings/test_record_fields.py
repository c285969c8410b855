"""Lesson 13: what was read as it was sent, and what a replay gives."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.ledger.workload_tables import Field
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.record_fields import find


def _found(
    repeats: int = 3, *, stamped: int = 100, replay: tuple[int, int] = (0, 0), **differing: int
) -> Finding:
    """With a killed leader, and with the broker's clock; what differs is of the first."""
    kinds: list[Cell] = [
        {"fault": "leader-crash", "message.timestamp.type": "CreateTime"},
        {"fault": "none", "message.timestamp.type": "LogAppendTime"},
    ]
    cells = [cell for cell in kinds for _ in range(repeats)]
    fields: dict[int, list[dict[str, Any]]] = {}
    for place, cell in enumerate(cells):
        appended = cell["message.timestamp.type"] == "LogAppendTime"
        others = {"timestamp": stamped} if appended else differing
        fields[place] = [
            {
                "field": field.value,
                "compared_records": 100,
                "differing_records": others.get(field.value, 0),
            }
            for field in Field
        ]
    replays = {place: [_replay(1), _replay(2), _replay(3, *replay)] for place in fields}
    return find(
        material_of([a_trial(cell) for cell in cells], {"fields": fields, "replays": replays})
    )


def _replay(number: int, differing: int = 0, absent: int = 0) -> dict[str, int]:
    return {
        "replay": number,
        "records": 100,
        "differing_records": differing,
        "absent_records": absent,
    }


def test_all_is_kept_but_the_timestamp_where_the_brokers_clock_counts() -> None:
    """That is what LogAppendTime is for."""
    finding = _found()
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    assert (
        "300 records were compared with what was sent; not the same were: key 0, value 0, headers 0, timestamp 0, offset 0."
        in finding.sentence
    )
    assert (
        "With message.timestamp.type=LogAppendTime, 100 % of the timestamps were others than were sent."
        in finding.sentence
    )
    assert _found(stamped=0).conclusion is Conclusion.SUPPORTED


@pytest.mark.parametrize(
    "seen",
    [
        {"value": 1},
        {"headers": 2},
        {"offset": 1},
        {"timestamp": 1},
        {"replay": (1, 0)},
        {"replay": (0, 1)},
    ],
)
def test_one_field_or_one_replay_that_differs_lets_it_fall(seen: dict[str, Any]) -> None:
    """With the producer's own timestamp, that too."""
    assert _found(**seen).conclusion is Conclusion.REFUTED


def test_too_few_failovers_leave_it_open() -> None:
    """Two trials may not have met what happens in one of three."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
