"""The gate of `--fail-on`: which results fail a build, one expression per condition."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.comparing.comparison import Comparison
from experiments.comparing.differences import ComparedMeasure, Difference
from experiments.results.models import SweepResults
from experiments.results.wording import unknown_reason
from experiments.verdicts.judge import Judgement, Verdict
from experiments.verdicts.statistics import describe_share
from infra.errors import InputError

EXIT_CODE: Final = 3
"""The results do not pass the gate; 1 is an error of the harness, 2 an invalid request."""
VIOLATED: Final = "violated"
UNKNOWN: Final = "unknown"
_WORSE: Final = re.compile(r"worse:(?P<measure>[a-z0-9_]+)>(?P<percent>\d+(\.\d+)?)%")
_ALLOWED: Final = f"violated, unknown, or worse:MEASURE>N% with one of {', '.join(ComparedMeasure)}"


@dataclass(frozen=True)
class WorseBy:
    """A limit on how much worse sweep `b` may be than sweep `a`."""

    measure: ComparedMeasure
    bound: float
    """As a fraction of 1: the difference of two shares; of numbers, relative to `a`."""


@dataclass(frozen=True)
class Gate:
    """The conditions that fail a build."""

    violated: bool = False
    unknown: bool = False
    """Whether unknown verdicts and undecidable limits fail too."""
    worse: tuple[WorseBy, ...] = ()

    @classmethod
    def parse(cls, expressions: Sequence[str], *, two_sweeps: bool = False) -> Gate:
        """Return the gate of these `--fail-on` expressions.

        Raises:
            InputError: an expression is invalid, or needs two sweeps and there is one.
        """
        worse = tuple(
            _parse_limit(text, two_sweeps=two_sweeps)
            for text in expressions
            if text not in {VIOLATED, UNKNOWN}
        )
        return cls(VIOLATED in expressions, UNKNOWN in expressions, worse)

    def sweep_failures(self, results: SweepResults) -> list[str]:
        """Return the reasons why a sweep fails, one line each; empty if it passes."""
        return list(self._verdict_failures(results))

    def comparison_failures(
        self, comparison: Comparison, sweeps: Sequence[SweepResults]
    ) -> list[str]:
        """Return the reasons why a comparison fails, one line each; empty if it passes."""
        reasons = [reason for results in sweeps for reason in self._verdict_failures(results)]
        return [
            *reasons,
            *(reason for limit in self.worse for reason in self._limit_failures(limit, comparison)),
        ]

    def _verdict_failures(self, results: SweepResults) -> Iterator[str]:
        yield from self._control_failures(results)
        for cell in results.cells:
            for judgement in cell.judgements:
                subject = f"{results.sweep_id}: {judgement.guarantee} with {cell.label}"
                if judgement.verdict is Verdict.VIOLATED and self.violated:
                    yield f"violated: {subject}: {_observed_text(judgement)}"
                if judgement.verdict is Verdict.UNKNOWN and self.unknown:
                    reason = unknown_reason(cell, judgement) or "no reason is known"
                    yield f"unknown: {subject}: {reason}"
        if self.unknown and not any(cell.judgements for cell in results.cells):
            yield f"unknown: {results.sweep_id}: no cell was judged"

    def _control_failures(self, results: SweepResults) -> Iterator[str]:
        """Yield a reason if the sweep's controls failed: such a sweep proves nothing."""
        if self != NO_GATE and results.harness.failed:
            yield f"controls: {results.sweep_id}: {' '.join(results.harness.sentences)}"

    def _limit_failures(self, limit: WorseBy, comparison: Comparison) -> Iterator[str]:
        for cell in comparison.cells:
            subject = f"{limit.measure} with {cell.b_label}"
            difference = cell.difference_in(limit.measure)
            worse_by = difference.worse_by()
            if worse_by is None and self.unknown:
                reasons = "; ".join(difference.reasons) or "the trials do not show it"
                yield f"unknown: {subject}: {reasons}"
            elif worse_by is not None and worse_by > limit.bound:
                yield (
                    f"worse: {subject}: {comparison.b} is worse than {comparison.a} by "
                    f"{_difference_text(difference, worse_by)}; allowed: {100 * limit.bound:g}"
                )


NO_GATE: Final = Gate()
"""Passes all results."""


def _parse_limit(text: str, *, two_sweeps: bool) -> WorseBy:
    match = _WORSE.fullmatch(text.replace(" ", ""))
    if not match or match["measure"] not in set(ComparedMeasure):
        raise InputError(f"invalid value for --fail-on: {text!r} (allowed: {_ALLOWED})")
    if not two_sweeps:
        raise InputError(
            f"--fail-on {text} needs two sweeps; use: ackbench compare A B --fail-on '{text}'"
        )
    return WorseBy(ComparedMeasure(match["measure"]), float(match["percent"]) / 100)


def _observed_text(judgement: Judgement) -> str:
    trials = f"in {describe_share(judgement.share)}" if judgement.share else "observed"
    return f"{trials} ({', '.join(judgement.trials)})" if judgement.trials else trials


def _difference_text(difference: Difference, worse_by: float) -> str:
    """Return the measured difference and its bound, in points of a share or in percent."""
    if difference.measure.is_share:
        measured, unit = difference.difference, "points"
    else:
        measured, unit = difference.ratio and abs(difference.ratio - 1), "%"
    return (
        f"{100 * (measured or 0):.1f} {unit}, at least {100 * worse_by:.1f} {unit} "
        "(95 % confidence)"
    )
