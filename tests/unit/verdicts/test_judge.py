"""What became of a promise: every rule from a hand-written case."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.ledger.record import Status
from experiments.verdicts.contract import ContractClause, Guarantee
from experiments.verdicts.judge import (
    NAMED,
    HarnessCheck,
    Judgement,
    NamedRecord,
    TrialFacts,
    Verdict,
    judge,
)

SOUND = HarnessCheck(control_clean=True, positive_control_lost=True)
BECAUSE = "the mechanism"


def _commitment(guarantee: Guarantee, *, guaranteed: bool = True) -> ContractClause:
    return ContractClause(
        guarantee=guarantee,
        guaranteed=guaranteed,
        reason=BECAUSE,
        source="https://kafka.apache.org/documentation/#replication",
    )


def _clean(trial_id: str) -> TrialFacts:
    none = {
        "lost": (0, 0),
        "duplicated": 0,
        "reordered": 0,
        "unatomic": 0,
        "group_missed": 0,
        "group_repeated": 0,
    }
    return TrialFacts.model_validate(
        {
            "trial_id": trial_id,
            "status": Status.SEALED,
            **none,
            "recovered_before_heal": True,
            "generator_late": False,
        }
    )


def _losing(trial_id: str, lost: int = 3) -> TrialFacts:
    named = tuple(NamedRecord(trial_id=trial_id, producer=0, seq=seq) for seq in range(lost))
    return _clean(trial_id).model_copy(
        update={"lost": (lost, lost), "records": {Guarantee.NO_ACKED_LOSS: named}}
    )


def _broken(guarantee: Guarantee, trial_id: str) -> TrialFacts:
    values: dict[Guarantee, dict[str, object]] = {
        Guarantee.NO_ACKED_LOSS: {"lost": (1, 1)},
        Guarantee.NO_DUPLICATES: {"duplicated": 1},
        Guarantee.ORDER: {"reordered": 1},
        Guarantee.ATOMICITY: {"unatomic": 1},
        Guarantee.AVAILABILITY: {"recovered_before_heal": False},
        Guarantee.NONE_MISSED: {"group_missed": 1},
        Guarantee.NONE_REPEATED: {"group_repeated": 1},
    }
    return _clean(trial_id).model_copy(update=values[guarantee])


def _void(trial_id: str) -> TrialFacts:
    return TrialFacts(
        trial_id=trial_id,
        status=Status.VOID,
        reason="the fault did not bite",
        lost=(9, 9),
        duplicated=9,
        reordered=9,
    )


def _one(
    guarantee: Guarantee,
    *trials: TrialFacts,
    guaranteed: bool = True,
    harness: HarnessCheck = SOUND,
) -> Judgement:
    (judgement,) = judge([_commitment(guarantee, guaranteed=guaranteed)], trials, harness)
    return judgement


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_promise_that_no_sealed_trial_breaks_is_held_with_the_bound_that_so_many_trials_allow(
    guarantee: Guarantee,
) -> None:
    """0 of 10 trials is no zero: it is "below 26 %"."""
    judgement = _one(guarantee, *(_clean(f"{number:03}-a") for number in range(10)))
    assert (judgement.verdict, judgement.seen, judgement.trials, judgement.records_total) == (
        Verdict.HELD,
        False,
        (),
        0,
    )
    assert judgement.share is not None
    assert (judgement.share.seen, judgement.share.of) == (0, 10)
    assert "0 of 10 trials: below 26 % at 95 %" in judgement.reasons[1]


@pytest.mark.parametrize("guarantee", Guarantee)
def test_one_trial_that_breaks_a_promise_violates_it_whatever_the_others_say(
    guarantee: Guarantee,
) -> None:
    """Seen once is seen: nine clean trials do not outvote it."""
    judgement = _one(
        guarantee, *(_clean(f"{number:03}-a") for number in range(9)), _broken(guarantee, "009-a")
    )
    assert (judgement.verdict, judgement.seen, judgement.trials) == (
        Verdict.VIOLATED,
        True,
        ("009-a",),
    )
    assert judgement.share is not None
    assert (judgement.share.seen, judgement.share.of) == (1, 10)
    assert "009-a" in judgement.reasons[1]


def test_a_violation_names_its_first_records_and_counts_them_all() -> None:
    """By trial and number, however the trials came."""
    judgement = _one(
        Guarantee.NO_ACKED_LOSS, _losing("002-b", 4), _losing("001-a", 3), _clean("000-c")
    )
    assert [(record.trial_id, record.seq) for record in judgement.records] == [
        ("001-a", 0),
        ("001-a", 1),
        ("001-a", 2),
        ("002-b", 0),
        ("002-b", 1),
    ]
    assert len(judgement.records) == NAMED
    assert judgement.records_total == 7
    assert judgement.trials == ("001-a", "002-b")


def test_records_are_named_by_producer_and_number_and_those_without_a_name_first() -> None:
    """A corrupt row has neither, and stands before the others rather than in nobody's place."""
    named = [
        NamedRecord(trial_id="000-a", producer=producer, seq=seq)
        for producer, seq in [(1, 0), (0, 7), (None, None), (0, 3), (0, None)]
    ]
    facts = _clean("000-a").model_copy(
        update={"lost": (5, 5), "records": {Guarantee.NO_ACKED_LOSS: tuple(named)}}
    )
    assert [
        (record.producer, record.seq) for record in _one(Guarantee.NO_ACKED_LOSS, facts).records
    ] == [(None, None), (0, None), (0, 3), (0, 7), (1, 0)]


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("seen", [True, False])
def test_what_is_not_promised_is_shown_as_seen_or_not_seen(
    guarantee: Guarantee, *, seen: bool
) -> None:
    """No verdict on Kafka, but the observation all the same."""
    judgement = _one(
        guarantee, _broken(guarantee, "000-a") if seen else _clean("000-a"), guaranteed=False
    )
    assert (judgement.verdict, judgement.seen) == (Verdict.NOT_PROMISED, seen)


