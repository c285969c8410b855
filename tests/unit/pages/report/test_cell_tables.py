"""The records that a verdict of the report names."""

import pytest

from ackbench.experiments.pages.report import cell_tables
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.judge import Judgement, NamedRecord, Verdict


@pytest.mark.parametrize(
    ("total", "more"),
    [
        (1, ""),
        (5_001, "; 5,000 more in the table of anomalies"),
        (
            3_500_001,
            "; 3,500,000 more in the table of anomalies (up to 100,000 per trial and cause)",
        ),
    ],
)
def test_the_records_that_are_not_named_are_in_the_table_of_anomalies(
    total: int, more: str
) -> None:
    """It has a limit, which the reader learns about where it may matter."""
    judgement = Judgement(
        guarantee=NO_ACKED_LOSS,
        verdict=Verdict.VIOLATED,
        violation_seen=True,
        share=None,
        mechanism="as the documentation says",
        records=(NamedRecord(trial_id="000-a", producer=0, seq=7),),
        records_total=total,
    )
    assert cell_tables._record_names(judgement) == f"000-a: producer 0, record 7{more}"
