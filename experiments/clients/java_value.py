"""The values that Kafka's own VerifiableProducer writes: the text `<prefix>.<n>`, n from 0 in its order. Pure.

The prefix is a Java int, so it carries a part of the trial's token and the producer's number: `tag * 64 + producer`. There is no checksum
of ours in such a value. Kafka's own, of each batch, is checked by the client that reads (`check.crcs`); what is told from the value is its form.

The first records are the run-in: the program cannot warm up otherwise than by sending. They are no part of the trial, and seq counts from behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRODUCERS: Final = 64
"""How many producers a prefix tells apart."""
RUN_IN_S: Final = 2.0
"""A JVM that has just started falls behind for a second or two on a machine that also runs the brokers (`docs/performance.md`)."""
_TAG_BITS: Final = 25
"""With the producer's 6 bits a prefix is a positive Java int."""


def tag_of(token: int) -> int:
    """Return the part of a trial's token that its prefixes carry; never 0."""
    return token % ((1 << _TAG_BITS) - 1) + 1


def prefix_of(token: int, producer: int) -> int:
    """Return what `--value-prefix` is given."""
    return tag_of(token) * PRODUCERS + producer


@dataclass(frozen=True)
class TextValues:
    """What the values of a trial look like."""

    tag: int
    run_in_records: int
    """Of each producer, before its schedule begins."""


def run_in_records(rate_records_per_s: float) -> int:
    """Return how many records a producer of that rate runs in with."""
    return round(rate_records_per_s * RUN_IN_S)


def most_bytes(records: int, rate_records_per_s: float) -> int:
    """Return how long a value can be, of a producer of so many records."""
    return len(str(2**31 - 1)) + 1 + len(str(records + run_in_records(rate_records_per_s)))
