"""The times in which a program had no record acknowledged.

Each library logs in its own words, so that whether a request timed out is unknown of a program. A
silence that is longer than the request timeout shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.journal import Event

SILENT: Final = "silent"
_SHORTEST_NS: Final = 500_000_000
_LENGTH: Final = re.compile(r"no record acknowledged for (\d+\.\d{3}) s")


def silence_events(acked_ns: Iterable[int], client: str) -> Iterator[Event]:
    """Yield an event at the end of each silence of half a second or more.

    Args:
        acked_ns: when records were reported as acknowledged, in any order.
        client: the client's name, with which each detail begins: `producer 0`.
    """
    for begin_ns, end_ns in pairwise(sorted(acked_ns)):
        if (length_ns := end_ns - begin_ns) >= _SHORTEST_NS:
            detail = f"{client}: no record acknowledged for {length_ns / 1e9:.3f} s"
            yield Event(end_ns, SILENT, Source.CLIENT, detail=detail)


def silence_s(event: Event) -> float:
    """Return how long a silence was, seconds; 0: the event is none."""
    length = _LENGTH.search(event.detail) if event.kind == SILENT else None
    return float(length[1]) if length else 0.0
