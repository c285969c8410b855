"""Whether the hosts of a sweep explain differences between its trials: planted truth."""

import pytest
from support.builders.hosts import hosted_sweep, hosted_trial
from support.golden_files import Says
from support.tiers import examples

from ackbench.experiments.results.hosts import COMPARED_FIGURES, compare_hosts, host_sentences

SWEEPS = examples(300)


@pytest.mark.parametrize("hosts", ["ab", "abc"])
def test_a_host_that_is_30_percent_slower_is_named_with_how_much(hosts: str) -> None:
    """In nearly every sweep of five cells with six repeats, although cells differ tenfold."""
    found = [compare_hosts(hosted_sweep(seed, 1.3, hosts=hosts)) for seed in range(50)]
    named = [one for sweep in found if sweep is not None for one in sweep.differences]
    slower = [one for one in named if one.measure.startswith("latency_ms.ack")]
    assert len(slower) >= 96
    assert {one.higher for one in slower} == {hosts[-1]}
    ratios = sorted(one.ratio or 0 for one in slower)
    assert 1.2 < ratios[len(ratios) // 2] < 1.45


def test_equal_hosts_are_named_in_at_most_5_percent_of_sweeps() -> None:
    """All four measures together."""
    found = [compare_hosts(hosted_sweep(seed)) for seed in range(SWEEPS)]
    assert sum(bool(one and one.differences) for one in found) <= 0.05 * SWEEPS


def test_a_sweep_of_one_host_compares_none() -> None:
    """Nor does one whose trials have no host, sealed by an earlier version."""
    assert compare_hosts(hosted_sweep(1, hosts="a")) is None
    assert (
        compare_hosts([hosted_trial(0, "1", None, (5, 5)), hosted_trial(1, "1", "a", (5, 5))])
        is None
    )


def test_cells_that_ran_on_one_host_only_are_counted_and_compare_nothing(says: Says) -> None:
    """Their difference may be that of the hosts, and there is no way to see it."""
    trials = [hosted_trial(n, "1", "a", (5, 5)) for n in range(4)]
    found = compare_hosts([*trials, *(hosted_trial(n, "all", "b", (50, 50)) for n in range(4))])
    assert found is not None
    assert (found.cells, found.shared_cells, found.compared, found.differences) == (2, 0, (), ())
    says(list(host_sentences(found)))


def test_the_sentences_say_which_host_how_much_and_in_how_many_cells(says: Says) -> None:
    """And in what no difference was found."""
    found = compare_hosts(hosted_sweep(7, 2.0))
    assert found is not None
    whole, *differences, rest = host_sentences(found)
    says(whole)
    assert [line.split(" was ")[0] for line in differences] == ["hosts: ack p50", "hosts: ack p99"]
    assert all(
        line.endswith(
            " times as high on b as on a within 5 cells (p = 0.0001): the host explains a part of "
            "what trials differ in"
        )
        for line in differences
    )
    says(rest)


def test_a_measure_without_enough_values_is_not_compared() -> None:
    """A gap, a throughput: null in these trials."""
    trials = [hosted_trial(n, "1", "ab"[n % 2], (5.0 + n, 9.0 + n)) for n in range(20)]
    found = compare_hosts(trials)
    assert found is not None
    assert found.compared == tuple(measure.name for measure in COMPARED_FIGURES[:2])


def test_two_repeats_of_one_cell_cannot_show_a_difference() -> None:
    """However large it is: a half of all orders is as extreme."""
    found = compare_hosts([hosted_trial(0, "1", "a", (1, 1)), hosted_trial(1, "1", "b", (99, 99))])
    assert found is not None
    assert (found.shared_cells, found.compared) == (1, ())
