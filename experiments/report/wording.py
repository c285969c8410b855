"""Figures and names as a person reads them. Pure; what is not known is said to be so."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from experiments.contract import Promise
from experiments.judging.verdicts import Judgement, Verdict
from experiments.ledger.record import Cell, Role
from experiments.results.axis_words import axis_word, value_word
from experiments.statistics import Estimate, Share, words

NOT_KNOWN: Final = "not known"
PROMISES: Final = {
    Promise.NO_ACKED_LOSS: "no acked loss",
    Promise.NO_DUPLICATES: "no duplicates",
    Promise.ORDER: "order",
    Promise.ATOMICITY: "all or nothing",
    Promise.AVAILABILITY: "availability",
    Promise.NONE_MISSED: "none missed",
    Promise.NONE_REPEATED: "none processed twice",
}
SEEN: Final = {
    Promise.NO_ACKED_LOSS: "acknowledged records were lost",
    Promise.NO_DUPLICATES: "records arrived twice",
    Promise.ORDER: "records changed their order",
    Promise.ATOMICITY: "transactions were shown in part, or though they were not committed",
    Promise.AVAILABILITY: "the partition stayed away until the fault was healed",
    Promise.NONE_MISSED: "records were committed and processed by nobody",
    Promise.NONE_REPEATED: "records were processed more than once",
}
"""What was seen where the promise's contrary was."""
ROLES: Final = {Role.CELL: "", Role.CONTROL: "control", Role.POSITIVE_CONTROL: "positive control"}
_FEW: Final = 100


def differing(cells: Sequence[Cell]) -> list[str]:
    """Return the axes in which cells differ, in their own order; all of them where none does."""
    axes = list(dict.fromkeys(axis for cell in cells for axis in cell))
    return [axis for axis in axes if len({str(cell.get(axis)) for cell in cells}) > 1] or axes


def cell_name(cell: Cell, axes: Iterable[str]) -> str:
    """Return a cell's values of some axes, short; the fault stands last and without its axis's name."""
    settings = [f"{axis_word(axis)}={value_word(cell[axis])}" for axis in axes if axis != "fault" and cell.get(axis) is not None]
    fault = [fault_name(cell)] if "fault" in axes else []
    return " ".join([*settings, *fault]) or "the one cell"


def fault_name(cell: Cell) -> str:
    """Return a cell's fault."""
    return "no fault" if cell.get("fault") in {None, "none"} else str(cell["fault"])


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
    return words(share)


def share_brief(share: Share | None) -> str:
    """Return in how many trials something was seen."""
    return NOT_KNOWN if share is None else f"{share.seen} of {share.of}"


def estimate_words(estimate: Estimate | None) -> str:
    """Return a median with its interval, milliseconds."""
    if estimate is None:
        return NOT_KNOWN
    told = "" if estimate.interval is None else f" ({_digits(estimate.interval.low)} to {_digits(estimate.interval.high)})"
    return milliseconds(estimate.median) + told


def verdict_sign(judgement: Judgement) -> str:
    """Return a sign that stands without its colour."""
    if judgement.verdict is Verdict.NOT_PROMISED:
        return {True: "!", False: "\N{EN DASH}", None: "?"}[judgement.seen]
    return {Verdict.HELD: "\N{CHECK MARK}", Verdict.VIOLATED: "\N{MULTIPLICATION X}", Verdict.UNKNOWN: "?"}[judgement.verdict]


def verdict_words(judgement: Judgement) -> str:
    """Return the verdict; of what was not promised, whether it was seen."""
    if judgement.verdict is Verdict.NOT_PROMISED:
        return "not promised, " + {True: "seen", False: "not seen", None: "not known"}[judgement.seen]
    return judgement.verdict.lower()


def verdict_class(judgement: Judgement) -> str:
    """Return the name that the style sheet knows the verdict by."""
    if judgement.verdict is Verdict.NOT_PROMISED:
        return "seen" if judgement.seen else "unseen"
    return judgement.verdict.lower()
