"""Verdicts: every rule of the judge on a hand-written case, and properties of all verdicts."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden_files import Says

from ackbench.experiments.ledger.quantities import TransactionCounts
from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.verdicts.contract import ContractClause
from ackbench.experiments.verdicts.evidence import Inconclusive
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee
from ackbench.experiments.verdicts.guarantees.atomicity import ATOMICITY
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.consumers_agree import CONSUMERS_AGREE
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.last_value_kept import LAST_VALUE_KEPT
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.missed_records import NO_MISSED_RECORDS
from ackbench.experiments.verdicts.guarantees.order import ORDER
from ackbench.experiments.verdicts.guarantees.read_availability import READ_AVAILABILITY
from ackbench.experiments.verdicts.guarantees.read_loss import NO_READ_LOSS
from ackbench.experiments.verdicts.guarantees.reprocessing import NO_REPROCESSING
from ackbench.experiments.verdicts.guarantees.violations import Doubt
from ackbench.experiments.verdicts.judge import (
    MAX_NAMED_RECORDS,
    HarnessCheck,
    Judgement,
    NamedRecord,
    TrialFacts,
    Verdict,
    count_detections,
    judge,
    violations_of,
)

RELIABLE = HarnessCheck(
    control_clean=True, positive_control_lost=True, detections=dict.fromkeys(GUARANTEES, 1)
)
MECHANISM = "the mechanism"


def _clause(guarantee: Guarantee, *, guaranteed: bool | None = True) -> ContractClause:
    return ContractClause(
        guarantee=guarantee,
        guaranteed=guaranteed,
        reason=MECHANISM,
        source="https://kafka.apache.org/documentation/#replication",
    )


def torn(number: int) -> TransactionCounts:
    """Return the counts of ten transactions of which some are partly visible."""
    return TransactionCounts(committed=10, aborted=0, unknown=0, torn=number, aborted_visible=0)


def _clean(trial_id: str) -> TrialFacts:
    none = {
        "attempted": 100,
        "lost": (0, 0),
        "duplicated": 0,
        "reordered": 0,
        "lost_reads": 0,
        "conflicting_reads": 0,
        "compacted": 9,
        "lost_values": 0,
        "transactions": torn(0),
        "group_missed": 0,
        "group_redelivered": 0,
    }
    return TrialFacts.model_validate(
        {
            "trial_id": trial_id,
            "status": Status.SEALED,
            **none,
            "recovered_before_heal": True,
            "readable_before_heal": True,
            "generator_late": False,
        }
    )


def _losing(trial_id: str, lost: int = 3) -> TrialFacts:
    named = tuple(NamedRecord(trial_id=trial_id, producer=0, seq=seq) for seq in range(lost))
    return _clean(trial_id).model_copy(
        update={"lost": (lost, lost), "records": {NO_ACKED_LOSS: named}}
    )


def _violating(guarantee: Guarantee, trial_id: str) -> TrialFacts:
    values: dict[Guarantee, dict[str, object]] = {
        NO_ACKED_LOSS: {"lost": (1, 1)},
        NO_DUPLICATES: {"duplicated": 1},
        ORDER: {"reordered": 1},
        NO_READ_LOSS: {"lost_reads": 1},
        CONSUMERS_AGREE: {"conflicting_reads": 1},
        LAST_VALUE_KEPT: {"lost_values": 1},
        ATOMICITY: {"transactions": torn(1)},
        AVAILABILITY: {"recovered_before_heal": False},
        READ_AVAILABILITY: {"readable_before_heal": False},
        NO_MISSED_RECORDS: {"group_missed": 1},
        NO_REPROCESSING: {"group_redelivered": 1},
    }
    return _clean(trial_id).model_copy(update=values[guarantee])


def _void(trial_id: str, facts: TrialFacts | None = None) -> TrialFacts:
    return (facts or _clean(trial_id)).model_copy(
        update={
            "trial_id": trial_id,
            "status": Status.VOID,
            "reason": "the fault had no observable effect",
        }
    )


UNCLEAR = _clean("009-a").model_copy(update={"lost": (0, 37)})
"""A trial in which records of unknown outcome are absent."""
POSITIVE_FAILED = "positive-control-failed"


def _judge_one(
    guarantee: Guarantee,
    *trials: TrialFacts,
    guaranteed: bool | None = True,
    harness: HarnessCheck = RELIABLE,
) -> Judgement:
    (judgement,) = judge([_clause(guarantee, guaranteed=guaranteed)], trials, harness)
    return judgement


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_a_guarantee_without_a_violation_held_with_the_bound_of_so_many_trials(
    guarantee: Guarantee, says: Says
) -> None:
    """0 of 10 trials is not zero, but "below 31 %"."""
    judgement = _judge_one(guarantee, *(_clean(f"{number:03}-a") for number in range(10)))
    assert (
        judgement.verdict,
        judgement.violation_seen,
        judgement.trials,
        judgement.records_total,
    ) == (Verdict.HELD, False, (), 0)
    assert judgement.share is not None
    assert (judgement.share.seen, judgement.share.of) == (0, 10)
    says(judgement.reasons[1])


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@pytest.mark.parametrize("seen", [True, False])
def test_what_the_contract_does_not_know_is_unknown_whatever_was_observed(
    guarantee: Guarantee, *, seen: bool
) -> None:
    """Neither held nor violated, and not "not guaranteed" either; the share is shown."""
    facts = _violating(guarantee, "000-a") if seen else _clean("000-a")
    judgement = _judge_one(guarantee, facts, guaranteed=None)
    assert (judgement.verdict, judgement.violation_seen, judgement.reasons[0]) == (
        Verdict.UNKNOWN,
        seen,
        MECHANISM,
    )
    assert judgement.share is not None
    assert judgement.share.seen == int(seen)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_one_violating_trial_makes_the_verdict_violated(guarantee: Guarantee) -> None:
    """Nine trials without a violation do not outweigh one with it."""
    judgement = _judge_one(
        guarantee,
        *(_clean(f"{number:03}-a") for number in range(9)),
        _violating(guarantee, "009-a"),
    )
    assert (judgement.verdict, judgement.violation_seen, judgement.trials) == (
        Verdict.VIOLATED,
        True,
        ("009-a",),
    )
    assert judgement.share is not None
    assert (judgement.share.seen, judgement.share.of) == (1, 10)
    assert "009-a" in judgement.reasons[1]


def test_a_violation_names_its_first_records_and_counts_all() -> None:
    """Records are sorted by trial and seq, whatever the order of the trials."""
    judgement = _judge_one(NO_ACKED_LOSS, _losing("002-b", 4), _losing("001-a", 3), _clean("000-c"))
    assert [(record.trial_id, record.seq) for record in judgement.records] == [
        ("001-a", 0),
        ("001-a", 1),
        ("001-a", 2),
        ("002-b", 0),
        ("002-b", 1),
    ]
    assert len(judgement.records) == MAX_NAMED_RECORDS
    assert judgement.records_total == 7
    assert judgement.trials == ("001-a", "002-b")


def test_named_records_are_sorted_by_producer_and_seq_with_unidentified_ones_first() -> None:
    """A corrupt row has neither producer nor seq, and is listed before the others."""
    named = [
        NamedRecord(trial_id="000-a", producer=producer, seq=seq)
        for producer, seq in [(1, 0), (0, 7), (None, None), (0, 3), (0, None)]
    ]
    facts = _clean("000-a").model_copy(
        update={"lost": (5, 5), "records": {NO_ACKED_LOSS: tuple(named)}}
    )
    assert [
        (record.producer, record.seq) for record in _judge_one(NO_ACKED_LOSS, facts).records
    ] == [(None, None), (0, None), (0, 3), (0, 7), (1, 0)]


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@pytest.mark.parametrize("seen", [True, False])
def test_a_violation_of_what_is_not_guaranteed_is_reported_as_observed_or_not(
    guarantee: Guarantee, *, seen: bool
) -> None:
    """It is no verdict on Kafka, but the observation is recorded."""
    judgement = _judge_one(
        guarantee, _violating(guarantee, "000-a") if seen else _clean("000-a"), guaranteed=False
    )
    assert (judgement.verdict, judgement.violation_seen) == (Verdict.NOT_GUARANTEED, seen)


def test_the_mechanism_comes_first_among_the_reasons() -> None:
    """The clause's reason precedes the observations."""
    assert _judge_one(ORDER, _clean("000-a")).reasons[0] == MECHANISM


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@pytest.mark.parametrize(
    "trials",
    [
        (),
        (_void("000-a"),),
        (TrialFacts(trial_id="000-a", status=Status.FAILED, reason="no broker started"),),
    ],
)
def test_without_a_sealed_trial_the_verdict_is_unknown(
    guarantee: Guarantee, trials: tuple[TrialFacts, ...], says: Says
) -> None:
    """Void and failed trials are listed with their reason; they show no violation here."""
    judgement = _judge_one(guarantee, *trials)
    assert (
        judgement.verdict,
        judgement.violation_seen,
        judgement.share,
        judgement.records_total,
    ) == (Verdict.UNKNOWN, None, None, 0)
    says(judgement.reasons)
    assert all(
        any(trial.reason in reason for reason in judgement.reasons)
        for trial in trials
        if trial.reason
    )


