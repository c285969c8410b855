"""The answer of a sweep in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from support.builders.sweeps import (
    DUPLICATING,
    LOSING,
    SAFE,
    TRUTHS,
    WITHOUT_FAULT,
    Truth,
    a_cell,
    measured_sweep,
)
from support.golden_files import Says

from ackbench.experiments.ledger.quantities import TransactionCounts
from ackbench.experiments.ledger.trial_manifest import Status
from ackbench.experiments.results.models import SweepResults, TrialResult
from ackbench.experiments.results.sentences import _sentences, plain_answer
from ackbench.experiments.results.statements import ObservedStatement, statements
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee, guarantee_named
from ackbench.experiments.verdicts.judge import HarnessCheck, Verdict

ONCE = "One trial per cell shows what can happen, not how often."


def answer(*truths: Truth) -> tuple[str, ...]:
    """Return the answer of a sweep with these outcomes."""
    return texts(measured_sweep(truths).results)


def texts(results: SweepResults) -> tuple[str, ...]:
    """Return the sentences of an answer."""
    return tuple(map(str, plain_answer(results)))


def with_trials(results: SweepResults, **changes: object) -> SweepResults:
    """Return the results with these fields of all trials changed."""
    trials = tuple(trial.model_copy(update=changes) for trial in results.trials)
    return results.model_copy(update={"trials": trials})


def test_each_sentence_begins_with_its_fault_and_names_exactly_its_cells(says: Says) -> None:
    """The largest loss of a trial is given with the trials that lost; no fault, no sentence."""
    says(answer(*TRUTHS)[:2])


def test_what_no_trial_shows_is_said_of_the_whole_sweep(says: Says) -> None:
    """It has no fault to be reported by."""
    says(answer(SAFE))
    says(answer(SAFE))


def test_faults_with_different_outcomes_are_never_counted_together(says: Says) -> None:
    """The pause loses in none of its trials, and the crash in all but one."""
    paused = [
        replace(truth, cell={**truth.cell, "fault": "leader-pause"}, lost=(0,) * 5)
        for truth in (LOSING, DUPLICATING)
    ]
    both_lose = (LOSING, replace(DUPLICATING, lost=(9,) * 5))

    says([one for one in answer(*both_lose, *paused) if ": " in one and "lost" in one])


def test_cells_of_one_fault_are_counted_together_only_if_all_of_their_trials_agree(
    says: Says,
) -> None:
    """Two cells lost in each trial, one in some, one in none."""
    cells = [a_cell("all", partitions=partitions) for partitions in (1, 3, 6, 12)]
    lost = [(7,) * 5, (9,) * 5, (0, 5, 0, 0, 0), (0,) * 5]
    truths = [
        replace(SAFE, cell=cell, lost=of_cell) for cell, of_cell in zip(cells, lost, strict=True)
    ]
    says(next(one for one in answer(*truths) if one.startswith("leader")))


def test_a_version_of_a_client_is_named_with_the_client() -> None:
    """The version decides alone, and nobody knows by heart that 3.9.2 is Java's."""
    lost = {("librdkafka", "1.8.2"): 7, ("librdkafka", "2.4.0"): 0, ("java", "3.9.2"): 7}
    truths = [
        replace(
            SAFE,
            cell={**a_cell("all", fault="f"), "client": client, "client.version": version},
            lost=(records,) * 5,
        )
        for (client, version), records in lost.items()
    ]
    (sentence,) = [one for one in answer(*truths) if one.startswith("f: ") and "lost" in one]
    assert sentence.startswith(
        "f: client=java client.version=3.9.2 and client=librdkafka client.version=1.8.2 lost"
    )


