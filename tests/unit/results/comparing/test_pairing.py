"""Statistics of pairs of trials with equal seeds."""

from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden_files import Says

from ackbench.experiments.results.comparing.findings import Missing, MissingCode
from ackbench.experiments.results.comparing.pairing import (
    MIN_PAIRS_FOR_TEST,
    paired_numbers,
    paired_shares,
)
from ackbench.experiments.results.comparing.sentences import missing_sentence

numbers = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=9)
answers = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


def _sides(pairs: list[tuple[float, float]]) -> tuple[Mapping[int, float], Mapping[int, float]]:
    return {seed: float(a) for seed, (a, _) in enumerate(pairs)}, {
        seed: float(b) for seed, (_, b) in enumerate(pairs)
    }


def _yes(
    a: int, b: int, both: int = 0, neither: int = 0
) -> tuple[Mapping[int, bool], Mapping[int, bool]]:
    pairs = (
        [(True, False)] * a
        + [(False, True)] * b
        + [(True, True)] * both
        + [(False, False)] * neither
    )
    return {seed: one for seed, (one, _) in enumerate(pairs)}, {
        seed: other for seed, (_, other) in enumerate(pairs)
    }


def test_a_cell_that_always_takes_twice_as_long_has_a_ratio_of_two() -> None:
    """Eight of eight pairs differ in the same direction: p = 2 / 2^8."""
    found = paired_numbers(*_sides([(float(x), 2.0 * x) for x in range(1, 9)]))
    assert found.trials == 8
    assert found.p_value == pytest.approx(2 / 2**8)
    assert found.effect == 1.0
    assert found.ratio_interval is not None
    assert (found.ratio, found.ratio_interval.width) == (2.0, 0.0)
    assert found.difference == 4.5
    assert found.missing == ()


def test_only_trials_of_the_same_seed_are_compared() -> None:
    """A trial whose partner is void or failed is in no pair."""
    found = paired_numbers({1: 10.0, 2: 20.0, 3: 1000.0}, {1: 11.0, 2: 22.0, 4: 0.0})
    assert found.trials == 2
    assert found.difference == 1.5


def test_two_cells_without_a_common_seed_have_no_difference(says: Says) -> None:
    """All values are unknown, with a reason."""
    found = paired_numbers({1: 1.0}, {2: 1.0})
    assert (found.trials, found.difference, found.ratio, found.p_value, found.effect) == (
        0,
        None,
        None,
        None,
        None,
    )
    says(tuple(map(missing_sentence, found.missing)))
    assert paired_shares({1: True}, {2: True}).difference is None


@pytest.mark.parametrize("pairs", [1, 4])
def test_few_pairs_have_a_median_and_neither_test_nor_effect_size(pairs: int) -> None:
    """With five pairs the least possible p is 1 in 16. One pair always has an effect of 1 or -1."""
    found = paired_numbers(*_sides([(1.0, 2.0)] * pairs))
    assert found.difference == 1
    assert (found.p_value, found.effect, found.difference_interval) == (None, None, None)
    assert found.missing == (
        Missing(code=MissingCode.FEW_DIFFERING_PAIRS, trials=pairs, differing=pairs),
        Missing(code=MissingCode.FEW_PAIRS_FOR_EFFECT, trials=pairs),
        Missing(code=MissingCode.FEW_PAIRS_FOR_INTERVAL, trials=pairs),
    )


def test_few_shares_have_no_effect_size() -> None:
    """One trial with a loss in `b` only says nothing on how often that happens."""
    assert paired_shares({1: False}, {1: True}).effect is None


def test_equal_cells_have_no_effect_and_no_test() -> None:
    """Equal pairs do not show which side is larger."""
    found = paired_numbers(*_sides([(3.0, 3.0)] * 10))
    assert (found.effect, found.p_value) == (0.0, None)
    assert found.difference_interval is not None
    assert (found.difference_interval.low, found.difference_interval.high) == (0.0, 0.0)


def test_there_is_no_ratio_to_zero() -> None:
    """An outage of zero has no multiple, and a reason states it."""
    found = paired_numbers(*_sides([(0.0, 5.0)] * 6))
    assert found.ratio is None
    assert found.missing[-1].code is MissingCode.NO_RATIO


