"""What Spark makes of records' fields and of replays: two tables of `results/`, of trials that ask it. `docs/metrics.md` has every column's formula."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import pyarrow as pa

from experiments.ledger.columns import count


class Field(StrEnum):
    """A part of a record."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    OFFSET = "offset"
    """As its acknowledgement told it."""


_TRIAL: Final = pa.field("trial_id", pa.string(), nullable=False)

FIELDS: Final = pa.schema(
    [
        _TRIAL,
        pa.field("field", pa.string(), nullable=False),  # of `Field`
        count("compared_records"),  # read in the first replay, and known as they were sent
        count("differing_records"),
    ]
)

REPLAYS: Final = pa.schema(
    [
        _TRIAL,
        count("replay"),  # its number, from 1 on
        count("records"),
        count("differing_records"),  # at a place where the first replay had another record, or none
        count("absent_records"),  # that the first replay had, and that this one was to have
    ]
)