def test_a_void_trial_among_sealed_ones_does_not_change_the_verdict(says: Says) -> None:
    """The reasons list it, and no share counts it."""
    judgement = _judge_one(NO_ACKED_LOSS, _clean("000-a"), _void("001-a"))
    assert judgement.verdict is Verdict.HELD
    assert judgement.share is not None
    assert judgement.share.of == 1
    says(judgement.reasons[-1])


ABOUT_TIME = (AVAILABILITY, READ_AVAILABILITY)


@pytest.mark.parametrize("guarantee", [one for one in GUARANTEES if one not in ABOUT_TIME], ids=str)
@pytest.mark.parametrize("status", [Status.VOID, Status.INCOMPLETE, Status.FAILED])
@pytest.mark.parametrize("sealed", [(), (_clean("000-a"),)])
def test_a_violation_in_a_trial_that_is_set_aside_is_a_violation_in_no_share(
    guarantee: Guarantee, status: Status, sealed: tuple[TrialFacts, ...]
) -> None:
    """Less happened in it than the fault was to do, and what was guaranteed did not hold."""
    trial = _violating(guarantee, "001-b").model_copy(
        update={"status": status, "reason": "the third restart came too late"}
    )
    judgement = _judge_one(guarantee, *sealed, trial)
    assert (judgement.verdict, judgement.violation_seen) == (Verdict.VIOLATED, True)
    assert (judgement.trials, judgement.set_aside) == (("001-b",), ("001-b",))
    assert judgement.records_total
    assert (judgement.share.of if judgement.share else 0) == len(sealed)
    assert any("in 001-b, which is" in reason for reason in judgement.reasons)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@pytest.mark.parametrize("sealed", [(), (_clean("000-a"),)])