def test_the_mechanism_comes_first_among_the_reasons() -> None:
    """A reader is told by what it is promised, then what was seen."""
    assert _one(Guarantee.ORDER, _clean("000-a")).reasons[0] == BECAUSE


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize(
    "trials",
    [
        (),
        (_void("000-a"),),
        (TrialFacts(trial_id="000-a", status=Status.FAILED, reason="no broker came up"),),
    ],
)
def test_without_a_sealed_trial_nothing_is_known(
    guarantee: Guarantee, trials: tuple[TrialFacts, ...]
) -> None:
    """Void and failed trials are named with their reason and judged in nothing, whatever they counted."""
    judgement = _one(guarantee, *trials)
    assert (judgement.verdict, judgement.seen, judgement.share, judgement.records_total) == (
        Verdict.UNKNOWN,
        None,
        None,
        0,
    )
    assert "no sealed trial: there is nothing to judge" in judgement.reasons
    assert all(
        any(trial.reason in reason for reason in judgement.reasons)
        for trial in trials
        if trial.reason
    )


def test_a_void_trial_beside_sealed_ones_changes_no_verdict() -> None:
    """It is counted where everybody sees it, and in no share."""
    judgement = _one(Guarantee.NO_ACKED_LOSS, _clean("000-a"), _void("001-a"))
    assert judgement.verdict is Verdict.HELD
    assert judgement.share is not None
    assert judgement.share.of == 1
    assert (
        judgement.reasons[-1] == "1 void trial, judged in nothing (001-a: the fault did not bite)"
    )


def test_absent_records_of_unknown_outcome_leave_loss_unknown() -> None:
    """Any of them may have been acknowledged; nine clear trials beside it would be the lucky ones."""
    unclear = _clean("009-a").model_copy(update={"lost": (0, 37)})
    judgement = _one(
        Guarantee.NO_ACKED_LOSS, *(_clean(f"{number:03}-a") for number in range(9)), unclear
    )
    assert (judgement.verdict, judgement.seen) == (Verdict.UNKNOWN, None)
    assert "009-a: 37" in judgement.reasons[2]


