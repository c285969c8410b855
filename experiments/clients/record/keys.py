"""Which key each record of a schedule has. Pure; `producing.key_of` is the same, compiled, and a property test holds the two together."""

from __future__ import annotations

from typing import Final

import numpy as np

from experiments.clients.process.mapped_file import Column
from experiments.ledger.record import KeyOptions

HOT_KEY: Final = 0


def keys_of(seq: Column, keying: KeyOptions) -> Column:
    """Return the keys' numbers of records by their places in the schedule; only of schedules that have keys."""
    if keying.hot_key_share > 0:
        return _beside_a_hot_one(seq, keying)
    if keying.pairs == "none":
        return seq % keying.keys
    pair, second = pairs_of(seq, keying.pair_apart_records)
    return (pair if keying.pairs == "common" else 2 * pair + second) % keying.keys


def pairs_of(seq: Column, apart_records: int) -> tuple[Column, Column]:
    """Return which pair each record belongs to, and 1 where it is the second of its pair, else 0.

    So many first ones come in a row, and then their second ones in the same order: one is as far behind the other as was asked for.
    """
    within = seq % (2 * apart_records)
    return seq // (
        2 * apart_records
    ) * apart_records + within % apart_records, within // apart_records


def _beside_a_hot_one(seq: Column, keying: KeyOptions) -> Column:
    """Spread the hot key's share evenly over the schedule; the others take turns with what is left."""
    hot_before, hot_then = (
        np.floor(seq * keying.hot_key_share).astype(np.int64),
        np.floor((seq + 1) * keying.hot_key_share).astype(np.int64),
    )
    return np.where(
        hot_then > hot_before, HOT_KEY, HOT_KEY + 1 + (seq - hot_before) % (keying.keys - 1)
    )