def test_many_cells_are_counted() -> None:
    """Four names would be no sentence: which cells lose is decided by no axis."""
    cells = [
        a_cell(acks, idempotence=bool(idempotence), partitions=1 + number, fault="f")
        for acks, idempotence, number in product((0, 1), repeat=3)
    ]
    truths = [
        replace(SAFE, cell=cell, lost=(7 * (odd % 2),) * 5)
        for cell, odd in zip(cells, (0, 1, 1, 2, 1, 2, 2, 3), strict=True)
    ]
    (sentence,) = [one for one in answer(*truths) if one.startswith("f: ") and "lost" in one]
    assert sentence.startswith("f: 4 cells lost up to 7 ")
    assert sentence.endswith("; 4 cells lost no acknowledged record (20 trials).")


def test_clients_that_hung_come_before_what_was_observed_void_trials_included() -> None:
    """With the cells, how many of their trials, and the first such client."""
    results = measured_sweep((LOSING, DUPLICATING)).results
    first, second, *others = results.trials
    hung = {"hung_clients": ("copier 1.0: send_offsets() had not returned",)}
    trials = (
        first.model_copy(update=hung),
        second.model_copy(update={**hung, "status": Status.VOID}),
        *others,
    )
    said = texts(results.model_copy(update={"trials": trials}))
    assert said[0].endswith(
        "had a client that HUNG (2 of 5 trials): copier 1.0: send_offsets() had not returned."
    )
    assert sum("HUNG" in one for one in said) == 1
    assert not any("HUNG" in one for one in texts(results))


@pytest.mark.parametrize(
    ("repeats", "sentence"),
    [
        (1, "A cell with one trial shows what can happen, not how often."),
        (
            5,
            (
                "What happened in none of 5 trials of a cell may still happen in up to 52 % of "
                "them (95 % confidence)."
            ),
        ),
    ],
)
def test_the_last_sentence_says_how_sure_the_answer_is(repeats: int, sentence: str) -> None:
    """It is that of the cell with the fewest trials."""
    fewer = replace(LOSING, lost=LOSING.lost[:repeats], copies=LOSING.copies[:repeats])
    assert answer(SAFE, fewer)[-1] == sentence


def test_where_each_cell_has_one_trial_it_is_said_of_all() -> None:
    """Not of a sweep of which one cell lacks trials."""
    once = [
        replace(truth, lost=truth.lost[:1], copies=truth.copies[:1]) for truth in (SAFE, LOSING)
    ]
    assert answer(*once)[-1] == ONCE


def test_violations_come_first(says: Says) -> None:
    """The cell has a guarantee that it does not keep."""
    violating = replace(SAFE, lost=(3,) * 5)
    says(answer(violating)[0])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"lost": (0, 7)}, ""),
        (
            {"compacted": 9, "lost": (5, 5), "lost_values": 0},
            "The last value of every key was kept",
        ),
        ({"group_missed": 0}, "The group missed no record"),
        ({"group_missed": 1}, "committed past up to 1 record that the group did not process"),
    ],
)
def test_each_kind_of_observation_is_told_if_trials_can_show_it(
    changes: dict[str, object], sentence: str
) -> None:
    """Records of unknown outcome are no loss, and compaction removes records by design."""
    answered = texts(with_trials(measured_sweep((SAFE,)).results, **changes))

    assert any(sentence in one for one in answered)
    if "lost" in changes:
        assert not any("acknowledged record" in one for one in answered)


SHOWS: dict[Guarantee, dict[str, object]] = {
    guarantee_named("no-acked-loss"): {"lost": (3, 3)},
    guarantee_named("no-duplicates"): {"duplicated": 2, "duplicates": 3},
    guarantee_named("order"): {"reordered": 4},
    guarantee_named("no-read-loss"): {"lost_reads": 5},
    guarantee_named("consumers-agree"): {"conflicting_reads": 6},
    guarantee_named("last-value-kept"): {"compacted": 9, "lost_values": 7},
    guarantee_named("atomicity"): {
        "transactions": TransactionCounts(
            committed=9, aborted=0, unknown=0, torn=1, aborted_visible=0
        )
    },
    guarantee_named("availability"): {"recovered_before_heal": False, "unavailable_ms": 4200.0},
    guarantee_named("read-availability"): {
        "recovered_before_heal": True,
        "readable_before_heal": False,
        "consumer_unavailable_ms": 3100.0,
    },
    guarantee_named("no-missed-records"): {"group_missed": 8},
    guarantee_named("no-reprocessing"): {"group_redelivered": 11},
}
"""Values of a trial that shows the opposite of each guarantee."""


