"""The verdicts of a sweep, line by line; `experiments.results.plain_answer` is its short form.

They state which guarantees were violated, what was observed where nothing is guaranteed, which
guarantees held and how strong the evidence is, and what is unknown. Each statement names its cells;
cells that form a cross product are named by it: `acks=0/1 RF=1/3`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.results.wording import (
    OBSERVED_SIGN,
    POWER_NOT_SHOWN,
    UNKNOWN_SIGN,
    VIOLATED_SIGN,
    is_unproven,
    share_text,
    verdict_sign,
)
from ackbench.experiments.sweep.cell_names import cell_group_names, differing_axes
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict


@dataclass(frozen=True)
class VerdictLine:
    """One statement on the verdicts, and its cells."""

    sign: str
    kind: str
    """The CSS class: `violated`, `seen`, `held` or `unknown`."""
    text: str
    cells: tuple[str, ...]
    """Names of cells and of cross products of cells."""


@dataclass(frozen=True)
class _CellJudgement:
    cell: CellResult
    judgement: Judgement


_Judged = Sequence[_CellJudgement]


def verdict_lines(results: SweepResults) -> tuple[VerdictLine, ...]:
    """Return one line per guarantee and outcome: violated, observed, held, unknown.

    The controls that the planner added are not part of it.
    """
    judged = [
        _CellJudgement(cell, judgement)
        for cell in results.cells
        if not cell.added
        for judgement in cell.judgements
    ]
    return tuple(_lines(judged, results.cells))


def _weakest_evidence(held: _Judged) -> str:
    """Return the share with the highest upper bound: the guarantee that is shown least surely."""
    shares = [one.judgement.share for one in held if one.judgement.share]
    if not shares:
        return ""
    return f"; weakest evidence: {share_text(max(shares, key=lambda share: share.interval.high))}"


def _unproven(held: _Judged) -> str:
    """Return for how many of the guarantees that held the sweep does not show its power."""
    unproven = sum(is_unproven(one.judgement) for one in held)
    if not unproven:
        return ""
    return f"; {POWER_NOT_SHOWN}" + (f" for {unproven} of them" if unproven < len(held) else "")


# The lines


def _lines(judged: _Judged, cells: Sequence[CellResult]) -> Iterator[VerdictLine]:
    """Yield the statements, the most severe first."""
    axes = differing_axes([cell.cell for cell in cells if cell.refused is None])

    def names(entries: _Judged) -> tuple[str, ...]:
        return cell_group_names([one.cell.cell for one in entries], axes)

    for guarantee in GUARANTEES:
        violated = _with_verdict(judged, Verdict.VIOLATED, guarantee)
        if violated:
            text = f"Guaranteed, VIOLATED: {guarantee.label}. {_extent(violated)}"
            yield VerdictLine(VIOLATED_SIGN, "violated", text, names(violated))
    for guarantee in GUARANTEES:
        observed = _observed(judged, guarantee)
        if observed:
            text = f"Not guaranteed, observed: {guarantee.words.observed}. {_extent(observed)}"
            yield VerdictLine(OBSERVED_SIGN, "seen", text, names(observed))
    for guarantee in GUARANTEES:
        held = _with_verdict(judged, Verdict.HELD, guarantee)
        if held:
            evidence = f"{_weakest_evidence(held)}{_unproven(held)}"
            text = f"Guaranteed and held: {guarantee.label}{evidence}."
            sign = verdict_sign(held[0].judgement)
            yield VerdictLine(sign, "held", text, names(held))
    for guarantee in GUARANTEES:
        unknown = _with_verdict(judged, Verdict.UNKNOWN, guarantee)
        if unknown:
            text = f"Unknown: {guarantee.label}."
            yield VerdictLine(UNKNOWN_SIGN, "unknown", text, names(unknown))


def _extent(entries: _Judged) -> str:
    """Return where it was observed, and how many records were affected.

    Trials of different cells are never counted together: of several cells it is said whether every
    trial showed it.
    """
    records = sum(one.judgement.records_total for one in entries)
    parts = [_where(entries), *([format_count(records, "record")] if records else [])]
    set_aside = sum(len(one.judgement.set_aside) for one in entries)
    if set_aside:
        parts.append(f"{format_count(set_aside, 'trial')} of them set aside")
    return f"{', '.join(parts)}."


def _where(entries: _Judged) -> str:
    shares = [one.judgement.share for one in entries]
    if len(entries) == 1:
        return f"In {shares[0].counts} trials" if shares[0] else "In no trial that counts"
    every = all(share and share.seen == share.trials for share in shares)
    extent = "in each trial" if every else "in some of their trials"
    return f"In {format_count(len(entries), 'cell')}, {extent}"


def _with_verdict(
    judged: _Judged, verdict: Verdict, guarantee: Guarantee | None = None
) -> list[_CellJudgement]:
    return [
        one
        for one in judged
        if one.judgement.verdict is verdict and guarantee in {None, one.judgement.guarantee}
    ]


def _observed(judged: _Judged, guarantee: Guarantee) -> list[_CellJudgement]:
    """Return the cells to which the guarantee is not given, and which showed the opposite."""
    return [
        one
        for one in _with_verdict(judged, Verdict.NOT_GUARANTEED, guarantee)
        if one.judgement.seen
    ]
