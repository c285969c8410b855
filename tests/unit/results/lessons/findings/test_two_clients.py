"""Lesson 17: librdkafka and Java's own client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.builders.findings import a_trial, finding_input_of_trials
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.findings.two_clients import find

BOTH = ("librdkafka", "java")


def _cell(client: str, *, own: bool, acks: int | str = "all", fault: str = "relay-reset") -> Cell:
    return {"client": client, "client.defaults": own, "acks": acks, "fault": fault}


def _found(
    same: Mapping[str, int],
    own: Mapping[str, int],
    lost: Mapping[str, int],
    repeats: int = 3,
    reordered: Mapping[str, int] | None = None,
) -> Finding:
    """Return the finding for these counts, all by client.

    Args:
        same: duplicates with the same settings.
        own: duplicates with the client's own defaults.
        lost: records lost with acks=1.
        repeats: trials per cell.
        reordered: records out of order with the same settings; None: none.
    """
    out_of_order = reordered or NONE
    cells: list[tuple[Cell, dict[str, Any]]] = [
        *(
            (
                _cell(client, own=False),
                {"duplicates": same[client], "reordered": out_of_order[client]},
            )
            for client in BOTH
        ),
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
        finding_input_of_trials(
            [a_trial(cell, **seen) for cell, seen in cells for _ in range(repeats)]
        )
    )


ALIKE = {"librdkafka": 40, "java": 70}
ONE = {"librdkafka": 40, "java": 0}
NONE = {"librdkafka": 0, "java": 0}


def test_defaults_that_may_differ_by_chance_are_not_called_different(says: Says) -> None:
    """Three trials of each client are too few."""
    finding = _found(same=ALIKE, own=ONE, lost=ALIKE)
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    says(finding.remark)


def test_different_defaults_support_the_claim_in_part(says: Says) -> None:
    """The same settings have the same effect in both clients."""
    finding = _found(same=ALIKE, own=ONE, lost=ALIKE, repeats=5)
    says(finding.remark)
    assert finding.conclusion is Conclusion.PARTLY_SUPPORTED
    says(finding.sentence)


def test_clients_that_behave_alike_support_the_claim(says: Says) -> None:
    """This includes defaults with which neither duplicates."""
    finding = _found(same=ALIKE, own=NONE, lost=ALIKE)
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)


def test_a_difference_under_the_same_settings_refutes_the_claim(says: Says) -> None:
    """One client duplicates and the other does not."""
    finding = _found(same=ONE, own=ONE, lost=ALIKE, repeats=5)
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.remark)


def test_a_difference_that_may_be_chance_is_inconclusive() -> None:
    """3 of 3 trials and 0 of 3 differ with p = 0.1 (Fisher)."""
    assert _found(same=ONE, own=ONE, lost=ALIKE).conclusion is Conclusion.INCONCLUSIVE


def test_order_is_part_of_the_same(says: Says) -> None:
    """One client that reorders where the other does not is a difference."""
    finding = _found(same=ALIKE, own=NONE, lost=ALIKE, repeats=5, reordered=ONE)
    assert finding.conclusion is Conclusion.REFUTED
    says(finding.sentence)
    both = _found(same=ALIKE, own=NONE, lost=ALIKE, repeats=5, reordered=ALIKE)
    assert both.conclusion is Conclusion.SUPPORTED
    assert both.remark.endswith("records duplicated, out of order and lost.")


def test_a_fault_without_loss_is_inconclusive() -> None:
    """Clients that both lose nothing may still differ."""
    assert _found(same=ALIKE, own=ONE, lost=NONE).conclusion is Conclusion.INCONCLUSIVE


def test_two_trials_per_cell_are_inconclusive() -> None:
    """A finding needs three trials of each cell."""
    assert _found(same=ALIKE, own=ONE, lost=ALIKE, repeats=2).conclusion is Conclusion.INCONCLUSIVE
