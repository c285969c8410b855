"""Lesson 17: librdkafka beside Java's own client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.two_clients import find

BOTH = ("librdkafka", "java")


def _cell(client: str, *, own: bool, acks: int | str = "all", fault: str = "relay-reset") -> Cell:
    return {"client": client, "client.defaults": own, "acks": acks, "fault": fault}


def _found(
    same: Mapping[str, int], own: Mapping[str, int], lost: Mapping[str, int], repeats: int = 3
) -> Finding:
    """Copies with the same settings and with each one's own; records lost with acks=1. By client."""
    cells: list[tuple[Cell, dict[str, Any]]] = [
        *((_cell(client, own=False), {"duplicates": same[client]}) for client in BOTH),
        *((_cell(client, own=True), {"duplicates": own[client]}) for client in BOTH),
        *(
            (
                _cell(client, own=False, acks=1, fault="leader-crash-behind"),
                {"lost": (lost[client], lost[client])},
            )
            for client in BOTH
        ),
    ]
    return find(
        material_of([a_trial(cell, **seen) for cell, seen in cells for _ in range(repeats)])
    )


ALIKE = {"librdkafka": 40, "java": 70}
ONE = {"librdkafka": 40, "java": 0}
NONE = {"librdkafka": 0, "java": 0}


def test_defaults_that_differ_bear_it_out_in_part() -> None:
    """The same settings mean the same."""
    finding = _found(same=ALIKE, own=ONE, lost=ALIKE)
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    told = "With each one's own defaults, when the leader's answers were lost, acknowledged records were stored twice by librdkafka in 3 of 3 trials"
    assert told in finding.sentence
    assert "Java's client in 0 of 3 trials" in finding.sentence


def test_clients_that_are_alike_in_all_make_no_difference() -> None:
    """Also where neither repeats by default."""
    finding = _found(same=ALIKE, own=NONE, lost=ALIKE)
    assert finding.conclusion is Conclusion.SUPPORTED
    assert (
        "answers were lost, acknowledged records were neither lost nor stored twice"
        in finding.sentence
    )


def test_clients_that_differ_under_the_same_settings_let_it_fall() -> None:
    """One repeats and the other does not."""
    assert _found(same=ONE, own=ONE, lost=ALIKE).conclusion is Conclusion.REFUTED


def test_a_fault_that_shows_nothing_leaves_it_open() -> None:
    """Two clients that both lost nothing may differ all the same."""
    assert _found(same=ALIKE, own=ONE, lost=NONE).conclusion is Conclusion.INCONCLUSIVE


def test_two_trials_leave_it_open() -> None:
    """Fewer than three carry nothing."""
    assert _found(same=ALIKE, own=ONE, lost=ALIKE, repeats=2).conclusion is Conclusion.INCONCLUSIVE
