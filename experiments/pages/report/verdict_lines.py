"""The verdicts of a sweep, line by line; `experiments.results.sentences` is its short form.

They state which guarantees were violated, what was observed where nothing is guaranteed, which
guarantees held and how strong the evidence is, and what is unknown. Each statement names its cells;
cells that form a cross product are named by it: `acks=0/1 RF=1/3`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.models import SweepResults
from ackbench.experiments.results.statements import (
    JudgedCell,
    VerdictStatement,
    verdict_statements,
)
from ackbench.experiments.results.wording import (
    POWER_NOT_SHOWN,
    is_unproven,
    share_text,
    verdict_class,
    verdict_sign,
)
from ackbench.experiments.sweep.cell_names import cell_group_names, differing_axes
from ackbench.experiments.verdicts.judge import Verdict
from ackbench.experiments.verdicts.sentences import unknown_cause


@dataclass(frozen=True)
class VerdictLine:
    """One statement on the verdicts, and its cells."""

    sign: str
    kind: str
    """The CSS class: `violated`, `seen`, `held` or `unknown`."""
    text: str
    cells: tuple[str, ...]
    """Names of cells and of cross products of cells."""


def verdict_lines(results: SweepResults) -> tuple[VerdictLine, ...]:
    """Return one line per guarantee and outcome: violated, observed, held, unknown.

    The controls that the planner added are not part of it.
    """
    axes = differing_axes([cell.cell for cell in results.cells if cell.refused is None])
    return tuple(
        VerdictLine(
            sign=verdict_sign(one.judged[0].judgement),
            kind=verdict_class(one.judged[0].judgement),
            text=_TEXTS[one.verdict](one),
            cells=cell_group_names([judged.cell.cell for judged in one.judged], axes),
        )
        for one in verdict_statements(results.cells)
    )


def _violated(statement: VerdictStatement) -> str:
    return f"Guaranteed, VIOLATED: {statement.guarantee.label}. {_extent(statement.judged)}"


def _observed(statement: VerdictStatement) -> str:
    observed = statement.guarantee.words.observed
    return f"Not guaranteed, observed: {observed}. {_extent(statement.judged)}"


def _held(statement: VerdictStatement) -> str:
    evidence = f"{_weakest_evidence(statement.judged)}{_unproven(statement.judged)}"
    return f"Guaranteed and held: {statement.guarantee.label}{evidence}."


def _unknown(statement: VerdictStatement) -> str:
    causes = dict.fromkeys(unknown_cause(one.judgement.evidence) for one in statement.judged)
    return f"Unknown: {statement.guarantee.label}; {format_list([*causes], 'or')}."


_TEXTS: Final[Mapping[Verdict, Callable[[VerdictStatement], str]]] = {
    Verdict.VIOLATED: _violated,
    Verdict.NOT_GUARANTEED: _observed,
    Verdict.HELD: _held,
    Verdict.UNKNOWN: _unknown,
}
_Judged = Sequence[JudgedCell]


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
