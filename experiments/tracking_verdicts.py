"""Verdicts, shares and what the controls showed, as a sweep's summary run in MLflow holds them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

from experiments.contract import Promise
from experiments.judging.verdicts import Verdict
from experiments.results.models import CellResult, SweepResults

MOST_NAME: Final = 220
"""MLflow takes 250 characters; the longest group's name takes 26 of them."""
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_. -]")
"""MLflow takes these characters in a metric's name, and the slash, which begins a group of charts."""
_LOUDEST_FIRST: Final = (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.NOT_PROMISED, Verdict.HELD)


def verdicts_in_words(cells: Sequence[CellResult], promise: Promise) -> str:
    """Return how many of the experiment's cells have which verdict, the worst first: `VIOLATED 1, HELD 4`; nothing where none was judged."""
    found = Counter(_verdicts(cells, promise))
    return ", ".join(f"{verdict} {found[verdict]}" for verdict in _LOUDEST_FIRST if found[verdict])


def verdict_metrics(results: SweepResults) -> Iterator[tuple[str, float]]:
    """Yield the summary's metrics: verdicts counted, each cell's shares with their bounds, and what the controls showed."""
    found = Counter(verdict for promise in Promise for verdict in _verdicts(results.cells, promise))
    yield from ((f"verdict/{verdict.lower().replace(' ', '_')}", float(found[verdict])) for verdict in Verdict if found)
    for cell in results.cells:
        yield from _shares(cell)
    harness = {"control_clean": results.harness.control_clean, "positive_control_lost": results.harness.positive_control_lost}
    yield from ((f"harness/{name}", float(value)) for name, value in harness.items() if value is not None)


def _shares(cell: CellResult) -> Iterator[tuple[str, float]]:
    name = _short(_NOT_IN_A_NAME.sub("_", cell.label))
    for group, share in (("loss", cell.loss), ("duplication", cell.duplication), ("reordering", cell.reordering)):
        if share is not None and share.of:
            yield f"{group}_share/{name}", share.seen / share.of
            yield f"{group}_share_low/{name}", share.interval.low
            yield f"{group}_share_high/{name}", share.interval.high


def _short(name: str) -> str:
    """Return a cell's name as long as MLflow takes it behind the group's: what is cut off is told apart by a digest of all of it."""
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 9]} {blake2b(name.encode(), digest_size=4).hexdigest()}"


def _verdicts(cells: Sequence[CellResult], promise: Promise) -> list[Verdict]:
    return [judgement.verdict for cell in cells if not cell.added for judgement in cell.judgements if judgement.promise is promise]
