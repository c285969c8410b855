"""Findings from planted sweeps: supported, partly supported, refuted or inconclusive.

Also the text of a finding, and the format of its figures.
"""

from __future__ import annotations

import pytest
from support.builders.findings import (
    a_trial,
    change_trials,
    finding_input,
    finding_input_of_trials,
    planted_truth,
)
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.results.lessons.finding import (
    Conclusion,
    Finding,
    format_percent,
    share_with_loss,
)
from ackbench.experiments.results.lessons.findings.idempotent_retries import (
    find as find_idempotent_retries,
)
from ackbench.experiments.results.lessons.of_sweep import load_finding
from ackbench.experiments.results.models import Latencies, Quantiles
from ackbench.experiments.verdicts.statistics import MIN_TRIALS_FOR_INTERVAL, describe_share, share

IN_FLIGHT = "max.in.flight.requests.per.connection"


RISING_MS = (1.0, 2.0, 4.0)
"""Latency without a fault with acks 0, 1 and all."""


def acks(
    zero: int = 900,
    one: int = 800,
    every: int = 0,
    requested: int = 0,
    alone: int = 0,
    repeats: int = 6,
    p50_ms: tuple[float, float, float] = RISING_MS,
) -> Finding:
    """Return the finding on acks where each trial lost these numbers of records.

    Args:
        zero: with acks=0.
        one: with acks=1.
        every: with acks=all.
        requested: with acks=all, the leader alone in the ISR and a requested unclean election.
        alone: the same without the election.
        repeats: trials per cell.
        p50_ms: median latencies without a fault, with acks 0, 1 and all.
    """
    losses: list[tuple[int | str, str, int]] = [
        (0, "leader-crash-behind", zero),
        (1, "leader-crash-behind", one),
        ("all", "leader-crash-behind", every),
        ("all", "isr-shrunk-leader-crash", alone),
        ("all", "unclean-election", requested),
    ]
    levels: tuple[int | str, ...] = (0, 1, "all")
    trials = [
        a_trial({"acks": level, "fault": fault}, lost=(lost, lost))
        for level, fault, lost in losses
        for _ in range(repeats)
    ]
    trials += [
        a_trial(
            {"acks": level, "fault": "none", "enable.idempotence": False},
            latency_ms=Latencies(ack=quantiles(ms + repeat / 100)),
        )
        for level, ms in zip(levels, p50_ms, strict=True)
        for repeat in range(repeats)
    ]
    return load_finding("acks_levels")(finding_input_of_trials(trials))


def quantiles(p50_ms: float) -> Quantiles:
    """Return quantiles that are all the same."""
    values = dict.fromkeys(("p50", "p90", "p99", "p99_9", "max"), p50_ms)
    return Quantiles(records=9, negative_records=0, **values)


@pytest.mark.parametrize(
    ("found", "conclusion"),
    [
        (acks(), Conclusion.SUPPORTED),
        (acks(requested=5), Conclusion.PARTLY_SUPPORTED),
        (acks(alone=5), Conclusion.REFUTED),
        (acks(every=1), Conclusion.REFUTED),
        (acks(p50_ms=(1.0, 4.0, 2.0)), Conclusion.REFUTED),
        (acks(p50_ms=(1.0, 2.0, 2.0)), Conclusion.PARTLY_SUPPORTED),
        (acks(repeats=3), Conclusion.PARTLY_SUPPORTED),
        (acks(one=0), Conclusion.INCONCLUSIVE),
        (acks(repeats=2), Conclusion.INCONCLUSIVE),
    ],
)
def test_acks_levels_are_judged_by_their_losses_and_their_order(
    found: Finding, conclusion: Conclusion
) -> None:
    """acks=all must keep what the others lose; only a requested unclean election limits that."""
    assert found.conclusion is conclusion


def test_a_loss_after_an_unclean_election_is_named_with_its_request(says: Says) -> None:
    """Next to it stands what the same crash took without the election."""
    found = acks(requested=5)
    assert (
        f"in {describe_share(share(0, 6))} without an unclean election and in "
        f"{describe_share(share(6, 6))} after an unclean election that was requested"
        in found.sentence
    )
    says(found.remark)


def test_an_order_of_levels_that_is_not_shown_is_not_claimed(says: Says) -> None:
    """Three pairs are too few, whatever they show."""
    found = acks(repeats=3)
    says(found.sentence)
    says(found.remark)


def test_an_inconclusive_finding_names_the_repeats_that_are_enough(says: Says) -> None:
    """Other findings ask for none."""
    says(acks(repeats=2).text)
    assert acks().repeats_needed is None


def test_a_sentence_has_the_figures_of_the_sweep() -> None:
    """It has the share with its bound, and the lost records at the median."""
    assert f"acks=1 in {describe_share(share(6, 6))}, 800 records at the median" in acks().sentence
    assert f"acks=all in {describe_share(share(0, 6))}" in acks().sentence


def test_a_trial_that_cannot_tell_a_loss_is_in_no_share() -> None:
    """Only records of unknown outcome are absent; any of them may have been acknowledged."""
    cell: Cell = {"fault": "leader-crash"}
    trials = [a_trial(cell, lost=lost) for lost in ((0, 0), (0, 7), (3, 9))]
    observed = share_with_loss(trials)
    assert (observed.seen, observed.of, observed.unknown) == (1, 2, 1)
    assert describe_share(observed).startswith("1 to 2 of 3 trials (")


def test_a_finding_of_several_cases_is_a_list_in_terminal_and_markdown(says: Says) -> None:
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
    says(finding.markdown())
    says(finding.text)