def test_a_disturbed_trial_shows_nothing(
    guarantee: Guarantee, sealed: tuple[TrialFacts, ...]
) -> None:
    """More happened in it than the fault was to do: another broker had died."""
    disturbed = _void("001-b", _violating(guarantee, "001-b")).model_copy(
        update={"disturbed": True}
    )
    judgement = _judge_one(guarantee, *sealed, disturbed)
    assert judgement.verdict is (Verdict.HELD if sealed else Verdict.UNKNOWN)
    assert (judgement.set_aside, judgement.records_total) == ((), 0)


@pytest.mark.parametrize("guarantee", ABOUT_TIME)
def test_an_outage_in_a_trial_that_is_set_aside_shows_nothing(guarantee: Guarantee) -> None:
    """Whether records flow before the heal depends on how long the fault lasts."""
    judgement = _judge_one(
        guarantee, _clean("000-a"), _void("001-b", _violating(guarantee, "001-b"))
    )
    assert (judgement.verdict, judgement.set_aside) == (Verdict.HELD, ())


@pytest.mark.parametrize("guaranteed", [False, None])
def test_what_a_void_trial_shows_without_a_guarantee_is_named_and_counts_in_no_share(
    guaranteed: bool | None, says: Says
) -> None:
    """It is no verdict on Kafka, and it is not kept silent."""
    duplicating = _void("001-b", _violating(NO_DUPLICATES, "001-b"))
    judgement = _judge_one(NO_DUPLICATES, _clean("000-a"), duplicating, guaranteed=guaranteed)
    assert (judgement.violation_seen, judgement.set_aside) == (False, ("001-b",))
    says(judgement.reasons)


def test_a_violation_that_the_control_discredits_stays_unknown_in_a_void_trial_too() -> None:
    """The harness itself duplicates records."""
    duplicating = _void("001-b", _violating(NO_DUPLICATES, "001-b"))
    judgement = _judge_one(NO_DUPLICATES, duplicating, harness=HarnessCheck(control_clean=False))
    assert judgement.verdict is Verdict.UNKNOWN


