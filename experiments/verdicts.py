"""What became of each promise: held, violated, not made, or not known, and why. Pure."""

from __future__ import annotations

from enum import StrEnum

from experiments.contract import Promise
from experiments.ledger.record import Frozen
from experiments.statistics import Share


class Verdict(StrEnum):
    """On one promise of one cell."""

    HELD = "HELD"
    VIOLATED = "VIOLATED"
    NOT_PROMISED = "NOT PROMISED"
    UNKNOWN = "UNKNOWN"


class HarnessCheck(Frozen):
    """Whether the sweep's own controls say that its figures can be believed."""

    control_clean: bool | None = None
    """No loss, no duplicate, no phantom, no corrupt record without a fault; null: no control was measured."""
    positive_control_lost: bool | None = None
    """The cell that must lose did, in at least one trial; null: none was measured."""
    sentences: tuple[str, ...] = ()
    """What the controls showed, for a person."""


class NamedRecord(Frozen):
    """A record that broke a promise."""

    trial_id: str
    producer: int | None
    seq: int | None


class Judgement(Frozen):
    """A verdict with its reasons."""

    promise: Promise
    verdict: Verdict
    seen: bool | None
    """Whether the thing that the promise excludes was seen in any judged trial; `None`: none could be judged."""
    share: Share | None
    """Of the judged trials, in how many it was seen."""
    reasons: tuple[str, ...]
    """Sentences: what it rests on, the commitment's mechanism first."""
    trials: tuple[str, ...] = ()
    """Where it was seen."""
    records: tuple[NamedRecord, ...] = ()
    """The first of them, by trial and number; all are in `results/anomalies.parquet`."""
    records_total: int = 0
