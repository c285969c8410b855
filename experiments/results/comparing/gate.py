"""The gate of `--fail-on`: which results fail a build, one expression per condition."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Role, Status
from ackbench.experiments.messages.errors import NotComparable
from ackbench.experiments.results.cells import judged_trials
from ackbench.experiments.results.comparing.comparison import ComparedCell, Comparison
from ackbench.experiments.results.comparing.differences import Difference, exceeds_with
from ackbench.experiments.results.comparing.findings import (
    UNKNOWN,
    VIOLATED,
    CellsCompared,
    ClientsHung,
    ComparedMeasure,
    ConditionMet,
    ConditionUnknown,
    ControlNotJudged,
    ControlsFailed,
    ExpectationsCounted,
    GateFailure,
    Inspected,
    LimitExceeded,
    LimitTested,
    LimitUndecided,
    NoResult,
    NotAsExpected,
    NothingJudged,
    NoTrialCounts,
    TooFewCells,
    TrialsMissing,
    Untrusted,
    VerdictsCounted,
    WithoutGuarantee,
)
from ackbench.experiments.results.comparing.sentences import undecided_reason
from ackbench.experiments.results.models import CellResult, SweepResults
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.judge import Judgement, Verdict
from ackbench.infra.errors import InputError

_WORSE: Final = re.compile(r"worse:(?P<measure>[a-z0-9_]+)>(?P<percent>\d+(\.\d+)?)%")
_MAX_POINTS: Final = 95
"""The largest bound of a difference of shares; more points need hundreds of trials per cell."""
_VERDICTS: Final = (VIOLATED, UNKNOWN)
_ALIKE: Final = 0.5
"""Least likeness of a verdict and a typo of it, or its first letters."""
_LIMITS: Final = f"worse:MEASURE>N% with one of {', '.join(ComparedMeasure)}"


@dataclass(frozen=True)
class WorseBy:
    """A limit on how much worse sweep `b` may be than sweep `a`."""

    measure: ComparedMeasure
    bound: float
    """As a fraction of 1: the difference of two shares; of numbers, relative to `a`."""

    def __str__(self) -> str:
        """Return the expression of `--fail-on`."""
        return f"worse:{self.measure}>{100 * self.bound:g}%"

    def is_exceeded(self, difference: Difference) -> bool:
        """Whether the whole interval of a difference of this measure is beyond the bound."""
        worse_by = difference.worse_by()
        return worse_by is not None and worse_by > self.bound


@dataclass(frozen=True)
class Gate:
    """The conditions that fail a build."""

    violated: bool = False
    unknown: bool = False
    """Whether unknown verdicts and undecidable limits fail too."""
    worse: tuple[WorseBy, ...] = ()
    min_cells: int = 0
    """How many cells have to be compared at least."""

    @classmethod
    def parse(
        cls, expressions: Sequence[str], *, two_sweeps: bool = False, min_cells: int = 0
    ) -> Gate:
        """Return the gate of these `--fail-on` expressions.

        Args:
            expressions: the conditions, each of which fails a build.
            two_sweeps: whether two sides are compared.
            min_cells: how many cells have to be compared at least.

        Raises:
            InputError: an expression is invalid, or needs two sweeps and there is one.
        """
        worse = tuple(
            _parse_limit(text, two_sweeps=two_sweeps)
            for text in expressions
            if text not in {VIOLATED, UNKNOWN}
        )
        return cls(VIOLATED in expressions, UNKNOWN in expressions, worse, min_cells)

    def comparison_failures(
        self, comparisons: Sequence[Comparison], sweeps: Sequence[SweepResults]
    ) -> list[GateFailure]:
        """Return the reasons why comparisons fail; empty if they pass.

        Args:
            comparisons: the comparisons; several of one sweep by an axis.
            sweeps: the sweeps whose verdicts count.

        Raises:
            NotComparable: no cell has enough trials for one of the limits, and nothing else fails.
        """
        reasons = [reason for results in sweeps for reason in self._verdict_failures(results)]
        compared = len(_compared_cells(comparisons))
        if compared < self.min_cells:
            reasons.append(TooFewCells(compared, self.min_cells))
        reasons += [
            reason
            for limit in self.worse
            for comparison in comparisons
            for reason in self._limit_failures(limit, comparison)
        ]
        if not reasons:
            self._require_enough_trials(comparisons)
        return reasons

    def sweep_summary(self, results: SweepResults) -> Iterator[Inspected]:
        """Yield what the gate looked at in one sweep, and what was observed without a guarantee."""
        cells = [cell for cell in results.cells if cell.judgements]
        verdicts = Counter(one.verdict for cell in cells for one in cell.judgements)
        yield VerdictsCounted(len(cells), verdicts)
        for guarantee in GUARANTEES:
            where = [
                (cell, judgement)
                for cell, judgement in _own_judgements(results, guarantee)
                if judgement.verdict is Verdict.NOT_GUARANTEED
                and (judgement.violation_seen or judgement.set_aside)
            ]
            if where:
                records = sum(judgement.records_total for _, judgement in where)
                shown_by = {trial for _, judgement in where for trial in judgement.trials}
                duplicates = sum(
                    trial.duplicates or 0
                    for trial in results.trials
                    if trial.trial_id in shown_by and guarantee.amount == "duplicates"
                )
                yield WithoutGuarantee(guarantee, records, len(where), duplicates)
        if results.expectations:
            expected = len(results.expectations)
            yield ExpectationsCounted(expected - len(results.not_expected), expected)

    def comparison_summary(self, comparisons: Sequence[Comparison]) -> Iterator[Inspected]:
        """Yield what the gate compared, and in how many cells each limit could be exceeded."""
        cells = _compared_cells(comparisons)
        yield CellsCompared(
            len(cells),
            sum(len(one.only_a) for one in comparisons),
            sum(len(one.only_b) for one in comparisons),
        )
        for limit in self.worse:
            enough = sum(_can_exceed(cell, limit) for cell in cells)
            yield LimitTested(str(limit), enough, len(cells))

    def _require_enough_trials(self, comparisons: Sequence[Comparison]) -> None:
        cells = _compared_cells(comparisons)
        for limit in self.worse:
            if not any(_can_exceed(cell, limit) for cell in cells):
                reason = _why_undecidable(
                    [cell.difference_in(limit.measure) for cell in cells], limit
                )
                raise NotComparable(f"--fail-on {limit}: no cell can decide it: {reason}")

    def sweep_failures(self, results: SweepResults) -> Iterator[GateFailure]:
        """Yield the reasons why a sweep fails; none if it passes."""
        if self.is_open_for(results):
            return
        yield from self._verdict_failures(results)
        for one in results.not_expected:
            yield NotAsExpected(results.sweep_id, one)

    def is_open_for(self, results: SweepResults) -> bool:
        """Return whether any results of the sweep's experiment would pass."""
        return self == NO_GATE and not results.expectations

    def _verdict_failures(self, results: SweepResults) -> Iterator[GateFailure]:
        yield from _untrusted(results)
        for trial in results.trials:
            if trial.hung_clients:
                yield ClientsHung(results.sweep_id, trial.trial_id, trial.hung_clients)
        for cell in results.cells:
            for judgement in cell.judgements:
                if judgement.verdict is Verdict.VIOLATED and self.violated:
                    yield ConditionMet(VIOLATED, results.sweep_id, cell, judgement)
                if judgement.verdict is Verdict.UNKNOWN and self.unknown:
                    yield ConditionUnknown(UNKNOWN, results.sweep_id, cell, judgement)
        if not any(cell.judgements for cell in results.cells):
            yield NothingJudged(results.sweep_id)

    def _limit_failures(self, limit: WorseBy, comparison: Comparison) -> Iterator[GateFailure]:
        for cell in comparison.cells:
            difference = cell.difference_in(limit.measure)
            worse_by = difference.worse_by()
            if worse_by is None and self.unknown:
                yield LimitUndecided(limit.measure, cell.b_label, difference.missing)
            elif worse_by is not None and limit.is_exceeded(difference):
                measured = difference.relative or 0.0
                yield LimitExceeded(
                    limit.measure,
                    cell.b_label,
                    comparison.a,
                    comparison.b,
                    measured if limit.measure.is_share else abs(measured - 1),
                    worse_by,
                    limit.bound,
                )