def test_absent_records_of_unknown_outcome_make_loss_unknown(says: Says) -> None:
    """Any of them may have been acknowledged, so nine conclusive trials do not suffice."""
    judgement = _judge_one(
        NO_ACKED_LOSS, *(_clean(f"{number:03}-a") for number in range(9)), UNCLEAR
    )
    assert (judgement.verdict, judgement.violation_seen) == (Verdict.UNKNOWN, None)
    says(judgement.reasons[1])
    assert "009-a: 37" in judgement.reasons[2]


def test_absent_records_of_unknown_outcome_do_not_affect_the_other_guarantees() -> None:
    """Duplicates and order are read from the log, whatever outcome the client reported."""
    assert _judge_one(NO_DUPLICATES, UNCLEAR).verdict is Verdict.HELD
    assert _judge_one(ORDER, UNCLEAR).verdict is Verdict.HELD


def test_certain_loss_is_a_violation_whatever_the_unknown_outcomes() -> None:
    """The lower bound decides, and only it is counted."""
    judgement = _judge_one(NO_ACKED_LOSS, _clean("000-a").model_copy(update={"lost": (2, 50)}))
    assert (judgement.verdict, judgement.records_total) == (Verdict.VIOLATED, 2)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_a_sealed_trial_that_was_not_measured_makes_the_verdict_unknown(
    guarantee: Guarantee, says: Says
) -> None:
    """Not measured is not zero."""
    judgement = _judge_one(
        guarantee, _clean("000-a"), TrialFacts(trial_id="001-a", status=Status.SEALED)
    )
    assert judgement.verdict is Verdict.UNKNOWN
    says(judgement.reasons)


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_with_an_unclean_control_every_verdict_is_unknown(
    guarantee: Guarantee, says: Says, *, guaranteed: bool, seen: bool
) -> None:
    """A harness that loses records without a fault proves nothing; observations are kept."""
    unclean = HarnessCheck(control_clean=False, positive_control_lost=True)
    judgement = _judge_one(
        guarantee,
        _violating(guarantee, "000-a") if seen else _clean("000-a"),
        guaranteed=guaranteed,
        harness=unclean,
    )
    assert (judgement.verdict, judgement.violation_seen) == (Verdict.UNKNOWN, seen)
    says(judgement.reasons[1])


@pytest.mark.parametrize(
    ("trials", "guaranteed", "harness", "cause"),
    [
        ([_clean("000-a")], None, HarnessCheck(control_clean=False), "control-not-clean"),
        ([_clean("000-a")], None, RELIABLE, "contract"),
        ([UNCLEAR], None, RELIABLE, "contract"),
        ([], None, RELIABLE, "contract"),
        ([], True, RELIABLE, "no-sealed-trial"),
        ([_void("000-a")], True, RELIABLE, "no-sealed-trial"),
        ([_clean("000-a"), UNCLEAR], True, RELIABLE, "inconclusive"),
        ([UNCLEAR], True, HarnessCheck(positive_control_lost=False), "inconclusive"),
        ([_clean("000-a")], True, HarnessCheck(positive_control_lost=False), POSITIVE_FAILED),
        ([UNCLEAR, _losing("000-a")], True, HarnessCheck(positive_control_lost=False), None),
        ([UNCLEAR], False, RELIABLE, None),
        ([_clean("000-a")], True, RELIABLE, None),
    ],
)
def test_an_unknown_verdict_has_the_first_cause_that_applies(
    trials: list[TrialFacts], guaranteed: bool | None, harness: HarnessCheck, cause: str | None
) -> None:
    """Where the contract does not know, no trial could have decided it."""
    judgement = _judge_one(NO_ACKED_LOSS, *trials, guaranteed=guaranteed, harness=harness)
    assert judgement.unknown_cause == cause
    assert (judgement.verdict is Verdict.UNKNOWN) == (cause is not None)


def test_trials_that_were_not_measured_are_not_those_that_cannot_tell(says: Says) -> None:
    """Measuring the sweep again helps the ones, and not the others."""
    unmeasured = TrialFacts(trial_id="001-a", status=Status.SEALED)
    judgement = _judge_one(NO_ACKED_LOSS, UNCLEAR, unmeasured, _clean("000-a"))
    doubts = [one for one in judgement.evidence if isinstance(one, Inconclusive)]
    assert [(one.doubt, one.trials) for one in doubts] == [
        (Doubt.NOT_BOUNDED, ("009-a",)),
        (Doubt.NOT_MEASURED, ("001-a",)),
    ]
    says(judgement.reasons[2:4])


