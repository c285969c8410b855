"""The words that a reader of the page needs; `docs/glossary.md` has all of them."""

from __future__ import annotations

from typing import Final

GLOSSARY: Final[tuple[tuple[str, str], ...]] = (
    ("cell, trial", "A cell is one combination of settings and fault; a trial is one seeded run of it. Intervals count trials, never records."),
    ("acked", "The client reported success. With acks=0 that means only that the record was handed to the socket."),
    ("lost", "Acknowledged, and not in the log when it was read to its end. An interval where unknown outcomes leave one."),
    ("duplicates", "Further copies of a record in the log, beyond its first."),
    ("unknown", "The client cannot tell whether the record was written: a timeout, or a connection that died under the request."),
    ("refused yet there", "The client reported that the record was not written, and it is in the log all the same."),
    ("reordered", "Its first copy lies behind a record that the same producer sent later to the same partition."),
    ("missed, read again", "In the log, and passed over by the reader; or received by it more than once."),
    ("held", "Promised by Kafka's documentation for these settings, and not seen broken; the interval says how much that excludes."),
    ("violated", "Promised, and seen broken in at least one trial."),
    ("not promised", "These settings do not promise it; whether it was seen is told beside it."),
    ("unknown verdict", "The trials cannot tell; the reasons say why."),
    ("void", "The fault was not seen to bite. Such a trial is counted, shown, and judged in nothing."),
    ("late", "The generator itself fell behind its schedule. Such a trial is judged, and marked."),
    ("control, positive control", "A cell without fault, where nothing may be lost; and one that must lose, or the harness is blind."),
    ("latency", "Counted from the time at which the schedule wanted the record sent, so that an outage cannot hide."),
    ("interval", "It holds the true share in 95 % of all sweeps (Clopper and Pearson's exact interval)."),
)
