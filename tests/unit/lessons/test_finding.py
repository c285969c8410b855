"""Findings from planted sweeps: supported, partly supported, refuted or inconclusive.

Also the text of a finding, and the format of its figures.
"""

from __future__ import annotations

import pytest
from support.builders.findings import a_trial, change_trials, finding_input, planted_truth

from experiments.ledger.record import Cell
from experiments.lessons.finding import (
    Conclusion,
    Finding,
    format_percent,
    share_with_loss,
)
from experiments.lessons.findings.acks_levels import find as find_acks_levels
from experiments.lessons.findings.idempotent_retries import find as find_idempotent_retries
from experiments.lessons.findings.one_node_or_three import find as find_one_node_or_three
from experiments.verdicts.statistics import MIN_TRIALS_FOR_INTERVAL, describe_share

IN_FLIGHT = "max.in.flight.requests.per.connection"


def acks(
    zero: int = 900, one: int = 800, every: int = 0, alone: int = 0, repeats: int = 3
) -> Finding:
    """Return the finding on acks where each trial lost these numbers of records.

    Args:
        zero: with acks=0.
        one: with acks=1.
        every: with acks=all.
        alone: with acks=all, the leader alone in the ISR and an unclean election.
        repeats: trials per cell.
    """
    behind = {"fault": "leader-crash-behind"}
    levels = [
        planted_truth({"acks": level, **behind}, [lost] * repeats)
        for level, lost in ((0, zero), (1, one), ("all", every))
    ]
    return find_acks_levels(
        finding_input(
            *levels, planted_truth({"acks": "all", "fault": "unclean-election"}, [alone] * repeats)
        )
    )


@pytest.mark.parametrize(
    ("found", "conclusion"),
    [
        (acks(), Conclusion.SUPPORTED),
        (acks(alone=5), Conclusion.PARTLY_SUPPORTED),
        (acks(every=1), Conclusion.REFUTED),
        (acks(one=0), Conclusion.INCONCLUSIVE),
        (acks(repeats=2), Conclusion.INCONCLUSIVE),
    ],
)
def test_acks_levels_are_judged_by_their_losses(found: Finding, conclusion: Conclusion) -> None:
    """acks=all must keep what the others lose, also when the leader is alone in the ISR."""
    assert found.conclusion is conclusion


def test_an_inconclusive_finding_names_the_repeats_that_are_enough() -> None:
    """Other findings ask for none."""
    assert "6 repeats would be enough (--repeats 6)" in acks(repeats=2).text
    assert acks().repeats_needed is None


def test_a_sentence_has_the_figures_of_the_sweep() -> None:
    """It has the share with its bound, and the lost records at the median."""
    assert "acks=1 in 3 of 3 trials (above 29 %), 800 records at the median" in acks().sentence
    assert "acks=all in 0 of 3 trials (below 71 %)" in acks().sentence


def test_a_trial_that_cannot_tell_a_loss_is_in_no_share() -> None:
    """Only records of unknown outcome are absent; any of them may have been acknowledged."""
    cell: Cell = {"fault": "leader-crash"}
    trials = [a_trial(cell, lost=lost) for lost in ((0, 0), (0, 7), (3, 9))]
    observed = share_with_loss(trials)
    assert (observed.seen, observed.of, observed.unknown) == (1, 2, 1)
    assert describe_share(observed).startswith("1 to 2 of 3 trials (")


def test_a_finding_of_several_cases_is_a_list_in_terminal_and_markdown() -> None:
    """The cases stand between the conclusion and the remark."""
    finding = Finding(
        lesson=1,
        conclusion=Conclusion.PARTLY_SUPPORTED,
        lead="Two crashed.",
        sentences=("One lost 3.", "Another lost 4."),
        remark="Both lose.",
    )

    assert finding.lines() == [
        "partly supported: Two crashed.",
        "- One lost 3.",
        "- Another lost 4.",
        "Both lose.",
    ]
    assert (
        finding.markdown() == "**The claim is partly supported.**\n\nTwo crashed.\n\n"
        "- One lost 3.\n- Another lost 4.\n\nBoth lose."
    )
    assert finding.text == "Two crashed. One lost 3. Another lost 4. Both lose."


def test_a_finding_of_one_sentence_is_not_a_list() -> None:
    """The remark and the missing repeats follow it."""
    finding = Finding(
        lesson=1,
        conclusion=Conclusion.INCONCLUSIVE,
        sentences=("No trial was judged.",),
        remark="Too few.",
        repeats_needed=6,
    )

    assert finding.lines() == [
        "inconclusive: No trial was judged.",
        "Too few. 6 repeats would be enough (--repeats 6).",
    ]
    assert (
        finding.markdown() == "**The evidence is inconclusive.**\n\nNo trial was judged.\n\n"
        "Too few. 6 repeats would be enough (--repeats 6)."
    )