@settings(max_examples=40)
@given(numbers)
def test_the_signed_rank_test_agrees_with_enumerating_all_signs(
    pairs: list[tuple[float, float]],
) -> None:
    """It covers ties among the sizes, which published tables do not."""
    differences = [b - a for a, b in pairs if a != b]
    found = paired_numbers(*_sides(pairs))
    if len(differences) < MIN_PAIRS_FOR_TEST:
        assert found.p_value is None
        return
    sizes = sorted(abs(value) for value in differences)
    ranks = [
        sum(i + 1 for i, size in enumerate(sizes) if size == abs(value)) / sizes.count(abs(value))
        for value in differences
    ]
    observed = sum(rank for rank, value in zip(ranks, differences, strict=True) if value > 0)
    sums = [
        sum(rank for rank, up in zip(ranks, signs, strict=True) if up)
        for signs in product([False, True], repeat=len(ranks))
    ]
    tail = min(
        sum(value >= observed - 1e-9 for value in sums),
        sum(value <= observed + 1e-9 for value in sums),
    )
    assert found.p_value == pytest.approx(min(1.0, 2 * tail / len(sums)))


@settings(max_examples=40)
@given(numbers)
def test_swapping_the_cells_swaps_the_sign_of_numbers(pairs: list[tuple[float, float]]) -> None:
    """The p is equal, difference and effect are opposite."""
    a, b = _sides(pairs)
    one, other = paired_numbers(a, b), paired_numbers(b, a)
    assert one.p_value == pytest.approx(other.p_value)
    assert one.effect == pytest.approx(-other.effect if other.effect is not None else None)
    assert other.difference is not None
    assert one.difference == -other.difference


@pytest.mark.parametrize(
    ("a", "b", "p"), [(2, 8, 0.109375), (0, 6, 0.03125), (5, 5, 1.0), (1, 9, 0.021484375)]
)
def test_mcnemar_has_the_p_of_textbooks(a: int, b: int, p: float) -> None:
    """The two-sided exact test compares the differing pairs with a fair coin."""
    assert paired_shares(*_yes(a, b, both=3, neither=4)).p_value == pytest.approx(p)


def test_pairs_are_counted_whatever_their_answers() -> None:
    """Both, only `a`, only `b` and neither add up to all pairs."""
    found = paired_shares(*_yes(2, 3, both=4, neither=5))
    assert found.trials == 14
    assert found.difference == pytest.approx(1 / 14)


@given(answers)
def test_swapping_the_cells_swaps_the_sign_of_shares(pairs: list[tuple[bool, bool]]) -> None:
    """The p is equal, the difference opposite, and the interval mirrored; it has the difference."""
    a, b = (
        {seed: x for seed, (x, _) in enumerate(pairs)},
        {seed: y for seed, (_, y) in enumerate(pairs)},
    )
    one, other = paired_shares(a, b), paired_shares(b, a)
    assert one.p_value == pytest.approx(other.p_value)
    assert one.difference == -(other.difference or 0)
    assert one.difference_interval is not None
    assert other.difference_interval is not None
    assert (one.difference_interval.low, one.difference_interval.high) == pytest.approx(
        (-other.difference_interval.high, -other.difference_interval.low)
    )
    assert one.difference_interval.low <= (one.difference or 0) <= one.difference_interval.high


@pytest.mark.parametrize(
    ("only_a", "only_b", "pairs"), [(0.1, 0.4, 10), (0.0, 0.0, 6), (0.3, 0.3, 12), (0.05, 0.9, 8)]
)
def test_the_interval_of_a_difference_covers_it_in_at_least_95_percent_of_sweeps(
    only_a: float, only_b: float, pairs: int
) -> None:
    """The coverage is summed over all possible outcomes of the pairs."""
    from scipy.stats import multinomial

    outcomes = [(a, b) for a in range(pairs + 1) for b in range(pairs + 1 - a)]
    weights = multinomial(pairs, [only_a, only_b, 1 - only_a - only_b])
    covered = 0.0
    for a, b in outcomes:
        interval = paired_shares(*_yes(a, b, neither=pairs - a - b)).difference_interval
        assert interval is not None
        covered += (
            float(weights.pmf([a, b, pairs - a - b]))
            if interval.low <= only_b - only_a <= interval.high
            else 0.0
        )
    assert covered >= 0.95 - 1e-9


def test_shares_with_few_differing_pairs_have_no_test(says: Says) -> None:
    """Five differing pairs of a hundred cannot reach p = 0.05."""
    found = paired_shares(*_yes(0, 5, neither=95))
    assert found.p_value is None
    says(missing_sentence(found.missing[0]))
