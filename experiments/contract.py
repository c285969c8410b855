"""What Kafka promises for a cell: from its settings and its fault, with the source of each promise. Pure."""

from __future__ import annotations

from enum import StrEnum

from experiments.ledger.record import Frozen


class Promise(StrEnum):
    """What a user may count on."""

    NO_ACKED_LOSS = "no-acked-loss"
    """An acknowledged record is in the log once the cluster is whole again."""
    NO_DUPLICATES = "no-duplicates"
    """A record is in the log once."""
    ORDER = "order"
    """A producer's records lie in a partition in the order in which they were sent."""
    AVAILABILITY = "availability"
    """The partition takes records again before the fault is healed."""


class Commitment(Frozen):
    """One promise, made or not made to a cell."""

    promise: Promise
    promised: bool
    because: str
    """Promised: by what. Not promised: what breaks it by design, the mechanism in words."""
    source: str
    """The address of the KIP or of the documentation's page."""
