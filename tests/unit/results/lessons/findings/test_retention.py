"""Lesson 14: what a consumer loses to retention, by its speed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.builders.findings import a_trial, finding_input_of_trials
from support.builders.records import a_spec
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell, Keys
from ackbench.experiments.results.lessons.finding import Conclusion, Finding
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.sweep.plan import Workload
from ackbench.experiments.sweep.workload import GroupMembers

find = load_finding("retention")

LOAD = Workload(
    rate_records_per_s=2000, record_size_bytes=1000, duration_s=9, keys=Keys(count=0), producers=1
)
TOPIC = {"retention.bytes": "4000000", "segment.bytes": "1000000"}


def _found(
    repeats: int = 3, *, fast: int = 0, slow: tuple[int, ...] = (8000, 8100, 8200)
) -> Finding:
    """Return the finding for a fast consumer and for one at a quarter of the write rate.

    Args:
        repeats: trials per cell.
        fast: records that the fast consumer never received.
        slow: records that the slow one never received, one count per trial.
    """
    cells: list[Cell] = [
        {"fault": "none", "group.slow_records_per_s": speed, "group.auto_offset_reset": reset}
        for speed, reset in ((4000, "earliest"), (500, "earliest"), (500, "latest"), (500, "none"))
        for _ in range(repeats)
    ]
    unread = [fast] * repeats + [slow[place % len(slow)] for place in range(3 * repeats)]
    rows = {
        place: [_row(18_000, 18_000 - unread[place], str(cell["group.auto_offset_reset"]))]
        for place, cell in enumerate(cells)
    }
    data = finding_input_of_trials([a_trial(cell) for cell in cells], {"groups": rows})
    specs = [
        a_spec(
            trial_id=f"{place:03d}",
            cell=cell,
            topic=TOPIC,
            workload=LOAD.model_copy(
                update={
                    "group": GroupMembers.model_validate(
                        {"slow_members": 1, "slow_records_per_s": cell["group.slow_records_per_s"]}
                    )
                }
            ),
        )
        for place, cell in enumerate(cells)
    ]
    plan = data.plan.model_copy(update={"trials": tuple(specs)})
    return find(replace(data, plan=plan))


def _row(shown: int, processed: int, reset: str) -> dict[str, Any]:
    lost = processed < shown
    return {
        "shown_records": shown,
        "processed_records": processed,
        "offset_resets": 4 if lost and reset != "none" else 0,
        "stuck_partitions": int(reset == "none"),
    }


def test_a_loss_of_slow_consumers_only_supports_the_claim(says: Says) -> None:
    """The plot has the expected loss; the sentences name the clients that return an error."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    says(finding.sentence)
    assert finding.plot is not None
    assert [row.expected for row in finding.plot.rows] == [0.0, 8500.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("seen", "conclusion"),
    [
        ({"fast": 1}, Conclusion.REFUTED),
        ({"slow": (0,)}, Conclusion.REFUTED),
        ({"slow": (8000, 0, 8000)}, Conclusion.REFUTED),
        ({"repeats": 2}, Conclusion.INCONCLUSIVE),
    ],
)
def test_other_outcomes_have_their_own_conclusion(
    seen: dict[str, Any], conclusion: Conclusion
) -> None:
    """A fast consumer that loses, slow ones that lose nothing or not always, too few trials."""
    assert _found(**seen).conclusion is conclusion