def test_without_a_loss_in_the_positive_control_no_loss_is_not_proven() -> None:
    """The positive control lost nothing: HELD becomes UNKNOWN."""
    insensitive = HarnessCheck(control_clean=True, positive_control_lost=False)
    judgement = _judge_one(NO_ACKED_LOSS, _clean("000-a"), harness=insensitive)
    assert (judgement.verdict, judgement.violation_seen) == (Verdict.UNKNOWN, False)
    assert "the positive control" in judgement.reasons[2]


def test_without_a_torn_transaction_in_its_control_atomicity_is_not_proven(says: Says) -> None:
    """A late EndTxn must tear transactions where neither side refuses it."""
    insensitive = HarnessCheck(control_clean=True, positive_control_torn=False)
    judgement = _judge_one(ATOMICITY, _clean("000-a"), harness=insensitive)
    assert (judgement.verdict, judgement.violation_seen) == (Verdict.UNKNOWN, False)
    says(judgement.reasons[2])


@pytest.mark.parametrize("guarantee", [NO_DUPLICATES, ORDER, AVAILABILITY])
def test_the_positive_control_concerns_loss_only(guarantee: Guarantee) -> None:
    """It does not show whether the harness would detect a duplicate."""
    assert (
        _judge_one(
            guarantee,
            _clean("000-a"),
            harness=HarnessCheck(control_clean=True, positive_control_lost=False),
        ).verdict
        is Verdict.HELD
    )


def test_an_observed_loss_is_a_violation_without_a_positive_control() -> None:
    """Statistical power matters for "not observed" only."""
    insensitive = HarnessCheck(control_clean=True, positive_control_lost=False)
    assert (
        _judge_one(NO_ACKED_LOSS, _losing("000-a"), harness=insensitive).verdict is Verdict.VIOLATED
    )


def test_one_failed_control_is_enough_to_distrust_a_sweep() -> None:
    """A control that was not measured has not failed."""
    assert HarnessCheck(control_clean=False, positive_control_lost=True).failed
    assert HarnessCheck(control_clean=True, positive_control_lost=False).failed
    assert HarnessCheck(control_clean=True, positive_control_torn=False).failed
    assert not HarnessCheck(control_clean=True).failed


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_what_held_says_whether_the_sweep_shows_that_it_would_see_a_violation(
    guarantee: Guarantee,
) -> None:
    """One trial of any cell with a violation of this guarantee shows it, of another does not."""
    facts = [_violating(guarantee, "001-b")]
    shown = HarnessCheck(control_clean=True, detections=count_detections(facts))
    judgement = _judge_one(guarantee, _clean("000-a"), harness=shown)
    assert (judgement.verdict, judgement.power_shown) == (Verdict.HELD, True)
    assert not any("power not shown" in reason for reason in judgement.reasons)

    others = [_violating(other, "001-b") for other in GUARANTEES if other is not guarantee]
    hidden = HarnessCheck(control_clean=True, detections=count_detections(others))
    judgement = _judge_one(guarantee, _clean("000-a"), harness=hidden)
    assert (judgement.verdict, judgement.power_shown) == (Verdict.HELD, False)
    assert judgement.reasons[-1].startswith(
        f"power not shown: in no trial of this sweep {guarantee.words.violated}"
    )


def test_no_other_verdict_says_anything_about_power() -> None:
    """It qualifies HELD only."""
    for facts, guaranteed in (
        (_losing("000-a"), True),
        (_clean("000-a"), False),
        (_clean("000-a"), None),
    ):
        judgement = _judge_one(NO_ACKED_LOSS, facts, guaranteed=guaranteed, harness=HarnessCheck())
        assert judgement.power_shown is None
        assert not any("power" in reason for reason in judgement.reasons)


def test_only_sealed_trials_show_power() -> None:
    """What a void trial lost is no evidence that a loss would be detected."""
    assert set(count_detections([_void("000-a")]).values()) == {0}
    assert count_detections([_losing("000-a"), _losing("001-a")])[NO_ACKED_LOSS] == 2


def test_the_violations_of_a_trial_are_counted_without_those_that_it_does_not_show() -> None:
    """An outage is no number of records, and what the trial cannot tell is left out."""
    trial = _losing("000-a").model_copy(
        update={"duplicated": 2, "reordered": None, "recovered_before_heal": False}
    )
    assert violations_of(trial) == {NO_ACKED_LOSS: 3, NO_DUPLICATES: 2}


