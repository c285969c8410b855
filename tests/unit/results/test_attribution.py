"""The sentences about lost, duplicated and out-of-order records, word by word."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ackbench.experiments.ledger.result_tables import ATTRIBUTION
from ackbench.experiments.ledger.result_terms import Anomaly, Cause
from ackbench.experiments.results.attribution import (
    AttributionRow,
    cause_summaries,
    describe_attribution,
)

TRUNCATED: dict[str, Any] = {
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
    ("changes", "text"),
    [
        (
            {},
            (
                "1,204 lost records of partition 0 (offsets 88,120 to 89,323), "
                "acknowledged by leader 2 in epoch 5 with ISR 1,2,3, during the fault: "
                "node 2 truncated its log to offset 88,120"
            ),
        ),
        (
            {"truncated_by": None, "records": 1, "last_offset": 88_120, "phase": "before"},
            (
                "1 lost record of partition 0 (offset 88,120), "
                "acknowledged by leader 2 in epoch 5 with ISR 1,2,3, before the fault: "
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
                "1,204 lost records of partition 0, "
                "sent to leader 2 in epoch 5 with ISR 1,2,3, during the fault: "
                "the next leader never had them; they were in transit, or only in the previous "
                "leader's log (with acks=0 no offset is returned that could show which)"
            ),
        ),
        (
            {"kind": "DUPLICATED", "cause": "RESENT", "phase": "after", "isr": None},
            (
                "1,204 duplicates of partition 0 (offsets 88,120 to 89,323), "
                "appended by leader 2 in epoch 5, acknowledged after the heal: "
                "the client timed out waiting for a response and sent again"
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
            "cause unknown: 1 record of unknown outcome that is not in the log",
        ),
    ],
)
def test_a_sentence_names_what_is_known(changes: dict[str, Any], text: str) -> None:
    """Null columns are left out."""
    assert describe_attribution(AttributionRow(**{**TRUNCATED, **changes})) == text


@pytest.mark.parametrize("kind", Anomaly)
@pytest.mark.parametrize("cause", Cause)
def test_every_kind_has_a_sentence_for_every_cause(kind: Anomaly, cause: Cause) -> None:
    """A sentence about an unknown cause begins with that."""
    row = AttributionRow(**{**TRUNCATED, "kind": kind.value, "cause": cause.value})
    text = describe_attribution(row)
    assert text.startswith("cause unknown: ") == (cause is Cause.UNATTRIBUTED)
    assert "1,204 " in text
    assert "None" not in text


def test_a_row_has_the_columns_of_the_table() -> None:
    """The fields have the names and the order of the columns."""
    assert [field.name for field in fields(AttributionRow)] == ATTRIBUTION.names


@pytest.mark.parametrize("kind", Anomaly)
@pytest.mark.parametrize("cause", Cause)
def test_every_kind_has_a_summary_for_every_cause(kind: Anomaly, cause: Cause) -> None:
    """A single record is counted in the singular."""
    (many,) = cause_summaries([{"kind": kind.value, "cause": cause.value, "records": 1204}])
    (one,) = cause_summaries([{"kind": kind.value, "cause": cause.value, "records": 1}])
    assert many.count("1,204 ") == 2
    assert one.startswith("1 ")
    assert "records" not in one.split(":")[0]
