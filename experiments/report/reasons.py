"""Why records were lost, repeated, reordered or missed, in sentences: from rows of the table `attribution`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from experiments.attribution_text import Attributed, sentence
from experiments.ledger.measured import Anomaly
from experiments.report.evidence import Row
from experiments.report.wording import counted

_KINDS: Final = tuple(Anomaly)
MOST_SENTENCES: Final = 12
"""Of one trial: the largest groups come first."""


def reasons_of(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence a group of records, the largest first, and then how many more there are."""
    ordered = sorted(rows, key=lambda row: (-row["records"], _KINDS.index(row["kind"]), str(row["partition"]), str(row["first_offset"])))
    yield from (sentence(Attributed(**row)) for row in ordered[:MOST_SENTENCES])
    left = ordered[MOST_SENTENCES:]
    if left:
        yield f"{counted(sum(row['records'] for row in left), 'record')} in {counted(len(left), 'smaller group')}"
