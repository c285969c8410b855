"""Each kind of evidence has a sentence."""

from typing import get_args

from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Status
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
)
from ackbench.experiments.verdicts.guarantees import GUARANTEES
from ackbench.experiments.verdicts.guarantees.guarantee import Guarantee
from ackbench.experiments.verdicts.guarantees.last_value_kept import LAST_VALUE_KEPT
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.violations import Bounds, Doubt
from ackbench.experiments.verdicts.judge import Judgement, Verdict
from ackbench.experiments.verdicts.statistics import share

TRIALS = ("000-a", "003-b")
ALL: tuple[Evidence, ...] = (
    ControlNotClean(),
    NoSealedTrial(),
    Observed(),
    ObservedSetAside(trial_id="001-c", status=Status.VOID, count=1234),
    *(
        Inconclusive(doubt=doubt, trials=TRIALS, of=5)
        for doubt in (Doubt.NOT_MEASURED, Doubt.NOT_MEASURABLE, Doubt.OVERLOADED)
    ),
    Inconclusive(doubt=Doubt.NOT_BOUNDED, trials=TRIALS, of=5, at_most=(4, 1)),
    PositiveControlFailed(),
    PowerNotShown(),
    SetAside(status=Status.VOID, reasons={"001-c": "another broker died", "004-d": None}),
    SetAside(status=Status.FAILED, reasons={"001-c": "the disk is full"}),
    GeneratorLate(trials=TRIALS),
    Stalled(first={"000-a": "producer 0 waited 2.1 s for a CPU"}),
)


def a_judgement(guarantee: Guarantee, *evidence: Evidence) -> Judgement:
    """Return a verdict on two trials of five, and on one that is set aside."""
    return Judgement(
        guarantee=guarantee,
        verdict=Verdict.VIOLATED,
        violation_seen=True,
        share=share(2, 5),
        mechanism="as the documentation says",
        evidence=evidence,
        trials=(*TRIALS, "001-c"),
        set_aside=("001-c",),
    )


def test_each_kind_of_evidence_is_said_in_one_sentence(says: Says) -> None:
    """With its figures; the one of the guarantee's words that it needs is there."""
    assert {type(one) for one in ALL} == set(get_args(get_args(Evidence)[0]))
    untested = Inconclusive(doubt=Doubt.NOT_TESTED, trials=TRIALS, of=5)
    of_loss, of_values = a_judgement(NO_ACKED_LOSS, *ALL), a_judgement(LAST_VALUE_KEPT, untested)
    says([*of_loss.reasons[1:], *of_values.reasons[1:]])


def test_a_guarantee_has_the_words_for_each_doubt_that_its_trials_may_leave() -> None:
    """A number with bounds says why it has them, and a test that may not happen what is missing."""

    def lacks(guarantee: Guarantee) -> bool:
        bounded = isinstance(guarantee.violated_by, Bounds)
        tested = getattr(guarantee.violated_by, "tested_by", "")
        return bounded != bool(guarantee.words.not_bounded) or bool(tested) != bool(
            guarantee.words.untested
        )

    assert [guarantee.name for guarantee in GUARANTEES if lacks(guarantee)] == []