RATE = "workload.rate_records_per_s"


def retries(
    off: tuple[int, int] = (50, 7),
    on: tuple[int, int] = (0, 0),
    slower: float = 0.8,
    taken: float = 0.5,
) -> Finding:
    """Return the finding on idempotence.

    Args:
        off: duplicates and reordered records per trial, without idempotence.
        on: the same with idempotence.
        slower: throughput with idempotence, relative to without.
        taken: part of the load that is acknowledged in time without idempotence.
    """
    fault: Cell = {"fault": "relay-dropped", "fault.direction": "responses", IN_FLIGHT: 5}
    with_fault = [
        planted_truth({"enable.idempotence": value, **fault}, [0] * 6, [copies] * 6)
        for value, (copies, _) in ((False, off), (True, on))
    ]
    without_fault = [
        planted_truth(
            {"enable.idempotence": value, "fault": "none", IN_FLIGHT: 5, RATE: 2000.0}, [0] * 6
        )
        for value in (False, True)
    ]
    found = change_trials(
        finding_input(*with_fault, *without_fault),
        {"throughput_records_per_s": 2000.0 * taken},
        fault="none",
        enable__idempotence=False,
    )
    found = change_trials(
        found,
        {"throughput_records_per_s": 2000.0 * taken * slower},
        fault="none",
        enable__idempotence=True,
    )
    found = change_trials(
        found, {"reordered": off[1]}, fault="relay-dropped", enable__idempotence=False
    )
    return find_idempotent_retries(
        change_trials(found, {"reordered": on[1]}, fault="relay-dropped", enable__idempotence=True)
    )


@pytest.mark.parametrize(
    ("found", "conclusion"),
    [
        (retries(), Conclusion.SUPPORTED),
        (retries(slower=1.0), Conclusion.PARTLY_SUPPORTED),
        (retries(off=(50, 0)), Conclusion.PARTLY_SUPPORTED),
        (retries(on=(1, 0)), Conclusion.REFUTED),
        (retries(on=(0, 1)), Conclusion.REFUTED),
        (retries(off=(0, 0)), Conclusion.INCONCLUSIVE),
    ],
)
def test_idempotence_is_judged_by_duplicates_order_and_cost(
    found: Finding, conclusion: Conclusion
) -> None:
    """A duplicate or a reordered record with it refutes; neither without it is inconclusive."""
    assert found.conclusion is conclusion


def test_the_cost_is_a_ratio_with_its_interval() -> None:
    """Five pairs of trials are enough for an interval."""
    assert MIN_TRIALS_FOR_INTERVAL <= 6
    assert (
        "50 % (6 trials) were acknowledged in time without idempotence and 40 % (6 trials) with it"
        in retries().sentence
    )
    assert (
        "throughput with idempotence was 0.80 times (0.80 to 0.80 at 95 %) that without"
        in retries().sentence
    )


def test_a_load_within_capacity_does_not_show_the_throughput() -> None:
    """The throughput is then that of the load, with and without idempotence."""
    found = retries(taken=1.0, slower=0.99)
    assert (
        "the load is within the cluster's capacity and does not show its throughput"
        in found.sentence
    )
    assert (
        found.remark
        == "Idempotence prevents duplicates and keeps the order, which is lost without it; "
        "the figures do not show that it is slower."
    )


def nodes(one: bool, three: bool, repeats: int = 3) -> Finding:
    """Return the finding on one node and three, by whether writes resumed before the heal."""
    found = finding_input(*(planted_truth({"nodes": count}, [0] * repeats) for count in (1, 3)))
    return find_one_node_or_three(
        change_trials(
            change_trials(found, {"recovered_before_heal": one}, nodes=1),
            {"recovered_before_heal": three},
            nodes=3,
        )
    )


@pytest.mark.parametrize(
    ("found", "conclusion"),
    [
        (nodes(one=False, three=True), Conclusion.SUPPORTED),
        (nodes(one=True, three=True), Conclusion.REFUTED),
        (nodes(one=False, three=False), Conclusion.PARTLY_SUPPORTED),
        (nodes(one=False, three=True, repeats=2), Conclusion.INCONCLUSIVE),
    ],
)
def test_one_node_is_judged_by_writes_before_the_heal(
    found: Finding, conclusion: Conclusion
) -> None:
    """The claim needs several nodes that continue, and a single one that does not."""
    assert found.conclusion is conclusion


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.004, "0.4 %"), (0.364, "36 %"), (0.996, "99.6 %"), (1, "100 %")],
)
def test_a_few_are_not_rounded_to_none_nor_most_to_all(share: float, text: str) -> None:
    """A percentage has a decimal only next to 0 % and 100 %."""
    assert format_percent(share) == text
