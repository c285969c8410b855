"""The answer, computed from the judgements: what was promised and broken, what was seen though not promised, what held. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.ledger.record import Cell, Scalar
from experiments.messages.phrases import format_count, format_list
from experiments.results.models import CellResult, SweepResults
from experiments.results.wording import GUARANTEE_NAMES, OBSERVED_TEXTS, share_text
from experiments.sweep.cell_names import axis_name, differing_axes, fault_name, value_text
from experiments.verdicts.contract import Guarantee
from experiments.verdicts.judge import Judgement, Verdict

# ---------- Many cells in few words: cells whose values form a product are named by it, `acks=0/1 RF=1/3`. Pure.


Box = tuple[tuple[Scalar, ...], ...]
"""The values of each axis; stands for every combination of them, all of which are among the cells that were named."""


def cell_group_names(cells: Sequence[Cell], axes: Sequence[str]) -> tuple[str, ...]:
    """Return names that together stand for exactly these cells."""
    boxes: list[Box] = [tuple((_value(cell, axis),) for axis in axes) for cell in cells]
    merged = _merged_once(boxes)
    while len(merged) < len(boxes):
        boxes, merged = merged, _merged_once(merged)
    return tuple(_name(box, axes) for box in merged)


def _value(cell: Cell, axis: str) -> Scalar:
    return fault_name(cell) if axis == "fault" else cell.get(axis)


def _merged_once(boxes: Sequence[Box]) -> list[Box]:
    """Put two boxes that differ in one axis only into one; as they are, where there are no two such."""
    for first, box in enumerate(boxes):
        for second in range(first + 1, len(boxes)):
            apart = [place for place, values in enumerate(box) if values != boxes[second][place]]
            if len(apart) == 1:
                place = apart[0]
                both = (*box[:place], (*box[place], *boxes[second][place]), *box[place + 1 :])
                return [*boxes[:first], both, *boxes[first + 1 : second], *boxes[second + 1 :]]
    return list(boxes)


def _name(box: Box, axes: Sequence[str]) -> str:
    told = [
        (axis, "/".join(map(value_text, values)))
        for axis, values in zip(axes, box, strict=True)
        if set(values) != {None}
    ]
    settings = [f"{axis_name(axis)}={text}" for axis, text in told if axis != "fault"]
    return (
        " ".join([*settings, *(text for axis, text in told if axis == "fault")]) or "the one cell"
    )


@dataclass(frozen=True)
class AnswerLine:
    """One sentence of the answer, and the cells that it is about."""

    sign: str
    kind: str
    """`violated`, `seen`, `held` or `unknown`: the style sheet's name of it."""
    text: str
    cells: tuple[str, ...]
    """Names of single cells, and of products of them."""


@dataclass(frozen=True)
class ReportAnswer:
    """The answer to a sweep's question."""

    sentence: str
    findings: tuple[AnswerLine, ...]


@dataclass(frozen=True)
class _Judged:
    cell: CellResult
    judgement: Judgement


def compute_answer(results: SweepResults) -> ReportAnswer:
    """Return the answer, of the experiment's own cells; of a sweep in which nothing was judged, that it is not known."""
    judged = [
        _Judged(cell, judgement)
        for cell in results.cells
        if not cell.added
        for judgement in cell.judgements
    ]
    findings = tuple(_findings(judged, results.cells))
    return ReportAnswer(_sentence(judged, results), findings)


def _sentence(judged: Sequence[_Judged], results: SweepResults) -> str:
    if not judged:
        return f"Not known: none of the sweep's {format_count(len(results.cells), 'cell')} has been judged."
    if results.harness.control_clean is False:
        return "Nothing can be concluded: the harness itself lost or repeated records where nothing was wrong."
    parts = [
        _of_violations(judged),
        _of_the_unpromised(judged),
        _of_the_held(judged),
        _of_the_unknown(judged),
    ]
    sentence = "; ".join(part for part in parts if part)
    return sentence[0].upper() + sentence[1:] + "."


def _of_violations(judged: Sequence[_Judged]) -> str:
    broken = _with(judged, Verdict.VIOLATED)
    if broken:
        names = ", ".join(
            dict.fromkeys(GUARANTEE_NAMES[entry.judgement.guarantee] for entry in broken)
        )
        return f"a promise was broken in {_cells(broken)} ({names})"
    return "no promise was seen broken" if _with(judged, Verdict.HELD) else ""


