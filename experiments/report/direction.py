"""What a difference is of, whether one was shown at all, and which way. Pure."""

from __future__ import annotations

from typing import Final

from experiments.comparing.differences import Difference, Measured
from experiments.statistics import Interval

NAMES: Final = {
    Measured.LOSS: "trials with loss",
    Measured.DUPLICATES: "trials with duplicates",
    Measured.LATENCY_P99: "ack p99",
    Measured.OUTAGE: "longest gap",
    Measured.THROUGHPUT: "acked in time",
}
SIGNS: Final = {"worse": "\N{BLACK UP-POINTING TRIANGLE}", "better": "\N{BLACK DOWN-POINTING TRIANGLE}", "same": "", "unknown": "?"}


def kind_of(difference: Difference) -> str:
    """Say whether the whole interval lies on one side: `worse`, `better`, else `same`; without an interval, `unknown`."""
    interval, nothing = interval_of(difference)
    if interval is None:
        return "unknown"
    if interval.low <= nothing <= interval.high:
        return "same"
    return "worse" if (interval.low > nothing) == difference.measure.more_is_worse else "better"


def interval_of(difference: Difference) -> tuple[Interval | None, float]:
    """Return the interval, and the value that means no difference."""
    return (difference.difference_interval, 0.0) if difference.measure.is_share else (difference.ratio_interval, 1.0)
