"""The sentences of a verdict's evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Final

from ackbench.experiments.messages.phrases import plural
from ackbench.experiments.verdicts.evidence import (
    ControlNotClean,
    Evidence,
    GeneratorLate,
    Inconclusive,
    NoSealedTrial,
    Observed,
    ObservedSetAside,
    PositiveControlFailed,
    PowerNotShown,
    SetAside,
    Stalled,
    UnknownCause,
)
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.guarantees.violations import Doubt
from ackbench.experiments.verdicts.statistics import Share, describe_share


@dataclass(frozen=True)
class JudgedCase:
    """The guarantee and the trials that a sentence of the evidence names."""

    guarantee: Guarantee
    share: Share | None
    """Of the trials that showed a violation; `None`: none was conclusive."""
    violating: Sequence[str]
    """IDs of those trials, without the ones that are set aside."""


def evidence_sentence(case: JudgedCase, evidence: Evidence) -> str:
    """Return one piece of evidence on a verdict as a sentence without a full stop."""
    return _sentence(evidence, case)


UNKNOWN_CAUSES: Final[Mapping[UnknownCause, str]] = {
    UnknownCause.CONTROL_NOT_CLEAN: "the control was not clean",
    UnknownCause.CONTRACT: "it is not known whether Kafka guarantees it",
    UnknownCause.NO_SEALED_TRIAL: "no trial is sealed",
    UnknownCause.INCONCLUSIVE: "trials cannot tell",
    UnknownCause.POSITIVE_CONTROL_FAILED: "the positive control failed",
}
"""Why a verdict is unknown, in a few words."""


@singledispatch
def _sentence(evidence: object, _case: JudgedCase) -> str:
    raise AssertionError(evidence)  # each kind has its function below


@_sentence.register(ControlNotClean)
def _(_evidence: ControlNotClean, _case: JudgedCase) -> str:
    return (
        "the control, a cell without a fault, was not clean: the harness is at fault, and its "
        "observations are not reliable"
    )


@_sentence.register(NoSealedTrial)
def _(_evidence: NoSealedTrial, _case: JudgedCase) -> str:
    return "no sealed trial: there is nothing to judge"


@_sentence.register(Observed)
def _(_evidence: Observed, case: JudgedCase) -> str:
    extent = "no trial" if case.share is None else describe_share(case.share)
    return ", ".join([f"{case.guarantee.words.violated} in {extent}", *case.violating])


@_sentence.register(ObservedSetAside)
def _(evidence: ObservedSetAside, case: JudgedCase) -> str:
    return (
        f"{case.guarantee.words.violated} ({evidence.count:,}) in {evidence.trial_id}, which "
        f"is {evidence.status.value} and in no share"
    )


@_sentence.register(Inconclusive)
def _(evidence: Inconclusive, case: JudgedCase) -> str:
    extent = f"{len(evidence.trials)} of {_trials(evidence.of, 'sealed')}"
    if evidence.doubt is Doubt.NOT_TESTED:
        return f"{case.guarantee.words.untested} in {extent}: it was not tested there"
    if evidence.doubt is Doubt.NOT_BOUNDED:
        bounds = zip(evidence.trials, evidence.at_most, strict=True)
        most = ", ".join(f"{trial}: {high}" for trial, high in bounds)
        return f"{case.guarantee.words.not_bounded} ({most})"
    return {
        Doubt.NOT_MEASURED: f"not measured in {extent}",
        Doubt.NOT_MEASURABLE: f"not measurable in {extent}",
        Doubt.OVERLOADED: (
            f"not measurable in {extent}: the load was not acknowledged in time before the fault"
        ),
    }[evidence.doubt]


@_sentence.register(PositiveControlFailed)
def _(evidence: PositiveControlFailed, case: JudgedCase) -> str:
    if (control := case.guarantee.control) is None:
        raise AssertionError(evidence)  # only one that a guarantee has can fail
    return (
        f"the positive control, which must {control.must} in each of its trials, did not: this "
        f"sweep does not show that the harness would detect {control.shows}"
    )


@_sentence.register(PowerNotShown)
def _(_evidence: PowerNotShown, case: JudgedCase) -> str:
    return (
        f"power not shown: in no trial of this sweep {case.guarantee.words.violated}, so it "
        "does not show that it would detect that"
    )


@_sentence.register(SetAside)
def _(evidence: SetAside, _case: JudgedCase) -> str:
    reasons = evidence.reasons.items()
    causes = "; ".join(f"{trial}: {why or 'no reason recorded'}" for trial, why in reasons)
    return f"{_trials(len(reasons), evidence.status.value)}, set aside ({causes})"


@_sentence.register(GeneratorLate)
def _(evidence: GeneratorLate, _case: JudgedCase) -> str:
    return (
        f"in {_trials(len(evidence.trials), 'judged')} the load generator fell behind its schedule "
        f"({', '.join(evidence.trials)})"
    )


@_sentence.register(Stalled)
def _(evidence: Stalled, _case: JudgedCase) -> str:
    first = "; ".join(f"{trial}: {stall}" for trial, stall in evidence.first.items())
    return (
        f"in {_trials(len(evidence.first), 'judged')} processes were kept from running, neither by "
        f"Kafka nor by the fault ({first})"
    )


def _trials(number: int, kind: str) -> str:
    return f"{number} {kind} {plural(number, 'trial')}"
