"""The verdicts of a sweep, line by line; `experiments.results.sentences` is its short form.

They state which guarantees were violated, what was observed where nothing is guaranteed, which
guarantees held and how strong the evidence is, and what is unknown. Each statement names its cells;
cells that form a cross product are named by it: `acks=0/1 RF=1/3`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.results.statements import JudgedCell, VerdictStatement, verdict_statements
from ackbench.experiments.results.wording import (
    POWER_NOT_SHOWN,
    is_unproven,
    share_text,
    verdict_class,
    verdict_sign,
)
from ackbench.experiments.sweep.cell_names import cell_group_names
from ackbench.experiments.verdicts.judge import Verdict
from ackbench.experiments.verdicts.sentences import UNKNOWN_CAUSES


@dataclass(frozen=True)
class VerdictLine:
    """One statement on the verdicts, and its cells."""

    sign: str
    kind: str
    """The CSS class: `violated`, `seen`, `held` or `unknown`."""
    text: str
    cells: tuple[str, ...]
    """Names of cells and of cross products of cells."""


def verdict_lines(data: ReportData) -> tuple[VerdictLine, ...]:
    """Return one line per guarantee and outcome: violated, observed, held, unknown.

    The controls that the planner added are not part of it.
    """
    return tuple(
        VerdictLine(
            sign=verdict_sign(one.judged[0].judgement),
            kind=verdict_class(one.judged[0].judgement),
            text=_text(one),
            cells=cell_group_names([judged.cell.cell for judged in one.judged], data.axes),
        )
        for one in verdict_statements(data.results.cells)
    )


_Judged = Sequence[JudgedCell]


def _text(statement: VerdictStatement) -> str:
    label, judged = statement.guarantee.label, statement.judged
    match statement.verdict:
        case Verdict.VIOLATED:
            return f"Guaranteed, VIOLATED: {label}. {_extent(judged)}"
        case Verdict.NOT_GUARANTEED:
            observed = statement.guarantee.words.observed
            return f"Not guaranteed, observed: {observed}. {_extent(judged)}"
        case Verdict.HELD:
            return f"Guaranteed and held: {label}{_weakest_evidence(judged)}{_unproven(judged)}."
        case Verdict.UNKNOWN:
            causes = dict.fromkeys(
                UNKNOWN_CAUSES[cause] for one in judged if (cause := one.judgement.unknown_cause)
            )
            return f"Unknown: {label}; {format_list([*causes], 'or')}."


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
