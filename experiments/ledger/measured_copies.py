"""What Spark makes of consume-process-produce: a table of `results/`, of trials that had copiers. `docs/metrics.md` has every column's formula."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

COPIES: Final = pa.schema(
    [
        pa.field("trial_id", pa.string(), nullable=False),
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in (
                "copied_records",  # distinct ids that the output shows
                "missed_records",  # in the log, committed past, not in the output, and of which no copier was told that its copy is stored
                "output_lost_records",  # of which a copier was told so, and not in the output
                "repeated_copies",  # in the output, beyond as many as the log has of the record
                "hidden_copies",  # in the output, and not shown: of transactions that were not committed
            )
        ),
    ]
)