def test_without_controls_a_guarantee_may_have_held_with_a_caveat() -> None:
    """The reasons mention that no trial shows that a loss would be detected."""
    judgement = _judge_one(NO_ACKED_LOSS, _clean("000-a"), harness=HarnessCheck())
    assert (judgement.verdict, judgement.power_shown) == (Verdict.HELD, False)
    assert judgement.reasons[-1].startswith("power not shown: in no trial of this sweep")


def test_what_kept_processes_from_running_is_reported_and_the_trial_judged() -> None:
    """The longest stall of each trial is named."""
    sentences = ("producer 0 was stopped for 1.20 s, 4.3 s after the load began", "another")
    judgement = _judge_one(NO_ACKED_LOSS, _clean("000-a").model_copy(update={"stalls": sentences}))
    assert judgement.verdict is Verdict.HELD
    assert judgement.reasons[-1] == (
        "in 1 judged trial processes were kept from running, neither by Kafka nor by the fault "
        f"(000-a: {sentences[0]})"
    )


def test_a_late_generator_is_reported_and_its_trial_judged(says: Says) -> None:
    """Lateness affects latency, not the content of the log."""
    judgement = _judge_one(
        NO_ACKED_LOSS, _clean("000-a").model_copy(update={"generator_late": True})
    )
    assert judgement.verdict is Verdict.HELD
    says(judgement.reasons[-1])


def test_each_clause_gets_its_own_verdict() -> None:
    """Judgements have the order of the clauses."""
    facts = _clean("000-a").model_copy(update={"duplicated": 5})
    judgements = judge([_clause(guarantee) for guarantee in GUARANTEES], [facts], RELIABLE)
    assert [judgement.guarantee for judgement in judgements] == list(GUARANTEES)
    assert [judgement.verdict for judgement in judgements] == [
        Verdict.VIOLATED if guarantee is NO_DUPLICATES else Verdict.HELD for guarantee in GUARANTEES
    ]


def _facts(
    lost: list[tuple[int, int] | None], counts: list[int | None]
) -> st.SearchStrategy[TrialFacts]:
    """Return a strategy of trials with these values; repeated values are more likely."""
    count = st.sampled_from(counts)
    return st.builds(
        TrialFacts,
        trial_id=st.uuids().map(str),
        status=st.sampled_from([Status.SEALED, Status.SEALED, Status.VOID, Status.FAILED]),
        attempted=st.sampled_from([None, 100, 100]),
        lost=st.sampled_from(lost),
        duplicated=count,
        reordered=count,
        lost_reads=count,
        conflicting_reads=count,
        compacted=count,
        lost_values=count,
        transactions=count.map(lambda number: None if number is None else torn(number)),
        group_missed=count,
        group_redelivered=count,
        recovered_before_heal=st.sampled_from(
            [None if value is None else value == 0 for value in counts]
        ),
        readable_before_heal=st.sampled_from(
            [None if value is None else value == 0 for value in counts]
        ),
    )


def test_without_a_trial_that_can_tell_there_is_no_share() -> None:
    """Nothing was observed in none of them."""
    unclear = TrialFacts(trial_id="000-a", status=Status.SEALED)
    assert _judge_one(ORDER, unclear).share is None


@pytest.mark.parametrize("guarantee", [AVAILABILITY, READ_AVAILABILITY])
def test_an_outage_is_no_number_of_records(guarantee: Guarantee) -> None:
    """Its trials are named, and no records are counted."""
    judgement = _judge_one(guarantee, _violating(guarantee, "000-a"))
    assert (judgement.trials, judgement.records_total) == (("000-a",), 0)


def test_records_are_named_by_trial_producer_and_number_and_unknown_ones_come_first() -> None:
    """However they are ordered in the ledger."""
    expected = [
        NamedRecord(trial_id="000-a", producer=producer, seq=seq)
        for producer in (None, 0, 1, 2)
        for seq in (None, 0, 1, 2)
    ]
    trial = _losing("000-a", 16).model_copy(
        update={"records": {NO_ACKED_LOSS: tuple(reversed(expected))}}
    )
    named = _judge_one(NO_ACKED_LOSS, trial).records
    assert list(named) == expected[: len(named)]