NO_GATE: Final = Gate()
"""Passes all results."""


def _own_judgements(
    results: SweepResults, guarantee: Guarantee
) -> Iterator[tuple[CellResult, Judgement]]:
    """Yield the judgements on a guarantee in the experiment's own cells, without controls."""
    for cell in results.cells:
        for judgement in () if cell.added else cell.judgements:
            if judgement.guarantee is guarantee:
                yield cell, judgement


def _untrusted(results: SweepResults) -> Iterator[Untrusted]:
    """Yield why a sweep proves nothing: controls failed or not judged, and missing trials."""
    if results.harness.failed:
        yield ControlsFailed(sweep=results.sweep_id, controls=results.harness.sentences)
    for cell in results.cells:
        if cell.role is not Role.CELL and not judged_trials(results, cell):
            yield ControlNotJudged(results.sweep_id, cell.role, cell.label)
    failed = tuple(trial.trial_id for trial in results.trials if trial.status is Status.FAILED)
    for trial_ids, why in (
        (results.pending, NoResult.NOT_RUN),
        (results.unmeasured, NoResult.NOT_MEASURED),
        (failed, NoResult.FAILED),
    ):
        if trial_ids:
            yield TrialsMissing(results.sweep_id, why, trial_ids)
    for cell in results.cells:
        if cell.judgements and not cell.sealed_trials:
            yield NoTrialCounts(results.sweep_id, cell.label)


