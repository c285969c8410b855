"""Lesson 13: which fields are read as they were sent, and whether replays agree."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.ledger.workload_tables import Field
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding

find = load_finding("record_fields")


def _found(
    repeats: int = 3, *, stamped: int = 100, replay: tuple[int, int] = (0, 0), **differing: int
) -> Finding:
    """Return the finding for trials with a leader crash and for trials with LogAppendTime.

    Args:
        repeats: trials per cell.
        stamped: timestamps that differ with LogAppendTime.
        replay: records of the third replay that differ, and that are absent.
        differing: records that differ by field, in the trials with CreateTime.
    """
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
        finding_input_of_trials(
            [a_trial(cell) for cell in cells], {"fields": fields, "replays": replays}
        )
    )


def _replay(number: int, differing: int = 0, absent: int = 0) -> dict[str, int]:
    return {
        "replay": number,
        "records": 100,
        "differing_records": differing,
        "absent_records": absent,
    }


def test_a_timestamp_set_by_the_broker_supports_the_claim_in_part(says: Says) -> None:
    """All other fields are kept."""
    finding = _found()
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    says(finding.sentence)
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
def test_a_field_or_a_replay_that_differs_refutes_the_claim(seen: dict[str, Any]) -> None:
    """With CreateTime this includes the timestamp."""
    assert _found(**seen).conclusion is Conclusion.REFUTED


def test_two_failovers_are_inconclusive() -> None:
    """Two trials may miss what happens in one of three."""
    assert _found(repeats=2).conclusion is Conclusion.INCONCLUSIVE
