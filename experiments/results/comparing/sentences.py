"""The words of a comparison: its sentences and remarks, and its gate's lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.results.comparing.findings import (
    Caveat,
    CellsCompared,
    ChangeKind,
    ClientsHung,
    ComparedMeasure,
    ConditionMet,
    ConditionUnknown,
    ControlNotJudged,
    ControlsFailed,
    ExpectationsCounted,
    Extent,
    GateFailure,
    Inspected,
    LimitExceeded,
    LimitTested,
    LimitUndecided,
    MachineOverloaded,
    MeasureStatement,
    Missing,
    MissingCode,
    NotAccepted,
    NotAsExpected,
    NothingJudged,
    NoTrialCounts,
    SchedulesDiffer,
    SeedsDiffer,
    SideVerdict,
    SweepIncomplete,
    TooFewCells,
    TrialsMissing,
    Untrusted,
    VerdictsCounted,
    VerdictsStatement,
    WithoutGuarantee,
)
from ackbench.experiments.results.comparing.pairing import MIN_PAIRS_FOR_TEST
from ackbench.experiments.results.expectations import not_expected_line
from ackbench.experiments.results.models import CellResult
from ackbench.experiments.results.wording import POWER_NOT_SHOWN, UNKNOWN_SIGN, unknown_reason
from ackbench.experiments.verdicts.judge import Judgement, Verdict
from ackbench.experiments.verdicts.statistics import (
    MIN_TRIALS_FOR_DIFFERENCE,
    MIN_TRIALS_FOR_INTERVAL,
    describe_share,
)

MEASURE_NAMES: Final = {
    ComparedMeasure.LOSS: "trials with loss",
    ComparedMeasure.DUPLICATES: "trials with duplicates",
    ComparedMeasure.LATENCY_P99: "ack p99",
    ComparedMeasure.OUTAGE: "outage",
    ComparedMeasure.THROUGHPUT: "throughput",
}
CHANGE_SIGNS: Final = {
    ChangeKind.WORSE: "\N{BLACK UP-POINTING TRIANGLE}",
    ChangeKind.BETTER: "\N{BLACK DOWN-POINTING TRIANGLE}",
    ChangeKind.SAME: "",
    ChangeKind.UNKNOWN: UNKNOWN_SIGN,
}
_NOT_SHOWN: Final = "the trials do not show it"


_MISSING: Final = {
    MissingCode.NO_PAIRS: "no pairs: no two trials have the same seed",
    MissingCode.NO_TRIAL: "one side has no sealed trial",
    MissingCode.FEW_DIFFERING_PAIRS: (
        f"{{differing}} of {{trials}} pairs differ: no p-value below {MIN_PAIRS_FOR_TEST}, because "
        "none could be below 0.05"
    ),
    MissingCode.FEW_PAIRS_FOR_EFFECT: f"no effect size from fewer than {MIN_PAIRS_FOR_TEST} pairs",
    MissingCode.FEW_PAIRS_FOR_INTERVAL: (
        f"an interval of a median needs {MIN_TRIALS_FOR_INTERVAL} pairs; there are {{trials}}"
    ),
    MissingCode.FEW_TRIALS_FOR_INTERVAL: (
        "without pairs, an interval of two medians needs "
        f"{MIN_TRIALS_FOR_DIFFERENCE} trials of each; there are {{trials}}"
    ),
    MissingCode.NO_RATIO: "no ratio, because a divisor is not above 0",
}


# Why figures are missing, and what a reader must know of them


def missing_sentence(missing: Missing) -> str:
    """Return why a figure of a difference is missing."""
    return _MISSING[missing.code].format(trials=missing.trials, differing=missing.differing)


def caveat_sentence(caveat: Caveat) -> str:
    """Return what a reader must know about the figures."""
    match caveat:
        case SchedulesDiffer():
            return "the loads differ: trials of a repeat share their seed, but not their schedule"
        case SeedsDiffer():
            return (
                "trials are not compared in pairs, because their seeds differ; "
                "this supports weaker conclusions"
            )
        case ControlsFailed(sweep=sweep, controls=controls):
            return f"do not trust {sweep}: its controls failed. {' '.join(controls)}".strip()
        case MachineOverloaded(sweep=sweep, trials=trials):
            return (
                f"the machine was overloaded in {format_count(trials, 'trial')} of {sweep}: "
                "their latencies and outages say nothing of the settings"
            )
        case SweepIncomplete(sweep=sweep):
            return (
                f"{sweep} is incomplete: {caveat.not_run} trials not run, "
                f"{caveat.not_measured} not measured"
            )


def undecided_reason(missing: Sequence[Missing]) -> str:
    """Return why trials do not show a difference."""
    return "; ".join(dict.fromkeys(map(missing_sentence, missing))) or _NOT_SHOWN


def side_verdict_text(side: SideVerdict) -> str:
    """Return the verdict of one side; if not guaranteed, with what was observed."""
    if side.unproven:
        return f"{side.verdict.value}, {POWER_NOT_SHOWN}"
    if side.verdict is not Verdict.NOT_GUARANTEED:
        return side.verdict.value
    return side.verdict.value + {True: ": observed", False: ": not observed", None: ""}[side.seen]


# What differs, over all cells


def statement_sentence(statement: MeasureStatement | VerdictsStatement) -> str:
    """Return a statement on all cells of a comparison."""
    cells = format_count(statement.cells, "cell")
    if isinstance(statement, VerdictsStatement):
        if not statement.changed_cells:
            return f"Verdicts: the same in {cells}."
        verdicts = format_count(statement.changed_verdicts, "verdict")
        return f"Verdicts: {verdicts} changed, in {statement.changed_cells} of {cells}."
    parts = [
        f"{kind} than in A in {extent.cells} of {cells}, {_extent(statement.measure, extent)}"
        for kind, extent in (("worse", statement.worse), ("better", statement.better))
        if extent
    ]
    if statement.same:
        parts.append(f"no difference shown in {statement.same} of {cells}")
    if statement.unknown:
        parts.append(f"too few trials to tell in {statement.unknown} of {cells}")
    return f"{MEASURE_NAMES[statement.measure]}: {'; '.join(parts)}."


def _extent(measure: ComparedMeasure, extent: Extent) -> str:
    """Return the median over cells of the change, and its range."""
    values = (extent.median, extent.low, extent.high)
    middle, low, high = (f"{one:+.0f}" if measure.is_share else f"{one:.2g}" for one in values)
    unit = "points" if measure.is_share else "times A's"
    return f"{middle} {unit}" + ("" if low == high else f" ({low} to {high} in these cells)")


# The gate


def failure_sentence(failure: GateFailure) -> str:
    """Return why results do not pass a gate, in one line."""
    if isinstance(failure, Untrusted):
        return _untrusted(failure)
    if isinstance(failure, ClientsHung):
        return f"hung: {failure.sweep}: in trial {failure.trial_id}: {'; '.join(failure.clients)}"
    return _failure(failure)


def _untrusted(failure: Untrusted) -> str:
    match failure:
        case ControlsFailed(sweep=sweep, controls=controls):
            return f"controls: {sweep}: {' '.join(controls)}"
        case ControlNotJudged(sweep, role, cell):
            return f"controls: {sweep}: the {role.replace('-', ' ')} ({cell}) was not judged"
        case TrialsMissing(sweep, why, trials):
            count = format_count(len(trials), "trial")
            return f"missing: {sweep}: {count} {why} ({', '.join(trials)})"
        case NoTrialCounts(sweep, cell):
            return f"missing: {sweep}: {cell}: no trial counts: nothing was judged"
        case NothingJudged(sweep):
            return f"unknown: {sweep}: no cell was judged"


def _failure(failure: NotAccepted) -> str:
    match failure:
        case ConditionMet(condition, sweep, cell, judgement):
            return f"{condition}: {sweep}: {_subject(cell, judgement)}: {_observed_text(judgement)}"
        case ConditionUnknown(condition, sweep, cell, judgement):
            reason = unknown_reason(judgement) or "no reason is known"
            return f"{condition}: {sweep}: {_subject(cell, judgement)}: {reason}"
        case NotAsExpected(sweep, result):
            return f"not expected: {sweep}: {not_expected_line(result)}"
        case TooFewCells(compared, required):
            return f"cells: {compared} compared; required: {required} or more (--min-cells)"
        case LimitUndecided(measure, label, missing):
            return f"unknown: {measure} with {label}: {undecided_reason(missing)}"
        case LimitExceeded():
            unit = "points" if failure.measure.is_share else "%"
            return (
                f"worse: {failure.measure} with {failure.cell}: {failure.b} is worse than "
                f"{failure.a} by {100 * failure.difference:.1f} {unit}, at least "
                f"{100 * failure.worse_by:.1f} {unit} (95 % confidence); "
                f"allowed: {100 * failure.allowed:g}"
            )


def _subject(cell: CellResult, judgement: Judgement) -> str:
    return f"{judgement.guarantee} with {cell.label}"


def _observed_text(judgement: Judgement) -> str:
    trials = f"in {describe_share(judgement.share)}" if judgement.share else "observed"
    return f"{trials} ({', '.join(judgement.trials)})" if judgement.trials else trials


def inspected_sentence(inspected: Inspected) -> str:
    """Return what a gate looked at, in one line."""
    match inspected:
        case VerdictsCounted(cells, verdicts):
            total = format_count(sum(verdicts.values()), "verdict")
            counts = ", ".join(f"{verdicts.get(one, 0)} {one.lower()}" for one in Verdict)
            return f"{total} in {format_count(cells, 'cell')}: {counts}"
        case WithoutGuarantee(guarantee, records, cells, duplicates):
            copies = f" ({format_count(duplicates, 'duplicate')})" if duplicates else ""
            much = f"{format_count(records, 'record')}{copies} in " if records else "in "
            where = f"{much}{format_count(cells, 'cell')}"
            return f"not guaranteed: {guarantee.words.observed}: {where}"
        case ExpectationsCounted(met, expected):
            return f"as expected: {met} of {expected}"
        case CellsCompared(cells, only_a, only_b):
            sides = (("A", only_a), ("B", only_b))
            only = [f"{number} only in {side}" for side, number in sides if number]
            return ", ".join([f"{format_count(cells, 'cell')} compared", *only])
        case LimitTested(limit, enough, cells):
            return f"{limit}: enough trials in {enough} of {format_count(cells, 'cell')}"
