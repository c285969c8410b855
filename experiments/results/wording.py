"""Verdicts as a terminal shows them: a sign for each promise, and below the table a line for what was violated and what is not known. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.ledger.record import Role
from experiments.results.models import CellResult, SweepResults
from experiments.results.trials import LATE_MS
from experiments.verdicts.contract import CONDITIONAL_GUARANTEES, Guarantee
from experiments.verdicts.judge import Judgement, Verdict
from experiments.verdicts.statistics import (
    Estimate,
    Share,
    describe_share,
    one_sided_bound,
    trials_needed,
)

HEADS: Final = {
    Guarantee.NO_ACKED_LOSS: "loss",
    Guarantee.NO_DUPLICATES: "dup",
    Guarantee.ORDER: "ord",
    Guarantee.ATOMICITY: "atom",
    Guarantee.AVAILABILITY: "up",
    Guarantee.NO_MISSED_RECORDS: "miss",
    Guarantee.NO_REPROCESSING: "again",
}
"""A column each; short, because they stand beside the figures."""
RARE: Final = 0.1
"""What happens in one trial of ten: a sweep with fewer trials than show that is told how many would."""

HELD, VIOLATED, UNKNOWN, SEEN, UNSEEN, UNTOLD, NONE = "✓", "✗", "?", "!", "·", "-", ""
LEGEND: Final = (
    f"promised: {HELD} held  {VIOLATED} VIOLATED  {UNKNOWN} not known    not promised: {SEEN} broken  {UNSEEN} not seen  {UNTOLD} nobody can tell\n"
    "loss: none of the acknowledged  dup: no record twice  ord: in the order sent  up: before the heal"
)
LEGEND_OF_TRANSACTIONS: Final = "atom: transactions whole or not at all, and only those that were committed; acknowledged is what was committed"

LEGEND_OF_GROUPS: Final = (
    "miss: the group processed all that it committed past  again: and nothing more than once"
)


@dataclass(frozen=True)
class VerdictLine:
    """A line below the table."""

    text: str
    violated: bool = False


def heads(cells: Sequence[CellResult]) -> dict[Guarantee, str]:
    """Return the columns that some cell has something to say in."""
    judged = {judgement.guarantee for cell in cells for judgement in cell.judgements}
    return {
        guarantee: head
        for guarantee, head in HEADS.items()
        if guarantee not in CONDITIONAL_GUARANTEES or guarantee in judged
    }


def mark(cell: CellResult, guarantee: Guarantee) -> str:
    """Return the sign of what became of a promise; nothing where the cell has no verdict on it."""
    found = next(
        (judgement for judgement in cell.judgements if judgement.guarantee is guarantee), None
    )
    return NONE if found is None else _sign(found)


def _sign(judgement: Judgement) -> str:
    if judgement.verdict is Verdict.NOT_GUARANTEED:
        return {True: SEEN, False: UNSEEN, None: UNTOLD}[judgement.seen]
    return {Verdict.HELD: HELD, Verdict.VIOLATED: VIOLATED, Verdict.UNKNOWN: UNKNOWN}[
        judgement.verdict
    ]


def short(share: Share | None, unknown: str) -> str:
    """Return a share for a narrow column: `3 of 5 (15-95 %)`, `0 of 5 (<46 %)`, bounds in whole percent and rounded outwards."""
    if share is None:
        return unknown
    limit = one_sided_bound(share)
    if limit is None:
        told = f"{math.floor(share.interval.low * 100)}-{math.ceil(share.interval.high * 100)}"
    else:
        told = f"<{math.ceil(limit * 100)}" if share.seen == 0 else f">{math.floor(limit * 100)}"
    return f"{share.seen} of {share.of} ({told} %)"


def lines(results: SweepResults) -> Iterator[VerdictLine]:
    """Yield what a reader must know besides the table: violations first, then what is not known, the controls, the generators, the power."""
    yield from violations(results)
    yield from _unknown(results.cells)
    yield from (
        VerdictLine(sentence, violated=results.harness.failed)
        for sentence in results.harness.sentences
    )
    yield from _late(results)
    yield from _power(results.cells)


def violations(results: SweepResults) -> Iterator[VerdictLine]:
    """Yield a line for each promise that was broken, with the trials and the records."""
    yield from (
        VerdictLine(_violation(cell, judgement), violated=True)
        for cell, judgement in _with(results.cells, Verdict.VIOLATED)
    )


def _with(cells: Sequence[CellResult], verdict: Verdict) -> Iterator[tuple[CellResult, Judgement]]:
    yield from (
        (cell, judgement)
        for cell in cells
        for judgement in cell.judgements
        if judgement.verdict is verdict
    )


def _violation(cell: CellResult, judgement: Judgement) -> str:
    """`VIOLATED no-acked-loss: <cell>: in 2 of 5 trials (007-a1b2c3, 012-d4e5f6), 1,204 records: 0/4711, 0/4712, ...` (producer/number)."""
    share = judgement.share
    where = (
        f"in {share.seen} of {share.of} trials ({', '.join(judgement.trials)})"
        if share
        else ", ".join(judgement.trials)
    )
    named = ", ".join(
        f"{record.producer}/{record.seq} of {record.trial_id}" for record in judgement.records
    )
    more = ", ..." if judgement.records_total > len(judgement.records) else ""
    records = f", {judgement.records_total:,} records" if judgement.records_total else ""
    return f"VIOLATED {judgement.guarantee}: {cell.label}: {where}{records}{f': {named}{more}' if named else ''}"


def _unknown(cells: Sequence[CellResult]) -> Iterator[VerdictLine]:
    """Yield a line for each promise and reason, with the cells that it holds for."""
    of_reason: dict[tuple[Guarantee, str], list[str]] = {}
    for cell, judgement in _with(cells, Verdict.UNKNOWN):
        of_reason.setdefault((judgement.guarantee, "; ".join(judgement.reasons[1:])), []).append(
            cell.label
        )
    for (guarantee, reason), labels in of_reason.items():
        whose = labels[0] if len(labels) == 1 else f"{len(labels)} cells ({'; '.join(labels)})"
        yield VerdictLine(f"not known, {guarantee}: {whose}: {reason}")


def _late(results: SweepResults) -> Iterator[VerdictLine]:
    late = [trial for trial in results.trials if trial.generator_late]
    if late:
        told = ", ".join(f"{trial.trial_id} ({trial.lateness_p99_ms:,.0f} ms)" for trial in late)
        yield VerdictLine(
            f"late generator: {told}: the producer itself fell behind its schedule by more than {LATE_MS:g} ms at p99; judged all the same"
        )


def _power(cells: Sequence[CellResult]) -> Iterator[VerdictLine]:
    """Say how many trials would tell, where some cell in which nothing was lost had fewer."""
    unseen = [
        cell.loss.of for cell in cells if cell.loss and cell.loss.seen == 0 and not cell.added
    ]
    needed = trials_needed(RARE)
    if unseen and min(unseen) < needed:
        seen = f"{min(unseen)} {'trial' if min(unseen) == 1 else 'trials'} of a cell"
        yield VerdictLine(
            f"power: {seen} may all miss a loss that happens in 1 of {1 / RARE:g}; {needed} show it with 95 % certainty"
            f' (--repeats {needed}), and --until "ci<{RARE:g}" goes on until each share is known that well'
        )


# ---------- Figures and names as a person reads them. Pure; what is not known is said to be so.


NOT_KNOWN: Final = "not known"
GUARANTEES: Final = {
    Guarantee.NO_ACKED_LOSS: "no acked loss",
    Guarantee.NO_DUPLICATES: "no duplicates",
    Guarantee.ORDER: "order",
    Guarantee.ATOMICITY: "all or nothing",
    Guarantee.AVAILABILITY: "availability",
    Guarantee.NO_MISSED_RECORDS: "none missed",
    Guarantee.NO_REPROCESSING: "none processed twice",
}
WHAT_WAS_SEEN: Final = {
    Guarantee.NO_ACKED_LOSS: "acknowledged records were lost",
    Guarantee.NO_DUPLICATES: "records arrived twice",
    Guarantee.ORDER: "records changed their order",
    Guarantee.ATOMICITY: "transactions were shown in part, or though they were not committed",
    Guarantee.AVAILABILITY: "the partition stayed away until the fault was healed",
    Guarantee.NO_MISSED_RECORDS: "records were committed and processed by nobody",
    Guarantee.NO_REPROCESSING: "records were processed more than once",
}
"""What was seen where the promise's contrary was."""
ROLES: Final = {Role.CELL: "", Role.CONTROL: "control", Role.POSITIVE_CONTROL: "positive control"}
_FEW: Final = 100


