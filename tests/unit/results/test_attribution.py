"""What the report says of lost, doubled and late records, word by word."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from experiments.ledger.result_tables import ATTRIBUTION, Anomaly, Cause
from experiments.results.attribution import AttributionRow, describe_attribution

CUT: dict[str, Any] = {
    "trial_id": "t",
    "kind": "LOST",
    "partition": 0,
    "phase": "during",
    "leader": 2,
    "leader_epoch": 5,
    "isr": "1,2,3",
    "cause": "TRUNCATED",
    "truncated_to": 88_120,
    "truncated_by": 2,
    "records": 1204,
    "first_offset": 88_120,
    "last_offset": 89_323,
    "first_at_ns": 1,
    "last_at_ns": 2,
}


@pytest.mark.parametrize(
    ("differs", "text"),
    [
        (
            {},
            (
                "1,204 lost records of partition 0 (offsets 88,120 to 89,323), acknowledged by leader 2 in epoch 5 with ISR 1,2,3, while the fault lasted: "
                "node 2 cut its log to offset 88,120 when it followed again"
            ),
        ),
        (
            {"truncated_by": None, "records": 1, "last_offset": 88_120, "phase": "before"},
            (
                "1 lost record of partition 0 (offset 88,120), acknowledged by leader 2 in epoch 5 with ISR 1,2,3, before the fault: "
                "in the log that survived, epoch 5 ends at offset 88,120"
            ),
        ),
        (
            {
                "cause": "NEVER_APPENDED",
                "first_offset": None,
                "last_offset": None,
                "truncated_to": None,
                "truncated_by": None,
            },
            (
                "1,204 lost records of partition 0, sent to leader 2 in epoch 5 with ISR 1,2,3, while the fault lasted: "
                "the next leader never had them; they were on their way, or in the log of the one before alone (acks=0 tells no offset to say which)"
            ),
        ),
        (
            {"kind": "DUPLICATED", "cause": "RESENT", "phase": "after", "isr": None},
            (
                "1,204 further copies of partition 0 (offsets 88,120 to 89,323), appended by leader 2 in epoch 5, acknowledged after the heal: "
                "the client gave up waiting for an answer and sent again"
            ),
        ),
        (
            {
                "kind": "UNKNOWN_ABSENT",
                "cause": "UNATTRIBUTED",
                "partition": None,
                "leader": None,
                "leader_epoch": None,
                "phase": None,
                "records": 1,
            },
            "cause not known: 1 record of unknown outcome that is not there",
        ),
    ],
)
def test_a_row_says_what_it_knows_and_no_more(differs: dict[str, Any], text: str) -> None:
    """What is null has no words."""
    assert describe_attribution(AttributionRow(**{**CUT, **differs})) == text


@pytest.mark.parametrize("kind", Anomaly)
@pytest.mark.parametrize("cause", Cause)
def test_every_kind_has_its_words_for_every_cause(kind: Anomaly, cause: Cause) -> None:
    """Whatever the rules find; and what is not known is said to be so, first."""
    text = describe_attribution(AttributionRow(**{**CUT, "kind": kind.value, "cause": cause.value}))
    assert text.startswith("cause not known: ") == (cause is Cause.UNATTRIBUTED)
    assert "1,204 " in text
    assert "None" not in text


def test_a_row_has_the_columns_of_the_table() -> None:
    """Each by its name, so a column that is added is missed here first."""
    assert [field.name for field in fields(AttributionRow)] == ATTRIBUTION.names
