"""The words, signs and number formats of results, for the terminal and the HTML page.

One name per concept: both show the same signs, and the same words for a verdict. Values that were
not measured appear as "unknown" or as a sign of their own, never as zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.messages import phrases
from ackbench.experiments.messages.phrases import list_some, plural
from ackbench.experiments.results.client_versions import version_sentences
from ackbench.experiments.results.hosts import host_sentences
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.results.stalls import shorten_stalls
from ackbench.experiments.results.trials import LATE_MS
from ackbench.experiments.verdicts.evidence import UnknownCause
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict
from ackbench.experiments.verdicts.statistics import (
    INTERVAL_LEGEND,
    Estimate,
    Share,
    describe_share,
    trials_needed,
)

# Names

_MOST_TRIALS: Final = 3
"""So many trials with hung clients, or with stalled processes, have a line of their own."""
ROLE_NAMES: Final = {
    Role.CELL: "",
    Role.CONTROL: "control",
    Role.POSITIVE_CONTROL: "positive control",
}

# Verdicts

HELD_SIGN, VIOLATED_SIGN, UNKNOWN_SIGN = (
    phrases.HELD_SIGN,
    phrases.VIOLATED_SIGN,
    phrases.UNKNOWN_SIGN,
)
UNPROVEN_SIGN = f"({HELD_SIGN})"
"""Held, and no trial of the sweep shows that it would detect a violation."""
OBSERVED_SIGN = "!"
NOT_OBSERVED, NOT_MEASURABLE = "none", "-"
"""In a table, in place of a sign, if nothing is guaranteed."""
_SIGNS: Final = {
    Verdict.HELD: HELD_SIGN,
    Verdict.VIOLATED: VIOLATED_SIGN,
    Verdict.UNKNOWN: UNKNOWN_SIGN,
}
_WITHOUT_SIGN: Final = {False: NOT_OBSERVED, None: NOT_MEASURABLE}
_TEXTS: Final = {
    Verdict.HELD: "guaranteed and held",
    Verdict.VIOLATED: "VIOLATED",
    Verdict.UNKNOWN: "unknown",
}
POWER_NOT_SHOWN: Final = "power not shown"
"""What is said of a guarantee that held if `is_unproven`."""
_TEXTS_IF_NOT_GUARANTEED: Final = {
    True: "not guaranteed: observed",
    False: "not guaranteed: not observed",
    None: "not guaranteed: not measurable",
}
CANNOT_TELL: Final = "cannot tell"
"""What trials say that do not show whether the outage ended before the heal."""
_AVAILABLE: Final = {True: "no", False: "yes", None: CANNOT_TELL}
"""Whether partitions were available during the fault, by `Judgement.violation_seen`."""


def guarantee_heads(cells: Sequence[CellResult]) -> dict[Guarantee, str]:
    """Return the verdict columns; guarantees that apply to some cells only if one is judged."""
    judged = {judgement.guarantee for cell in cells for judgement in cell.judgements}
    return {
        guarantee: guarantee.words.head
        for guarantee in GUARANTEES
        if guarantee.applies is None or guarantee in judged
    }


def _legend_of_guarantees() -> str:
    """Return what the heads of guarantees that apply to all cells mean."""
    general = [guarantee for guarantee in GUARANTEES if guarantee.applies is None]
    of_time = [guarantee.words for guarantee in general if guarantee.of_time]
    heads, done = ", ".join(w.head for w in of_time), ", and ".join(w.legend for w in of_time)
    legends = [_head_legend(guarantee) for guarantee in general if not guarantee.of_time]
    legends.append(f"{heads}: {done}, during the fault (yes, no, {NOT_MEASURABLE} {CANNOT_TELL})")
    return "  ".join(legends)


def _head_legend(guarantee: Guarantee) -> str:
    return f"{guarantee.words.head}: {guarantee.words.legend}"


SIGNS: Final = (
    f"guaranteed: {HELD_SIGN} held  {UNPROVEN_SIGN} held, power not shown (no trial of this sweep "
    f"showed a violation)  {VIOLATED_SIGN} VIOLATED  {UNKNOWN_SIGN} unknown\n"
    f"not guaranteed: {OBSERVED_SIGN} observed  {NOT_OBSERVED} or no sign: not observed  "
    f"{NOT_MEASURABLE} not measurable"
)
LEGEND: Final = (
    f"{SIGNS}\n{_legend_of_guarantees()}\n{INTERVAL_LEGEND}; 1 to 3 of 5: two trials cannot tell"
)


def conditional_legends(cells: Sequence[CellResult]) -> Iterator[str]:
    """Yield the legends of guarantees that apply to some cells, if one was measured.

    Those that the same value is measured with share a line.
    """
    by_value: dict[str, list[str]] = {}
    for guarantee in GUARANTEES:
        if guarantee.measured_with:
            by_value.setdefault(guarantee.measured_with, []).append(_head_legend(guarantee))
    for value, legends in reversed(by_value.items()):
        if any(getattr(cell, value) is not None for cell in cells):
            yield "  ".join(legends)


def verdict_mark(cell: CellResult, guarantee: Guarantee) -> str:
    """Return the verdict as the terminal table shows it; empty if the cell has none.

    This is the verdict's sign; a word or a dash where nothing is guaranteed and nothing was
    observed. Under `avail` and `reads` it is whether partitions were available during the fault
    (`yes`, `no` or `-`), followed by the sign where that is guaranteed.
    """
    judgement = cell.judgement_on(guarantee)
    if judgement is None:
        return ""
    if not guarantee.of_time:
        return verdict_sign(judgement) or _WITHOUT_SIGN[judgement.violation_seen]
    available = (
        NOT_MEASURABLE if judgement.violation_seen is None else _AVAILABLE[judgement.violation_seen]
    )
    if judgement.verdict is Verdict.NOT_GUARANTEED:
        return available
    return f"{available} {verdict_sign(judgement)}"


def is_unproven(judgement: Judgement) -> bool:
    """Return whether a guarantee held, and no trial shows that a violation would be detected."""
    return judgement.verdict is Verdict.HELD and judgement.power_shown is False


def verdict_sign(judgement: Judgement) -> str:
    """Return the sign of a verdict, which is readable without its colour.

    There are four, one of them in parentheses if the power is not shown. What is not guaranteed
    has one only if it was observed.
    """
    if judgement.verdict is Verdict.NOT_GUARANTEED:
        return OBSERVED_SIGN if judgement.violation_seen else ""
    return UNPROVEN_SIGN if is_unproven(judgement) else _SIGNS[judgement.verdict]


def verdict_text(judgement: Judgement) -> str:
    """Return the words of a verdict; if not guaranteed, with what was observed."""
    if is_unproven(judgement):
        return f"{_TEXTS[judgement.verdict]}, {POWER_NOT_SHOWN}"
    if judgement.verdict is not Verdict.NOT_GUARANTEED:
        return _TEXTS[judgement.verdict]
    if judgement.guarantee.of_time:
        return f"not guaranteed; available during the fault: {_AVAILABLE[judgement.violation_seen]}"
    return _TEXTS_IF_NOT_GUARANTEED[judgement.violation_seen]


def verdict_class(judgement: Judgement) -> str:
    """Return the CSS class of a verdict."""
    if judgement.verdict is Verdict.NOT_GUARANTEED:
        return "seen" if judgement.violation_seen else "unseen"
    return judgement.verdict.lower()


OVERLOADED_SIGN: Final = "~"
"""Stands before a figure of time if the machine was overloaded in a trial of its cell."""
LEGEND_OF_OVERLOAD: Final = (
    f"{OVERLOADED_SIGN} the machine was overloaded in a trial of the cell (late load generator, "
    "load not acknowledged in time before the fault, or stalled producer): latencies and outages "
    "say nothing of its settings"
)
LEGEND_OF_GROUP_GAP: Final = (
    "records reproc.: how often the group processed a record again  group gap: the longest time in "
    "which it received nothing of a partition, median over trials"
)

# Figures

UNKNOWN_TEXT: Final = "unknown"


def count_text(value: int | None, unknown: str = UNKNOWN_TEXT) -> str:
    """Return a count with a thousands separator."""
    return unknown if value is None else f"{value:,}"


def bounds_text(lost: tuple[int, int] | None, unknown: str = UNKNOWN_TEXT) -> str:
    """Return the number of lost records; a range if records of unknown outcome are absent."""
    if lost is None:
        return unknown
    low, high = lost
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


decimal_text = phrases.decimal_text


def time_text(text: str, *, overloaded: object) -> str:
    """Return a figure of time, marked if it is of an overloaded machine."""
    return f"{OVERLOADED_SIGN}{text}" if overloaded and text != UNKNOWN_TEXT else text


def milliseconds_text(value: float | None) -> str:
    """Return a duration in milliseconds with its unit."""
    return UNKNOWN_TEXT if value is None else f"{decimal_text(value)} ms"


def estimate_text(estimate: Estimate | None) -> str:
    """Return a median with its interval, in milliseconds."""
    if estimate is None:
        return UNKNOWN_TEXT
    text = milliseconds_text(estimate.median)
    if estimate.interval is None:
        return text
    low, high = decimal_text(estimate.interval.low), decimal_text(estimate.interval.high)
    return f"{text} ({low} to {high})"


def share_text(share: Share | None) -> str:
    """Return a share of trials with its bounds."""
    return UNKNOWN_TEXT if share is None else describe_share(share)


def share_counts_text(share: Share | None) -> str:
    """Return a share of trials without its bounds: `3 of 5`, `1 to 3 of 5`."""
    return UNKNOWN_TEXT if share is None else share.counts


def short_share_text(share: Share | None, unknown: str) -> str:
    """Return a share for a narrow column: `3 of 5 (14-95 %)`, `0 of 5 (<53 %)`.

    Bounds are those of `describe_share`, as percentages without decimals, rounded outwards.
    """
    if share is None:
        return unknown
    low, high = math.floor(share.interval.low * 100), math.ceil(share.interval.high * 100)
    bounds = f"{low}-{high}"
    if share.interval.low == 0 and share.interval.high < 1:
        bounds = f"<{high}"
    elif share.interval.high == 1 and share.interval.low > 0:
        bounds = f">{low}"
    return f"{share.counts} ({bounds} %)"


# Notes below the table

RARE_PROBABILITY: Final = 0.1
"""The note on statistical power names the trials that show an event of this probability."""


@dataclass(frozen=True)
class ResultNote:
    """A line below the table."""

    text: str
    violated: bool = False
    """Whether it reports a violation or a failed control."""
    is_detail: bool = False
    """Whether the table and the answer can be understood without it."""


def result_notes(results: SweepResults) -> Iterator[ResultNote]:
    """Yield what a reader must know in addition to the table.

    In this order: violations, clients that hung, unknown verdicts, controls, late load generators,
    stalled processes, relays, differences between hosts, several versions of the client,
    statistical power.
    """
    yield from violation_notes(results)
    yield from _hung_clients(results)
    yield from _unknown_verdicts(results.cells)
    yield from (
        ResultNote(sentence, violated=results.harness.failed, is_detail=not results.harness.failed)
        for sentence in results.harness.sentences
    )
    yield from _late_generators(results)
    yield from _stalled_processes(results)
    yield from (ResultNote(line, is_detail=True) for line in relay_sentences(results))
    if results.hosts is not None:
        yield from map(ResultNote, host_sentences(results.hosts))
    if results.client_versions is not None:
        yield from map(ResultNote, version_sentences(results.client_versions))
    yield from _missing_power(results.cells)


def relay_sentences(results: SweepResults) -> Iterator[str]:
    """Yield the sentence that names the trials whose clients are behind relays, if there are any.

    Their figures are not comparable with those of clients that connect to the brokers.
    """
    if results.relayed:
        yield (
            f"relays: with {', '.join(results.relayed)}, clients connect to the brokers through "
            "ackbench's relays, which add to latency before and after the fault too"
        )


def violation_notes(results: SweepResults) -> Iterator[ResultNote]:
    """Yield a line per violated guarantee, with its trials and records."""
    yield from (
        ResultNote(_violation(cell, judgement), violated=True)
        for cell, judgement in _judgements_with(results.cells, Verdict.VIOLATED)
    )


def _judgements_with(
    cells: Sequence[CellResult], verdict: Verdict
) -> Iterator[tuple[CellResult, Judgement]]:
    yield from (
        (cell, judgement)
        for cell in cells
        for judgement in cell.judgements
        if judgement.verdict is verdict
    )


def _violation(cell: CellResult, judgement: Judgement) -> str:
    """Return the line of a violation; records are named as `<producer>/<seq> of <trial>`."""
    trials = ", ".join(judgement.trials)
    share = judgement.share
    parts = [f"in {share.counts} trials ({trials})" if share else trials]
    if judgement.records_total:
        parts.append(f"{judgement.records_total:,} records")
    text = f"VIOLATED {judgement.guarantee}: {cell.label}: {', '.join(parts)}"
    if not judgement.records:
        return text
    records = [
        f"{record.producer}/{record.seq} of {record.trial_id}" for record in judgement.records
    ]
    if judgement.records_total > len(records):
        records.append("...")
    return f"{text}: {', '.join(records)}"


def _unknown_verdicts(cells: Sequence[CellResult]) -> Iterator[ResultNote]:
    """Yield a line per reason and cells, with the guarantees that are unknown for it."""
    labels_by_reason: dict[tuple[Guarantee, str], list[str]] = {}
    for cell, judgement in _judgements_with(cells, Verdict.UNKNOWN):
        reason = unknown_reason(judgement)
        labels_by_reason.setdefault((judgement.guarantee, reason), []).append(cell.label)
    guarantees: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (guarantee, reason), labels in labels_by_reason.items():
        guarantees.setdefault((reason, tuple(labels)), []).append(str(guarantee))
    for (reason, labels_of_reason), unknown in guarantees.items():
        names = labels_of_reason[0]
        if len(labels_of_reason) > 1:
            names = f"{len(labels_of_reason)} cells ({'; '.join(labels_of_reason)})"
        yield ResultNote(f"unknown: {', '.join(unknown)}: {names}: {reason}")


def unknown_reason(judgement: Judgement) -> str:
    """Return why a verdict is unknown, or why trials cannot tell.

    The contract's mechanism is left out, unless the contract does not know whether the cell has the
    guarantee.
    """
    by_contract = judgement.unknown_cause is UnknownCause.CONTRACT
    return "; ".join(judgement.reasons if by_contract else judgement.reasons[1:])


def _late_generators(results: SweepResults) -> Iterator[ResultNote]:
    late = [trial for trial in results.trials if trial.generator_late]
    if not late:
        return
    latest_first = sorted(late, key=lambda trial: -(trial.lateness_p99_ms or 0))
    lateness = list_some(
        [
            f"{trial.trial_id} ({trial.lateness_p99_ms:,.0f} ms at p99; limit {LATE_MS:g} ms)"
            for trial in latest_first
        ]
    )
    included = "the trial is included" if len(late) == 1 else "the trials are included"
    trials = plural(len(late), "trial")
    yield ResultNote(f"warning: the load generator was late in {trials} {lateness}; {included}")


def _hung_clients(results: SweepResults) -> Iterator[ResultNote]:
    """Yield the clients that hung, of which the answer has one: a line for each of the first."""
    hung = [trial for trial in results.trials if trial.hung_clients]
    for trial in hung[:_MOST_TRIALS]:
        yield ResultNote(
            f"HUNG in trial {trial.trial_id}: {'; '.join(trial.hung_clients)}",
            violated=True,
            is_detail=True,
        )
    others = len(hung) - _MOST_TRIALS
    if others > 0:
        yield ResultNote(
            f"HUNG: so did clients in {others} other {plural(others, 'trial')}; the report says "
            "which",
            violated=True,
            is_detail=True,
        )


def _stalled_processes(results: SweepResults) -> Iterator[ResultNote]:
    """Yield what kept the processes of a trial from running, one line per trial of the first."""
    stalled = [trial for trial in results.trials if trial.stalls]
    for trial in stalled[:_MOST_TRIALS]:
        yield ResultNote(
            f"warning: processes of trial {trial.trial_id} were kept from running, neither by "
            f"Kafka nor by its fault: {shorten_stalls(trial.stalls)}; outages are without the "
            "time of its clients"
        )
    others = len(stalled) - _MOST_TRIALS
    if others > 0:
        yield ResultNote(
            f"warning: so were processes of {others} other {plural(others, 'trial')}; the report "
            "says which, for how long"
        )


def _missing_power(cells: Sequence[CellResult]) -> Iterator[ResultNote]:
    """Yield how many trials are needed, if a cell without loss had fewer."""
    trials = [
        cell.loss.of
        for cell in cells
        if cell.loss and cell.loss.seen == 0 < cell.loss.of and not cell.added
    ]
    needed = trials_needed(RARE_PROBABILITY)
    if not trials or min(trials) >= needed:
        return
    yield ResultNote(
        f"power: {min(trials)} {plural(min(trials), 'trial')} per cell may all miss a loss that "
        f"occurs in 1 of {1 / RARE_PROBABILITY:g} trials; {needed} show it with 95 % confidence "
        f'(--repeats {needed}), and --until "ci<{RARE_PROBABILITY:g}" repeats until each interval '
        "is that narrow",
        is_detail=True,
    )