def count(value: int | None) -> str:
    """Return a count, its thousands apart."""
    return NOT_KNOWN if value is None else f"{value:,}"


def bounds(lost: tuple[int, int] | None) -> str:
    """Return what was lost, as an interval where unknown outcomes leave one."""
    if lost is None:
        return NOT_KNOWN
    low, high = lost
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def milliseconds(value: float | None) -> str:
    """Return a duration with three digits at least."""
    if value is None:
        return NOT_KNOWN
    return f"{_digits(value)} ms"


def _digits(value: float) -> str:
    return f"{value:,.1f}" if abs(value) < _FEW else f"{value:,.0f}"


def share_words(share: Share | None) -> str:
    """Return in how many trials something was seen, with the bounds of its probability."""
    if share is None:
        return NOT_KNOWN
    return describe_share(share)


def share_brief(share: Share | None) -> str:
    """Return in how many trials something was seen."""
    return NOT_KNOWN if share is None else f"{share.seen} of {share.of}"


def estimate_words(estimate: Estimate | None) -> str:
    """Return a median with its interval, milliseconds."""
    if estimate is None:
        return NOT_KNOWN
    told = (
        ""
        if estimate.interval is None
        else f" ({_digits(estimate.interval.low)} to {_digits(estimate.interval.high)})"
    )
    return milliseconds(estimate.median) + told


def verdict_sign(judgement: Judgement) -> str:
    """Return a sign that stands without its colour."""
    if judgement.verdict is Verdict.NOT_GUARANTEED:
        return {True: "!", False: "\N{EN DASH}", None: "?"}[judgement.seen]
    return {
        Verdict.HELD: "\N{CHECK MARK}",
        Verdict.VIOLATED: "\N{MULTIPLICATION X}",
        Verdict.UNKNOWN: "?",
    }[judgement.verdict]


def verdict_words(judgement: Judgement) -> str:
    """Return the verdict; of what was not promised, whether it was seen."""
    if judgement.verdict is Verdict.NOT_GUARANTEED:
        return (
            "not promised, " + {True: "seen", False: "not seen", None: "not known"}[judgement.seen]
        )
    return judgement.verdict.lower()


def verdict_class(judgement: Judgement) -> str:
    """Return the name that the style sheet knows the verdict by."""
    if judgement.verdict is Verdict.NOT_GUARANTEED:
        return "seen" if judgement.seen else "unseen"
    return judgement.verdict.lower()