def test_a_load_that_was_too_much_before_the_fault_is_no_evidence_of_availability(
    says: Says,
) -> None:
    """A partition that waits for its turn does not show what the fault did."""
    overloaded = _clean("000-b").model_copy(
        update={"recovered_before_heal": None, "kept_up_before_fault": False}
    )
    judgement = _judge_one(AVAILABILITY, overloaded)
    assert judgement.verdict is Verdict.UNKNOWN
    says(judgement.reasons)


@pytest.mark.parametrize(
    ("compacted", "lost", "verdict"),
    [
        (0, 0, Verdict.UNKNOWN),
        (None, None, Verdict.UNKNOWN),
        (1, 0, Verdict.HELD),
        (0, 1, Verdict.VIOLATED),
    ],
)
def test_last_values_are_kept_only_if_compaction_removed_something(
    compacted: int | None, lost: int | None, verdict: Verdict
) -> None:
    """A topic whose cleaner never ran tests nothing; a lost value is a violation in any case."""
    trial = _clean("000-a").model_copy(update={"compacted": compacted, "lost_values": lost})
    assert _judge_one(LAST_VALUE_KEPT, trial).verdict is verdict


def test_a_trial_in_which_compaction_removed_nothing_says_so(says: Says) -> None:
    """Instead of "not measurable"."""
    trial = _clean("000-a").model_copy(update={"compacted": 0})
    says(_judge_one(LAST_VALUE_KEPT, trial, _clean("001-b")).reasons[-1])


def _sweeps(facts: st.SearchStrategy[TrialFacts]) -> st.SearchStrategy[list[TrialFacts]]:
    return st.lists(facts, max_size=6, unique_by=lambda trial: trial.trial_id)


any_facts = _facts([None, (0, 0), (0, 2), (1, 1), (1, 3), (2, 4)], [None, 0, 1, 2])
sweeps = _sweeps(any_facts)
mostly_clean_sweeps = _sweeps(_facts([None, *[(0, 0)] * 8, (0, 2), (1, 1)], [None, *[0] * 8, 1]))
harnesses = st.builds(
    HarnessCheck,
    control_clean=st.sampled_from([None, True]),
    positive_control_lost=st.sampled_from([None, True, False]),
)


@given(
    st.sampled_from(GUARANTEES), sweeps, harnesses, st.booleans(), st.randoms(use_true_random=False)
)
def test_the_order_of_the_trials_does_not_matter(
    guarantee: Guarantee,
    trials: list[TrialFacts],
    harness: HarnessCheck,
    guaranteed: bool,
    random: Random,
) -> None:
    """The same trials give the same judgement in any order."""
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert _judge_one(guarantee, *shuffled, guaranteed=guaranteed, harness=harness) == _judge_one(
        guarantee, *trials, guaranteed=guaranteed, harness=harness
    )


@given(st.sampled_from(GUARANTEES), sweeps, harnesses)
def test_one_more_violating_trial_always_makes_the_verdict_violated(
    guarantee: Guarantee, trials: list[TrialFacts], harness: HarnessCheck
) -> None:
    """Whatever the other trials show."""
    assert (
        _judge_one(guarantee, *trials, _violating(guarantee, "zzz"), harness=harness).verdict
        is Verdict.VIOLATED
    )


@given(st.sampled_from(GUARANTEES), sweeps, harnesses, any_facts)
def test_one_more_trial_never_revokes_a_violation(
    guarantee: Guarantee, trials: list[TrialFacts], harness: HarnessCheck, more: TrialFacts
) -> None:
    """A violation remains one, whatever the additional trial shows."""
    if _judge_one(guarantee, *trials, harness=harness).verdict is Verdict.VIOLATED:
        assert _judge_one(guarantee, *trials, more, harness=harness).verdict is Verdict.VIOLATED


@given(st.sampled_from(GUARANTEES), mostly_clean_sweeps, harnesses)
def test_held_requires_that_all_sealed_trials_are_conclusive_and_there_is_one(
    guarantee: Guarantee, trials: list[TrialFacts], harness: HarnessCheck
) -> None:
    """No violation must be evidence, not a lack of measurements."""
    judgement = _judge_one(guarantee, *trials, harness=harness)
    if judgement.verdict is Verdict.HELD:
        assert judgement.share is not None
        assert judgement.share.seen == 0
        assert judgement.share.of == sum(trial.status is Status.SEALED for trial in trials) > 0
