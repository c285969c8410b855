"""The key of each record in a schedule.

`experiments.trial.clients.producer.loop.key_of` computes the same keys in compiled code; a property
test compares the two.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.process.mapped_file import Column

HOT_KEY: Final = 0


def record_keys(seq: Column, keys: Keys) -> Column:
    """Return the numeric keys of records by their sequence numbers; the schedule must have keys."""
    if keys.hot_key_share > 0:
        return _with_hot_key(seq, keys)
    if keys.pairs == "none":
        return seq % keys.count
    pair, second = record_pairs(seq, keys.pair_apart_records)
    return (pair if keys.pairs == "common" else 2 * pair + second) % keys.count


def record_pairs(seq: Column, apart_records: int) -> tuple[Column, Column]:
    """Return each record's pair and its position in the pair: 0 for the first, 1 for the second.

    A run of `apart_records` first records is followed by their second records in the same order, so
    the two records of a pair are always `apart_records` apart.
    """
    block, within = np.divmod(seq, 2 * apart_records)
    second, offset = np.divmod(within, apart_records)
    return block * apart_records + offset, second


def _with_hot_key(seq: Column, keys: Keys) -> Column:
    """Spread the hot key's share evenly over the schedule; the other keys take turns."""
    hot_before = np.floor(seq * keys.hot_key_share).astype(np.int64)
    hot_after = np.floor((seq + 1) * keys.hot_key_share).astype(np.int64)
    other = HOT_KEY + 1 + (seq - hot_before) % (keys.count - 1)
    return np.where(hot_after > hot_before, HOT_KEY, other)