def test_a_finding_of_one_sentence_is_not_a_list(says: Says) -> None:
    """The remark and the missing repeats follow it."""
    finding = Finding(
        lesson=1,
        conclusion=Conclusion.INCONCLUSIVE,
        sentences=("No trial was judged.",),
        remark="Too few.",
        repeats_needed=6,
    )

    says(finding.lines())
    says(finding.markdown())


RATE = "workload.rate_records_per_s"


def retries(
    off: tuple[int, int] = (50, 7),
    on: tuple[int, int] = (0, 0),
    slower: float = 0.8,
    taken: float = 0.5,
    repeats: int = 6,
) -> Finding:
    """Return the finding on idempotence.

    Args:
        off: duplicates and reordered records per trial, without idempotence.
        on: the same with idempotence.
        slower: throughput with idempotence, relative to without.
        taken: part of the load that is acknowledged in time without idempotence.
        repeats: trials per cell.
    """
    fault: Cell = {"fault": "relay-dropped", "fault.direction": "responses", IN_FLIGHT: 5}
    load: Cell = {"fault": "none", IN_FLIGHT: 5, RATE: 2000.0}
    faulty = [
        a_trial({"enable.idempotence": value, **fault}, duplicates=copies, reordered=inverted)
        for value, (copies, inverted) in ((False, off), (True, on))
        for _ in range(repeats)
    ]
    clean = [
        a_trial({"enable.idempotence": value, **load}, throughput_records_per_s=2000.0 * part)
        for value, part in ((False, taken), (True, taken * slower))
        for _ in range(repeats)
    ]
    return find_idempotent_retries(finding_input_of_trials([*faulty, *clean]))


@pytest.mark.parametrize(
    ("found", "conclusion"),
    [
        (retries(), Conclusion.SUPPORTED),
        (retries(slower=1.0), Conclusion.PARTLY_SUPPORTED),
        (retries(repeats=5), Conclusion.PARTLY_SUPPORTED),
        (retries(off=(50, 0)), Conclusion.PARTLY_SUPPORTED),
        (retries(slower=1.1), Conclusion.REFUTED),
        (retries(on=(1, 0)), Conclusion.REFUTED),
        (retries(on=(0, 1)), Conclusion.REFUTED),
        (retries(off=(0, 0)), Conclusion.INCONCLUSIVE),
        (retries(repeats=2), Conclusion.INCONCLUSIVE),
    ],
)
def test_idempotence_is_judged_by_duplicates_order_and_cost(
    found: Finding, conclusion: Conclusion
) -> None:
    """A duplicate or a reordered record with it refutes; neither without it is inconclusive."""
    assert found.conclusion is conclusion


def test_the_cost_is_a_ratio_and_the_pairs_that_agree(says: Says) -> None:
    """Six pairs of trials decide whether it is slower."""
    assert MIN_TRIALS_FOR_INTERVAL <= 6
    says(retries().sentence)
    says(retries().sentence)


def test_each_client_is_credited_with_what_it_showed() -> None:
    """One client duplicated under one fault, the other reordered under another."""
    cases = (("librdkafka", "responses", 50, 0), ("java", "requests", 0, 9))
    trials = [
        a_trial(
            {
                "client": client,
                "enable.idempotence": value,
                "fault": "relay-dropped",
                "fault.direction": dropped,
                IN_FLIGHT: 5,
            },
            duplicates=0 if value else copies,
            reordered=0 if value else inverted,
        )
        for client, dropped, copies, inverted in cases
        for value in (False, True)
        for _ in range(3)
    ]
    found = find_idempotent_retries(finding_input_of_trials(trials))
    assert found.conclusion is Conclusion.PARTLY_SUPPORTED
    assert found.remark.startswith(
        "Idempotence prevented duplicates with librdkafka and dropped responses. Idempotence "
        "prevented reordering with Java's client and dropped requests. The figures do not decide"
    )


def test_a_load_within_capacity_does_not_show_the_throughput(says: Says) -> None:
    """The throughput is then that of the load, with and without idempotence."""
    found = retries(taken=1.0, slower=0.99)
    says(found.sentence)
    says(found.remark)


def nodes(one: bool, three: bool, repeats: int = 3) -> Finding:
    """Return the finding on one node and three, by whether writes resumed before the heal."""
    found = finding_input(*(planted_truth({"nodes": count}, [0] * repeats) for count in (1, 3)))
    return load_finding("one_node_or_three")(
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
        (nodes(one=False, three=False), Conclusion.REFUTED),
        (nodes(one=False, three=True, repeats=2), Conclusion.INCONCLUSIVE),
    ],
)
def test_one_node_is_judged_by_writes_before_the_heal(
    found: Finding, conclusion: Conclusion
) -> None:
    """The claim needs several nodes that continue, and a single one that does not."""
    assert found.conclusion is conclusion


def test_a_node_is_judged_over_all_faults_and_described_by_each() -> None:
    """Two trials of each of two faults are enough; no sentence pools them."""
    found = load_finding("one_node_or_three")(
        finding_input_of_trials(
            [
                a_trial({"nodes": count, "fault": fault}, recovered_before_heal=count == 3)
                for count in (1, 3)
                for fault in ("leader-crash", "leader-pause")
                for _ in range(2)
            ]
        )
    )
    assert found.conclusion is Conclusion.SUPPORTED
    assert len(found.sentences) == 4


@pytest.mark.parametrize(
    ("part", "text"),
    [(0, "0 %"), (0.004, "0.4 %"), (0.364, "36 %"), (0.996, "99.6 %"), (1, "100 %")],
)
def test_a_few_are_not_rounded_to_none_nor_most_to_all(part: float, text: str) -> None:
    """A percentage has a decimal only next to 0 % and 100 %."""
    assert format_percent(part) == text
