"""The gate: what a build, or whoever calls, takes for a failure. An expression each; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.comparing.comparison import Comparison
from experiments.comparing.differences import Difference, MeasuredValues
from experiments.results.models import SweepResults
from experiments.verdicts.judge import Judgement, Verdict
from experiments.verdicts.statistics import describe_share
from infra.errors import InputError

EXIT_CODE: Final = 3
"""Kafka did what the caller does not take; 1 is the harness, 2 the request."""
VIOLATED: Final = "violated"
UNKNOWN: Final = "unknown"
_WORSE: Final = re.compile(r"worse:(?P<measure>[a-z0-9_]+)>(?P<percent>\d+(\.\d+)?)%")
_ALLOWED: Final = f"violated, unknown, or worse:MEASURE>N% with one of {', '.join(MeasuredValues)}"


@dataclass(frozen=True)
class WorseBy:
    """Sweep `b` may not be worse than `a` by more than this."""

    measure: MeasuredValues
    bound: float
    """A part of 1: of shares, points; of numbers, relative to `a`."""


@dataclass(frozen=True)
class Gate:
    """All that a caller does not take."""

    violated: bool = False
    unknown: bool = False
    """Also where the trials cannot tell."""
    worse: tuple[WorseBy, ...] = ()

    @classmethod
    def of(cls, expressions: Sequence[str], *, two_sweeps: bool = False) -> Gate:
        """Return the gate that `--fail-on` asks for.

        Raises:
            InputError: an expression is of another form, or needs two sweeps where there is one.
        """
        worse = tuple(
            _worse(text, two_sweeps=two_sweeps)
            for text in expressions
            if text not in {VIOLATED, UNKNOWN}
        )
        return cls(VIOLATED in expressions, UNKNOWN in expressions, worse)

    def of_sweep(self, results: SweepResults) -> list[str]:
        """Return why one sweep does not pass, a line a reason; none: it does."""
        return list(self._verdicts(results))

    def of_comparison(self, comparison: Comparison, sweeps: Sequence[SweepResults]) -> list[str]:
        """Return why two sweeps do not pass, a line a reason; none: they do."""
        reasons = [reason for results in sweeps for reason in self._verdicts(results)]
        return [
            *reasons,
            *(reason for limit in self.worse for reason in self._worse(limit, comparison)),
        ]

    def _verdicts(self, results: SweepResults) -> Iterator[str]:
        yield from self._controls(results)
        for cell in results.cells:
            for judgement in cell.judgements:
                if judgement.verdict is Verdict.VIOLATED and self.violated:
                    yield f"violated: {results.sweep_id}: {judgement.guarantee} with {cell.label}: {_seen(judgement)}"
                if judgement.verdict is Verdict.UNKNOWN and self.unknown:
                    yield f"unknown: {results.sweep_id}: {judgement.guarantee} with {cell.label}: {' '.join(judgement.reasons[-1:]) or 'no reason is known'}"
        if self.unknown and not any(cell.judgements for cell in results.cells):
            yield f"unknown: {results.sweep_id}: nothing was judged"

    def _controls(self, results: SweepResults) -> Iterator[str]:
        """A sweep whose own controls failed says nothing, and what says nothing passes no gate."""
        if self != NO_GATE and results.harness.failed:
            yield f"controls: {results.sweep_id}: {' '.join(results.harness.sentences)}"

    def _worse(self, limit: WorseBy, comparison: Comparison) -> Iterator[str]:
        for cell in comparison.cells:
            difference = cell.of(limit.measure)
            by = difference.worse_by()
            if by is None and self.unknown:
                yield f"unknown: {limit.measure} with {cell.b_label}: {'; '.join(difference.reasons) or 'the trials cannot tell'}"
            elif by is not None and by > limit.bound:
                told = f"{_told(difference, by)}; allowed: {100 * limit.bound:g}"
                yield f"worse: {limit.measure} with {cell.b_label}: {comparison.b} is worse than {comparison.a} by {told}"


NO_GATE: Final = Gate()
"""Whatever Kafka did is taken."""


def _worse(text: str, *, two_sweeps: bool) -> WorseBy:
    found = _WORSE.fullmatch(text.replace(" ", ""))
    if not found or found["measure"] not in set(MeasuredValues):
        raise InputError(f"--fail-on is {text!r}; allowed: {_ALLOWED}")
    if not two_sweeps:
        raise InputError(
            f"--fail-on {text} needs two sweeps: `ackbench compare A B --fail-on '{text}'`"
        )
    return WorseBy(MeasuredValues(found["measure"]), float(found["percent"]) / 100)


def _seen(judgement: Judgement) -> str:
    trials = f"in {describe_share(judgement.share)}" if judgement.share else "seen"
    return f"{trials} ({', '.join(judgement.trials)})" if judgement.trials else trials


def _told(difference: Difference, by: float) -> str:
    """Return the difference that was found, and what it is at least."""
    found = (
        difference.difference
        if difference.measure.is_share
        else difference.ratio and abs(difference.ratio - 1)
    )
    unit = "points" if difference.measure.is_share else "%"
    return f"{100 * (found or 0):.1f} {unit}, at least {100 * by:.1f} {unit} at 95 %"