def test_absent_records_of_unknown_outcome_say_nothing_about_the_other_promises() -> None:
    """What is stored twice or out of order is seen in the log, whatever the client was told."""
    unclear = _clean("000-a").model_copy(update={"lost": (0, 37)})
    assert _one(Guarantee.NO_DUPLICATES, unclear).verdict is Verdict.HELD
    assert _one(Guarantee.ORDER, unclear).verdict is Verdict.HELD


def test_loss_for_certain_is_a_violation_beside_any_unknown_outcomes() -> None:
    """The lower bound decides, and alone is counted."""
    judgement = _one(Guarantee.NO_ACKED_LOSS, _clean("000-a").model_copy(update={"lost": (2, 50)}))
    assert (judgement.verdict, judgement.records_total) == (Verdict.VIOLATED, 2)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_sealed_trial_that_was_not_measured_makes_the_promise_unknown(
    guarantee: Guarantee,
) -> None:
    """Not measured is not "none"."""
    judgement = _one(guarantee, _clean("000-a"), TrialFacts(trial_id="001-a", status=Status.SEALED))
    assert judgement.verdict is Verdict.UNKNOWN
    assert "not told by 1 of 2 sealed trials" in judgement.reasons


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("guaranteed", [True, False])
@pytest.mark.parametrize("seen", [True, False])
def test_with_an_unclean_control_nothing_is_known(
    guarantee: Guarantee, *, guaranteed: bool, seen: bool
) -> None:
    """A harness that loses where nothing is broken can be believed in nothing; what it saw is shown all the same."""
    unclean = HarnessCheck(control_clean=False, positive_control_lost=True)
    judgement = _one(
        guarantee,
        _broken(guarantee, "000-a") if seen else _clean("000-a"),
        guaranteed=guaranteed,
        harness=unclean,
    )
    assert (judgement.verdict, judgement.seen) == (Verdict.UNKNOWN, seen)
    assert "the harness is at fault" in judgement.reasons[1]


def test_a_harness_that_saw_no_loss_where_there_must_be_one_cannot_say_that_none_was() -> None:
    """The positive control lost nothing: held becomes unknown."""
    blind = HarnessCheck(control_clean=True, positive_control_lost=False)
    judgement = _one(Guarantee.NO_ACKED_LOSS, _clean("000-a"), harness=blind)
    assert (judgement.verdict, judgement.seen) == (Verdict.UNKNOWN, False)
    assert "the positive control" in judgement.reasons[2]


@pytest.mark.parametrize(
    "guarantee", [Guarantee.NO_DUPLICATES, Guarantee.ORDER, Guarantee.AVAILABILITY]
)
def test_the_positive_control_is_about_loss_alone(guarantee: Guarantee) -> None:
    """It says nothing about whether a duplicate would be seen."""
    assert (
        _one(
            guarantee,
            _clean("000-a"),
            harness=HarnessCheck(control_clean=True, positive_control_lost=False),
        ).verdict
        is Verdict.HELD
    )


def test_a_loss_that_was_seen_stands_without_a_positive_control() -> None:
    """Power is needed to see nothing, not to see something."""
    blind = HarnessCheck(control_clean=True, positive_control_lost=False)
    assert (
        _one(Guarantee.NO_ACKED_LOSS, _losing("000-a"), harness=blind).verdict is Verdict.VIOLATED
    )


def test_without_controls_a_promise_may_hold_and_says_what_is_not_shown() -> None:
    """The user asked for no controls; the reader is told."""
    judgement = _one(Guarantee.NO_ACKED_LOSS, _clean("000-a"), harness=HarnessCheck())
    assert judgement.verdict is Verdict.HELD
    assert "no positive control was measured" in judgement.reasons[-1]
    unpromised = _one(
        Guarantee.NO_ACKED_LOSS, _clean("000-a"), guaranteed=False, harness=HarnessCheck()
    )
    assert not any("positive control" in reason for reason in unpromised.reasons)