def test_the_opposite_of_every_guarantee_is_reported_where_it_was_seen(says: Says) -> None:
    """Guaranteed or not: nothing that was seen is left out."""
    assert set(SHOWS) == set(GUARANTEES)
    said = {}
    for guarantee, values in SHOWS.items():
        results = with_trials(measured_sweep((SAFE,)).results, **values)
        (said[guarantee],) = (
            "".join(str(sentence) for sentence in _sentences(one))
            for one in statements(results)
            if isinstance(one, ObservedStatement) and one.guarantee is guarantee and one.groups
        )
    says(said.values())


def test_trials_that_cannot_tell_are_counted(says: Says) -> None:
    """An answer from four of five trials says so."""
    results = measured_sweep((SAFE,)).results
    first, *others = results.trials
    unknown = first.model_copy(update={"lost": (0, 4)})
    answered = texts(results.model_copy(update={"trials": (unknown, *others)}))

    says(answered[0])


def test_unknown_verdicts_are_counted() -> None:
    """Before the sentence on certainty."""
    results = measured_sweep((SAFE,), void=[f"000-{repeat:06d}" for repeat in range(4)]).results
    cell, *others = results.cells
    unknown = cell.judgements[0].model_copy(update={"verdict": Verdict.UNKNOWN})
    one = cell.model_copy(update={"judgements": (unknown, *cell.judgements[1:])})
    answered = texts(results.model_copy(update={"cells": (one, *others)}))

    assert answered[-2:] == ("1 verdict is unknown.", ONCE)


def test_what_a_void_trial_showed_is_told_although_no_share_counts_it(says: Says) -> None:
    """The answer says which trial it was, and never that nothing was measured."""
    results = measured_sweep((SAFE,), void=[f"000-{repeat:06d}" for repeat in range(5)]).results
    first, *others = results.trials
    duplicating = first.model_copy(update={"duplicated": 346, "duplicates": 346})
    answered = texts(results.model_copy(update={"trials": (duplicating, *others)}))

    assert answered[0] == (
        f"Seen in {first.trial_id}, which is void ({first.label}): 346 records with duplicates."
    )
    says(answered[-1])


def test_a_sweep_without_measured_trials_has_no_answer(says: Says) -> None:
    """Nothing is said to be zero."""
    results = with_trials(measured_sweep().results, attempted=None)
    says(texts(results))


def test_a_sweep_whose_control_was_not_clean_has_no_conclusion() -> None:
    """Whatever its cells show may come from the harness."""
    dirty = HarnessCheck(control_clean=False, sentences=("lost in the control",))
    results = measured_sweep().results.model_copy(update={"harness": dirty})

    assert len(texts(results)) == 1
    assert texts(results)[0].startswith("No conclusion is possible")


def test_without_any_fault_the_cells_without_one_are_the_answer(says: Says) -> None:
    """An experiment on costs injects nothing."""
    says(answer(WITHOUT_FAULT)[0])


def outages(trials: Sequence[TrialResult]) -> list[bool | None]:
    """Return whether each trial recovered before the heal."""
    return [trial.recovered_before_heal for trial in trials]


def test_availability_is_told_in_seconds() -> None:
    """Only for trials with a fault that could tell."""
    results = with_trials(
        measured_sweep((SAFE,)).results, recovered_before_heal=False, unavailable_ms=11763.0
    )
    assert outages(results.trials) == [False] * 6
    assert any(
        "accepted no records until the fault was healed, for up to 11.8 s (5 of 5 trials)" in one
        for one in texts(results)
    )
