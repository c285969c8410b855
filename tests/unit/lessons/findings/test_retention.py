"""Lesson 14: what a consumer lost to retention, by its speed."""

from __future__ import annotations

from typing import Any

import pytest
from support.builders.records import a_spec
from support.builders.trial_results import a_trial, material_of

from experiments.ledger.record import Cell
from experiments.lessons import Conclusion, Finding
from experiments.lessons.findings.retention import find
from experiments.sweep.plan import Workload

LOAD = Workload(
    rate_records_per_s=2000,
    record_size_bytes=1000,
    duration_s=9,
    keys=0,
    producers=1,
    consumers=1,
    slow_members=1,
)
TOPIC = {"retention.bytes": "4000000", "segment.bytes": "1000000"}


def _found(
    repeats: int = 3, *, fast: int = 0, slow: tuple[int, ...] = (8000, 8100, 8200)
) -> Finding:
    """A consumer that keeps up and one at a quarter; records that each never got."""
    cells: list[Cell] = [
        {"fault": "none", "workload.slow_records_per_s": speed, "workload.out_of_range": reset}
        for speed, reset in ((4000, "earliest"), (500, "earliest"), (500, "latest"), (500, "none"))
        for _ in range(repeats)
    ]
    unread = [fast] * repeats + [slow[place % len(slow)] for place in range(3 * repeats)]
    rows = {
        place: [_row(18_000, 18_000 - unread[place], str(cell["workload.out_of_range"]))]
        for place, cell in enumerate(cells)
    }
    material = material_of([a_trial(cell) for cell in cells], {"groups": rows})
    specs = [
        a_spec(
            trial_id=f"{place:03d}",
            cell=cell,
            topic=TOPIC,
            workload=LOAD.model_copy(
                update={"slow_records_per_s": cell["workload.slow_records_per_s"]}
            ),
        )
        for place, cell in enumerate(cells)
    ]
    return find(
        type(material)(
            material.plan.model_copy(update={"trials": tuple(specs)}),
            material.results,
            material.rows,
        )
    )


def _row(shown: int, processed: int, reset: str) -> dict[str, Any]:
    lost = processed < shown
    return {
        "shown_records": shown,
        "processed_records": processed,
        "offset_resets": 4 if lost and reset != "none" else 0,
        "stuck_partitions": int(reset == "none"),
    }


def test_a_slow_consumer_that_loses_and_a_fast_one_that_does_not_bear_it_out() -> None:
    """With what theory says beside it, and who is told."""
    finding = _found()
    assert finding.conclusion is Conclusion.SUPPORTED
    assert "A consumer that keeps up got every record in each of 3 trials." in finding.sentence
    assert (
        "One that reads at 25 % of the rate at which they are written never got 8,100 records at the median (45 %)"
        in finding.sentence
    )
    assert (
        "its client jumped forward 4 times at the median, and told the application nothing"
        in finding.sentence
    )
    assert (
        "With auto.offset.reset=none it was told so in 3 of 3 trials, and read no further."
        in finding.sentence
    )
    assert finding.plot is not None
    assert [row.expected for row in finding.plot.rows] == [0.0, 8500.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("seen", "conclusion"),
    [
        ({"fast": 1}, Conclusion.REFUTED),
        ({"slow": (0,)}, Conclusion.REFUTED),
        ({"slow": (8000, 0, 8000)}, Conclusion.PARTLY_SUPPORTED),
        ({"repeats": 2}, Conclusion.INCONCLUSIVE),
    ],
)
def test_what_else_was_seen_says_so(seen: dict[str, Any], conclusion: Conclusion) -> None:
    """A consumer that keeps up and loses, a slow one that does not, and too little to tell."""
    assert _found(**seen).conclusion is conclusion
