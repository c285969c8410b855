"""The stalls of a trial's processes, in words: what kept which of them from running, and when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ackbench.experiments.ledger.stalls import HARNESS, Stall, StallCause
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.experiments.messages.phrases import plural
from ackbench.experiments.results.rows import Row

_TEXTS: Final = {
    StallCause.STOPPED: "{process} was stopped",
    StallCause.WAITED_FOR_CPU: "{process} waited for a CPU",
    StallCause.MAJOR_FAULTS: "{process} waited for its memory ({amount:,} major page faults)",
    StallCause.STEAL: "the machine's CPUs were given to other virtual machines (steal)",
    StallCause.SWAP: "the machine swapped in {amount:,} pages",
    StallCause.FROZEN: "the machine was frozen",
    StallCause.LATE: "{process} did not run",
}
MAX_SENTENCES: Final = 3
"""How many stalls of a trial are named where many trials are listed: the longest."""


def stall_sentences(phases: Phases, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return what was stalled under load, and when; the longest first.

    Args:
        phases: the trial's.
        rows: its rows of `experiments.ledger.result_tables.STALLS`.
    """
    stalls = stalls_under_load(phases, rows)
    return tuple(
        stall_sentence(stall, phases.load_begin_ns)
        for stall in sorted(stalls, key=lambda stall: stall.began_ns - stall.ended_ns)
    )


def stalls_under_load(phases: Phases, rows: Sequence[Row]) -> tuple[Stall, ...]:
    """Return the stalls from the begin of the load until the cluster was healthy, by time.

    Those of the trial's own process are left out: none of its clients was stalled.

    Args:
        phases: the trial's.
        rows: its rows of `experiments.ledger.result_tables.STALLS`.
    """
    stalls = [
        Stall(**{name: row[name] for name in Stall.model_fields})
        for row in rows
        if row["process"] != HARNESS
    ]
    return tuple(
        stall
        for stall in stalls
        if stall.ended_ns > phases.load_begin_ns and stall.began_ns < phases.healthy_ns
    )


def stall_sentence(stall: Stall, load_begin_ns: int) -> str:
    """Return what a stall was, and when: `producer 0 was stopped for 1.20 s, 4.3 s after ...`."""
    text = _TEXTS[stall.cause].format(process=stall.process, amount=stall.amount or 0)
    lasted_s = (stall.ended_ns - stall.began_ns) / 1e9
    began_s = (stall.began_ns - load_begin_ns) / 1e9
    when = "after" if began_s >= 0 else "before"
    return f"{text} for {lasted_s:.2f} s, {abs(began_s):.1f} s {when} the load began"


def shorten_stalls(sentences: Sequence[str]) -> str:
    """Return the first sentences as one text, and how many more there are."""
    more = len(sentences) - MAX_SENTENCES
    shown = "; ".join(sentences[:MAX_SENTENCES])
    return f"{shown}; and {more} more {plural(more, 'stall')}" if more > 0 else shown