def _of_the_unpromised(judged: Sequence[_Judged]) -> str:
    seen = [entry for entry in _with(judged, Verdict.NOT_GUARANTEED) if entry.judgement.seen]
    parts = [
        (guarantee, [entry for entry in seen if entry.judgement.guarantee is guarantee])
        for guarantee in Guarantee
    ]
    told = [
        f"{OBSERVED_TEXTS[guarantee]} in {_cells(entries)}"
        for guarantee, entries in parts
        if entries
    ]
    return f"where nothing else was promised, {format_list(told)}" if told else ""


def _of_the_held(judged: Sequence[_Judged]) -> str:
    held = _with(judged, Verdict.HELD)
    if not held:
        return ""
    return f"{format_count(len(held), 'guarantee')} held{_weakest(held)}"


def _of_the_unknown(judged: Sequence[_Judged]) -> str:
    unknown = _with(judged, Verdict.UNKNOWN)
    return f"{format_count(len(unknown), 'verdict')} cannot be given" if unknown else ""


def _weakest(held: Sequence[_Judged]) -> str:
    """Return how little the weakest of the held promises excludes."""
    shares = [entry.judgement.share for entry in held if entry.judgement.share]
    return (
        f" (at the weakest {share_text(max(shares, key=lambda share: share.interval.high))})"
        if shares
        else ""
    )


def _findings(judged: Sequence[_Judged], among: Sequence[CellResult]) -> Iterator[AnswerLine]:
    """Yield what was seen, the worst first."""
    for guarantee in Guarantee:
        broken = [
            entry
            for entry in _with(judged, Verdict.VIOLATED)
            if entry.judgement.guarantee is guarantee
        ]
        if broken:
            yield AnswerLine(
                "\N{MULTIPLICATION X}",
                "violated",
                f"Promised and broken: {GUARANTEE_NAMES[guarantee]}. {_records(broken)}",
                _named(broken, among),
            )
    for guarantee in Guarantee:
        seen = [
            entry
            for entry in _with(judged, Verdict.NOT_GUARANTEED)
            if entry.judgement.guarantee is guarantee and entry.judgement.seen
        ]
        if seen:
            yield AnswerLine(
                "!",
                "seen",
                f"Not promised, and seen: {OBSERVED_TEXTS[guarantee]}. {_records(seen)}",
                _named(seen, among),
            )
    for guarantee in Guarantee:
        held = [
            entry for entry in _with(judged, Verdict.HELD) if entry.judgement.guarantee is guarantee
        ]
        if held:
            yield AnswerLine(
                "\N{CHECK MARK}",
                "held",
                f"Promised, and held: {GUARANTEE_NAMES[guarantee]}{_weakest(held)}.",
                _named(held, among),
            )
    for guarantee in Guarantee:
        unknown = [
            entry
            for entry in _with(judged, Verdict.UNKNOWN)
            if entry.judgement.guarantee is guarantee
        ]
        if unknown:
            yield AnswerLine(
                "?", "unknown", f"Not known: {GUARANTEE_NAMES[guarantee]}.", _named(unknown, among)
            )


def _records(entries: Sequence[_Judged]) -> str:
    """Return in how many trials, and how many records."""
    shares = [entry.judgement.share for entry in entries if entry.judgement.share]
    records = sum(entry.judgement.records_total for entry in entries)
    trials = (
        f"In {sum(share.seen for share in shares)} of {format_count(sum(share.of for share in shares), 'trial')}"
        if shares
        else "In trials"
    )
    return f"{trials}, {format_count(records, 'record')}." if records else f"{trials}."


def _with(judged: Sequence[_Judged], verdict: Verdict) -> list[_Judged]:
    return [entry for entry in judged if entry.judgement.verdict is verdict]


def _cells(entries: Sequence[_Judged]) -> str:
    return format_count(len({id(entry.cell) for entry in entries}), "cell")


def _named(entries: Sequence[_Judged], among: Sequence[CellResult]) -> tuple[str, ...]:
    axes = differing_axes([cell.cell for cell in among if cell.refused is None])
    return cell_group_names([entry.cell.cell for entry in entries], axes)
