"""The sums that must hold before anything is written: what was counted record by record, by different ways, and what the files' own footers say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from experiments.ledger.measured import Measure, Phase
from experiments.ledger.schema import ACKED
from spark_jobs.counted import Found
from spark_jobs.ledgers import Ledger, UnfitLedger

Sums = Mapping[str, int]
"""By trial; 0 where there is no row."""


class _Pair(NamedTuple):
    """Two counts of the same, and the sentence for when they differ."""

    one: int
    other: int
    told: str


def check_sums(ledgers: Sequence[Ledger], found: Found) -> None:
    """Compare.

    Raises:
        UnfitLedger: a sum does not hold; names the first such trial.
    """
    sums = _sums(found)
    for ledger in ledgers:
        for pair in _pairs(ledger, {name: of.get(ledger.record.trial_id, 0) for name, of in sums.items()}):
            if pair.one != pair.other:
                raise UnfitLedger(f"trial {ledger.record.trial_id}: " + pair.told.format(pair.one, pair.other))


def _pairs(ledger: Ledger, sums: Sums) -> Iterator[_Pair]:
    yield _Pair(ledger.attempts_rows, sums["attempted"], "attempts.parquet has {} rows, and the fates add up to {} records")
    yield _Pair(ledger.log_rows, sums["logged"] + sums["hidden"], "log.parquet has {} rows, and copies, phantoms, corrupt and hidden ones add up to {}")
    yield _Pair(ledger.reads_rows, sums["reads"] + sums["processed"], "reads.parquet has {} rows, and the blocks of what was read add up to {}")
    yield _Pair(sums["acked"], sums["ack_latencies"], "attempts.parquet has {} acked records, of which {} tell when they settled")
    yield _Pair(sums["acked"], sums["acked_in_timeline"], "attempts.parquet has {} acked records, and the timeline adds up to {}")
    yield _Pair(sums["reads"], sums["read_in_timeline"], "reads.parquet has {} rows of the reader along, and the timeline adds up to {}")
    yield _Pair(sums["read"], sums["end_to_end_latencies"], "reads.parquet has {} records, of which {} tell when they were intended")


def _sums(found: Found) -> Mapping[str, Sums]:
    """Count everything once more, by trial."""
    attempted = found.fates.filter(pc.field("outcome").is_valid())
    everything = found.histogram.filter(pc.field("phase") == Phase.ALL.value)
    return {
        "attempted": _by_trial(attempted, "records"),
        "acked": _by_trial(attempted.filter(pc.field("outcome") == ACKED), "records"),
        "logged": _by_trial(found.fates, "copies"),
        "hidden": _by_trial(found.hidden, "hidden_copies"),
        "reads": _by_trial(found.reading, "reads"),
        "processed": _by_trial(found.group, "reads"),
        "read": _by_trial(found.reading, "read_records"),
        "ack_latencies": _by_trial(everything.filter(pc.field("measure") == Measure.ACK.value), "records"),
        "end_to_end_latencies": _by_trial(everything.filter(pc.field("measure") == Measure.END_TO_END.value), "records"),
        "acked_in_timeline": _by_trial(found.timeline, "acked_records"),
        "read_in_timeline": _by_trial(found.timeline, "read_records"),
    }


def _by_trial(table: pa.Table, column: str) -> Sums:
    summed = table.group_by("trial_id").aggregate([(column, "sum")])
    return Counter(dict(zip(summed["trial_id"].to_pylist(), summed[f"{column}_sum"].to_pylist(), strict=True)))
