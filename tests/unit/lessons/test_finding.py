"""Findings from planted truth: a claim stands, stands in part or falls by what was seen, and is open where too little was."""

from __future__ import annotations

import pytest
from support.builders.findings import material, of_each_trial, truth

from experiments.ledger.record import Cell
from experiments.lessons.finding import Conclusion, Finding, percent
from experiments.lessons.findings.acks_levels import find as of_acks
from experiments.lessons.findings.idempotent_retries import find as of_retries
from experiments.lessons.findings.one_node_or_three import find as of_nodes
from experiments.verdicts.statistics import LEAST_VALUES

IN_FLIGHT = "max.in.flight.requests.per.connection"


def acks(
    zero: int = 900, one: int = 800, every: int = 0, alone: int = 0, repeats: int = 3
) -> Finding:
    """Return the finding on acks where each trial of a level lost so many."""
    behind = {"fault": "leader-crash-behind"}
    levels = [
        truth({"acks": level, **behind}, [lost] * repeats)
        for level, lost in ((0, zero), (1, one), ("all", every))
    ]
    return of_acks(
        material(*levels, truth({"acks": "all", "fault": "unclean-election"}, [alone] * repeats))
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
def test_acks_are_judged_by_what_each_level_lost(found: Finding, conclusion: Conclusion) -> None:
    """acks=all with nothing lost is a guarantee only where it lost nothing alone in the ISR either; without a loss by the others nothing is told apart."""
    assert found.conclusion is conclusion


def test_an_open_finding_says_how_many_repeats_would_do() -> None:
    """And one that is not open asks for none."""
    assert "repeats would do (--repeats 6)" in acks(repeats=2).text
    assert acks().repeats_needed is None


def test_a_sentence_is_made_of_the_sweeps_figures() -> None:
    """The share with its bound, and the records at the median."""
    assert (
        "acks=1 in 3 of 3 trials: above 36 % at 95 % (800 records at the median)" in acks().sentence
    )
    assert "acks=all in 0 of 3 trials: below 64 % at 95 %" in acks().sentence


def test_a_finding_of_several_cases_is_a_list_in_a_terminal_and_in_markdown() -> None:
    """A point for each case between what becomes of the claim and what follows."""
    finding = Finding(
        lesson=1,
        conclusion=Conclusion.PARTLY_SUPPORTED,
        lead="Two were killed.",
        sentences=("One lost 3.", "Another lost 4."),
        remark="So both lose.",
    )

    assert finding.lines() == [
        "partly supported: Two were killed.",
        "- One lost 3.",
        "- Another lost 4.",
        "So both lose.",
    ]
    assert (
        finding.markdown()
        == "**The claim is partly supported.**\n\nTwo were killed.\n\n- One lost 3.\n- Another lost 4.\n\nSo both lose."
    )
    assert finding.text == "Two were killed. One lost 3. Another lost 4. So both lose."


def test_a_finding_of_one_sentence_is_no_list() -> None:
    """And what is missing follows it."""
    finding = Finding(
        lesson=1,
        conclusion=Conclusion.INCONCLUSIVE,
        sentences=("No trial was judged.",),
        remark="Too few.",
        repeats_needed=6,
    )

    assert finding.lines() == [
        "inconclusive: No trial was judged.",
        "Too few. 6 repeats would do (--repeats 6).",
    ]
    assert (
        finding.markdown()
        == "**The evidence is inconclusive.**\n\nNo trial was judged.\n\nToo few. 6 repeats would do (--repeats 6)."
    )


RATE = "workload.rate_records_per_s"


def retries(
    off: tuple[int, int] = (50, 7),
    on: tuple[int, int] = (0, 0),
    slower: float = 0.8,
    taken: float = 0.5,
) -> Finding:
    """Return the finding on idempotence where each trial had so many copies and inversions, off and on, and so much of the load was taken in time."""
    fault: Cell = {"fault": "relay-dropped", "fault.direction": "responses", IN_FLIGHT: 5}
    struck = [
        truth({"enable.idempotence": value, **fault}, [0] * 6, [copies] * 6)
        for value, (copies, _) in ((False, off), (True, on))
    ]
    calm = [
        truth({"enable.idempotence": value, "fault": "none", IN_FLIGHT: 5, RATE: 2000.0}, [0] * 6)
        for value in (False, True)
    ]
    found = of_each_trial(
        material(*struck, *calm),
        {"throughput_records_per_s": 2000.0 * taken},
        fault="none",
        enable__idempotence=False,
    )
    found = of_each_trial(
        found,
        {"throughput_records_per_s": 2000.0 * taken * slower},
        fault="none",
        enable__idempotence=True,
    )
    found = of_each_trial(
        found, {"reordered": off[1]}, fault="relay-dropped", enable__idempotence=False
    )
    return of_retries(
        of_each_trial(found, {"reordered": on[1]}, fault="relay-dropped", enable__idempotence=True)
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
def test_idempotence_is_judged_by_copies_order_and_price(
    found: Finding, conclusion: Conclusion
) -> None:
    """A copy or an inversion with it is a fall; no copy without it shows nothing; no inversion, or no price, is a lesson half true."""
    assert found.conclusion is conclusion


def test_the_price_is_a_ratio_of_pairs_with_its_interval() -> None:
    """From five pairs on."""
    assert LEAST_VALUES <= 6
    assert (
        "50 % (6 trials) were acknowledged in time without idempotence and 40 % (6 trials) with it"
        in retries().sentence
    )
    assert "throughput was 0.80 times (0.80 to 0.80 at 95 %) as high with it" in retries().sentence


def test_a_load_that_the_cluster_takes_says_nothing_of_throughput() -> None:
    """It is the load's own, with and without."""
    found = retries(taken=1.0, slower=0.99)
    assert "the cluster takes so much, and nothing is said of its throughput" in found.sentence
    assert (
        found.remark
        == "So idempotence takes the copies away, and keeps the order that is lost without it; that it is slower is not to be seen here."
    )


def nodes(one: bool, three: bool, repeats: int = 3) -> Finding:
    """Return the finding on one node and three, of which each came back before the heal or not."""
    found = material(*(truth({"nodes": count}, [0] * repeats) for count in (1, 3)))
    return of_nodes(
        of_each_trial(
            of_each_trial(found, {"recovered_before_heal": one}, nodes=1),
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
def test_one_node_is_judged_by_who_came_back_without_it(
    found: Finding, conclusion: Conclusion
) -> None:
    """It needs several nodes that go on, and one that does not."""
    assert found.conclusion is conclusion


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.004, "0.4 %"), (0.364, "36 %"), (0.996, "99.6 %"), (1, "100 %")],
)
def test_a_few_of_many_are_not_none_and_nearly_all_are_not_all(share: float, text: str) -> None:
    """A share is told in whole percent, but for what would be rounded to nothing or to everything."""
    assert percent(share) == text