def _compared_cells(comparisons: Sequence[Comparison]) -> list[ComparedCell]:
    """Return the experiment's own cells that were compared, without added controls."""
    return [cell for one in comparisons for cell in one.cells if not cell.added]


def _can_exceed(cell: ComparedCell, limit: WorseBy) -> bool:
    return cell.difference_in(limit.measure).can_exceed(limit.bound)


def _why_undecidable(differences: Sequence[Difference], limit: WorseBy) -> str:
    if not limit.measure.is_share:
        return undecided_reason([one for difference in differences for one in difference.missing])
    needed = next(trials for trials in count(1) if exceeds_with(trials, limit.bound))
    most = max((one.trials for one in differences), default=0)
    return f"{needed} trials per cell are needed on each side; the most are {most}"


def _parse_limit(text: str, *, two_sweeps: bool) -> WorseBy:
    match = _WORSE.fullmatch(text.replace(" ", ""))
    if not match or match["measure"] not in set(ComparedMeasure):
        problem = f"invalid value for --fail-on: {text!r}"
        for nearest in get_close_matches(text, _VERDICTS, 1, cutoff=_ALIKE):
            raise InputError(f"{problem}; did you mean {nearest}?")
        allowed = ", ".join((*_VERDICTS, *([_LIMITS] if two_sweeps else [])))
        raise InputError(f"{problem} (allowed: {allowed}; for any bound: run --expect lost=0)")
    if not two_sweeps:
        raise InputError(
            f"--fail-on {text} needs two sweeps; use: ackbench compare A B --fail-on '{text}'"
        )
    limit = WorseBy(ComparedMeasure(match["measure"]), float(match["percent"]) / 100)
    if limit.measure.is_share and limit.bound > _MAX_POINTS / 100:
        raise InputError(
            f"--fail-on {text}: {limit.measure} is a share, whose difference is counted in points "
            f"(allowed: 0 to {_MAX_POINTS}%)"
        )
    return limit