def test_a_late_generator_is_named_and_its_trial_judged() -> None:
    """It bears on latency; what is in the log is in the log."""
    judgement = _one(
        Guarantee.NO_ACKED_LOSS, _clean("000-a").model_copy(update={"generator_late": True})
    )
    assert judgement.verdict is Verdict.HELD
    assert (
        judgement.reasons[-1]
        == "in 1 judged trial the generator fell behind its own schedule (000-a)"
    )


def test_each_commitment_gets_its_own_verdict() -> None:
    """In the order of the commitments."""
    facts = _clean("000-a").model_copy(update={"duplicated": 5})
    judgements = judge([_commitment(guarantee) for guarantee in Guarantee], [facts], SOUND)
    assert [judgement.guarantee for judgement in judgements] == list(Guarantee)
    assert [judgement.verdict for judgement in judgements] == [
        Verdict.VIOLATED if guarantee is Guarantee.NO_DUPLICATES else Verdict.HELD
        for guarantee in Guarantee
    ]


lost = st.one_of(
    st.none(),
    st.tuples(st.integers(0, 2), st.integers(0, 2)).map(lambda pair: (pair[0], pair[0] + pair[1])),
)
facts = st.builds(
    TrialFacts,
    trial_id=st.uuids().map(str),
    status=st.sampled_from([Status.SEALED, Status.VOID, Status.FAILED]),
    lost=lost,
    duplicated=st.one_of(st.none(), st.integers(0, 2)),
    reordered=st.one_of(st.none(), st.integers(0, 2)),
    unatomic=st.one_of(st.none(), st.integers(0, 2)),
    recovered_before_heal=st.one_of(st.none(), st.booleans()),
)
sweeps = st.lists(facts, max_size=6, unique_by=lambda trial: trial.trial_id)
harnesses = st.builds(
    HarnessCheck,
    control_clean=st.sampled_from([None, True]),
    positive_control_lost=st.sampled_from([None, True, False]),
)


@given(
    st.sampled_from(Guarantee), sweeps, harnesses, st.booleans(), st.randoms(use_true_random=False)
)
def test_the_order_of_the_trials_does_not_matter(
    guarantee: Guarantee,
    trials: list[TrialFacts],
    harness: HarnessCheck,
    guaranteed: bool,
    random: Random,
) -> None:
    """The same trials give the same judgement, whoever ran first."""
    shuffled = list(trials)
    random.shuffle(shuffled)
    assert _one(guarantee, *shuffled, guaranteed=guaranteed, harness=harness) == _one(
        guarantee, *trials, guaranteed=guaranteed, harness=harness
    )


@given(st.sampled_from(Guarantee), sweeps, harnesses)
def test_one_more_trial_with_the_anomaly_always_violates(
    guarantee: Guarantee, trials: list[TrialFacts], harness: HarnessCheck
) -> None:
    """Whatever stood there before."""
    assert (
        _one(guarantee, *trials, _broken(guarantee, "zzz"), harness=harness).verdict
        is Verdict.VIOLATED
    )


@given(st.sampled_from(Guarantee), sweeps, harnesses, facts)
def test_one_more_trial_never_takes_a_violation_back(
    guarantee: Guarantee, trials: list[TrialFacts], harness: HarnessCheck, more: TrialFacts
) -> None:
    """Evidence adds up."""
    if _one(guarantee, *trials, harness=harness).verdict is Verdict.VIOLATED:
        assert _one(guarantee, *trials, more, harness=harness).verdict is Verdict.VIOLATED


@given(st.sampled_from(Guarantee), sweeps, harnesses)
def test_held_rests_on_at_least_one_clear_trial_and_no_other_kind(
    guarantee: Guarantee, trials: list[TrialFacts], harness: HarnessCheck
) -> None:
    """A zero needs evidence."""
    judgement = _one(guarantee, *trials, harness=harness)
    if judgement.verdict is Verdict.HELD:
        assert judgement.share is not None
        assert judgement.share.seen == 0
        assert judgement.share.of == sum(trial.status is Status.SEALED for trial in trials) > 0
