"""Intervals by trial: what SciPy computes, how it is said, and how many trials a question takes."""

import json
import subprocess
import sys
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from experiments.verdicts.statistics import (
    LEAST_VALUES,
    Interval,
    Share,
    bound,
    distribution,
    estimate,
    precise_enough,
    share,
    trials_for_width,
    trials_needed,
    words,
)

counts = st.integers(1, 80).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))
values = st.lists(st.floats(0.001, 1e6), min_size=LEAST_VALUES, max_size=12)


@pytest.mark.parametrize(
    ("seen", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (5, 10, 0.1871, 0.8129),
        (1, 20, 0.0013, 0.2487),
        (10, 10, 0.6915, 1.0),
        (3, 5, 0.1466, 0.9473),
    ],
)
def test_a_share_has_the_interval_of_the_textbooks(
    seen: int, of: int, low: float, high: float
) -> None:
    """Clopper and Pearson's, to the four places that tables print."""
    interval = share(seen, of).interval
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@settings(max_examples=40)
@given(of=st.integers(1, 30), probability=st.integers(0, 10_000).map(lambda part: part / 10_000))
def test_the_interval_of_a_share_holds_its_probability_in_95_percent_of_sweeps_or_more(
    of: int, probability: float
) -> None:
    """Summed over every outcome that the trials can have, so it is no matter of luck."""
    intervals = [share(seen, of).interval for seen in range(of + 1)]
    covered = sum(
        float(binom.pmf(seen, of, probability))
        for seen, interval in enumerate(intervals)
        if interval.low <= probability <= interval.high
    )
    assert covered >= 0.95 - 1e-9


@given(counts)
def test_not_seen_mirrors_seen(count: tuple[int, int]) -> None:
    """What is known of k of n is known of the other n - k, the other way round."""
    seen, of = count
    one, other = share(seen, of).interval, share(of - seen, of).interval
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-9)


@given(counts)
def test_more_seen_moves_both_bounds_up(count: tuple[int, int]) -> None:
    """One more of as many trials never lowers a bound."""
    seen, of = count
    if seen < of:
        less, more = share(seen, of).interval, share(seen + 1, of).interval
        assert less.low <= more.low
        assert less.high <= more.high


def test_no_trial_tells_nothing() -> None:
    """The interval is all there is, and no figure is made up."""
    nothing = share(0, 0)
    assert (nothing.interval.low, nothing.interval.high) == (0.0, 1.0)
    assert bound(nothing) is None
    assert words(nothing) == "no trials"


@pytest.mark.parametrize(("seen", "of"), [(-1, 3), (4, 3)])
def test_a_share_of_more_than_there_are_is_refused(seen: int, of: int) -> None:
    """It is a mistake of the caller, and says so."""
    with pytest.raises(ValueError, match="is no share"):
        share(seen, of)


@given(st.integers(1, 500))
def test_none_of_n_has_the_exact_rule_of_three(of: int) -> None:
    """Below 1 - 0.05^(1/n), and above the complement where it was seen every time."""
    limit = 1 - 0.05 ** (1 / of)
    assert bound(share(0, of)) == pytest.approx(limit)
    assert bound(share(of, of)) == pytest.approx(1 - limit)


@pytest.mark.parametrize(
    ("given_share", "said"),
    [
        (share(0, 10), "0 of 10 trials: below 26 % at 95 %"),
        (share(0, 30), "0 of 30 trials: below 9.6 % at 95 %"),
        (share(0, 1000), "0 of 1000 trials: below 0.3 % at 95 %"),
        (share(5, 5), "5 of 5 trials: above 54 % at 95 %"),
        (share(1, 1), "1 of 1 trial: above 5 % at 95 %"),
        (share(3, 5), "3 of 5 trials (14 to 95 %)"),
        (share(0, 10, confidence=0.99), "0 of 10 trials: below 37 % at 99 %"),
    ],
)
def test_a_share_is_said_with_its_bounds_rounded_outwards(given_share: Share, said: str) -> None:
    """25.9 % becomes "below 26 %", 54.9 % becomes "above 54 %": what is said is true."""
    assert words(given_share) == said


@given(counts)
def test_what_is_said_never_claims_more_than_is_known(count: tuple[int, int]) -> None:
    """The printed bounds hold the computed ones."""
    known = share(*count)
    if bound(known) is None:
        low, high = words(known).split("(")[1].removesuffix(" %)").split(" to ")
        assert float(low) / 100 <= known.interval.low + 1e-9
        assert float(high) / 100 >= known.interval.high - 1e-9


def test_a_share_is_precise_enough_when_its_interval_is_narrower_than_asked() -> None:
    """The width decides, and not what was seen."""
    assert precise_enough(share(0, 36), 0.1)
    assert not precise_enough(share(0, 35), 0.1)
    assert precise_enough(share(36, 36), 0.1)
    assert not precise_enough(share(18, 36), 0.1)


@pytest.mark.parametrize(
    ("probability", "trials"), [(0.05, 59), (0.1, 29), (0.5, 5), (1.0, 1), (0.01, 299)]
)
def test_to_see_something_rare_once_takes_the_trials_of_the_textbooks(
    probability: float, trials: int
) -> None:
    """59 for one in twenty at 95 %, as the sampling tables have it."""
    assert trials_needed(probability) == trials


@given(probability=st.floats(0.001, 0.999), confidence=st.floats(0.5, 0.999))
def test_the_trials_needed_suffice_and_one_less_does_not(
    probability: float, confidence: float
) -> None:
    """The least number whose chance of at least one case reaches the confidence."""
    trials = trials_needed(probability, confidence)
    assert 1 - (1 - probability) ** trials >= confidence - 1e-6
    assert trials == 1 or 1 - (1 - probability) ** (trials - 1) < confidence + 1e-6


@pytest.mark.parametrize(
    ("probability", "confidence"), [(0.0, 0.95), (-0.1, 0.95), (1.1, 0.95), (0.5, 1.0), (0.5, 0.0)]
)
def test_no_number_of_trials_shows_what_cannot_happen(
    probability: float, confidence: float
) -> None:
    """The question is refused, and not answered with infinity."""
    with pytest.raises(ValueError, match="no number of trials"):
        trials_needed(probability, confidence)


@pytest.mark.parametrize(
    ("probability", "width"), [(0.0, 0.1), (1.0, 0.1), (0.5, 0.2), (0.2, 0.05)]
)
def test_the_trials_for_a_width_make_the_interval_that_narrow(
    probability: float, width: float
) -> None:
    """As many of them seen as the probability says, to the nearest trial."""
    trials = trials_for_width(probability, width)
    assert share(round(probability * trials), trials).interval.width < width * 1.02
    assert share(round(probability * (trials - 2)), trials - 2).interval.width > width * 0.98


def test_a_width_of_nothing_is_refused() -> None:
    """No number of trials knows a probability exactly."""
    with pytest.raises(ValueError, match="narrower than 0"):
        trials_for_width(0.5, 0)


@settings(max_examples=30)
@given(values)
def test_an_estimate_holds_its_median_inside_its_values(sample: list[float]) -> None:
    """Low, median and high in order, and none beyond what was measured."""
    found = estimate(sample)
    assert found is not None
    assert found.interval is not None
    rounding = 1e-12 * max(sample)  # of the quantiles' interpolation
    assert min(sample) - rounding <= found.interval.low <= found.median + rounding
    assert found.median - rounding <= found.interval.high <= max(sample) + rounding
    assert found.trials == len(sample)


@settings(max_examples=30)
@given(values, st.randoms(use_true_random=False))
def test_the_order_of_the_trials_does_not_matter(sample: list[float], random: Random) -> None:
    """Equal values give equal intervals, whoever came first."""
    shuffled = list(sample)
    random.shuffle(shuffled)
    assert estimate(shuffled) == estimate(sample)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sample", [[5.0] * 8, [0.0] * 5, [1.0, 1.0, 1.0, 1.0, 9.0]])
def test_equal_values_have_an_interval_and_give_no_warning(sample: list[float]) -> None:
    """Ties are the rule where an outage is a timeout."""
    found = estimate(sample)
    assert found is not None
    assert found.interval is not None


def test_too_few_trials_have_a_median_and_no_interval() -> None:
    """Four values do not tell how far the next may lie."""
    assert estimate([1.0, 2.0, 3.0, 4.0]) == estimate([4.0, 3.0, 2.0, 1.0])
    few = estimate([1.0, 2.0, 3.0, 4.0])
    assert few is not None
    assert (few.median, few.interval, few.trials) == (2.5, None, 4)
    assert estimate([]) is None


@pytest.mark.parametrize("trials", [5, 12])
def test_the_bootstrap_holds_the_true_median_nearly_as_often_as_it_says(trials: int) -> None:
    """Seeded sweeps from a known, skewed distribution: `docs/statistics.md` states how often."""
    random, hits, sweeps = np.random.default_rng(7), 0, 100
    for _ in range(sweeps):
        found = estimate(list(np.exp(random.normal(0, 1, trials))))
        assert found is not None
        assert found.interval is not None
        hits += found.interval.low <= 1 <= found.interval.high
    assert 0.88 <= hits / sweeps <= 0.99


def test_a_distribution_has_the_quartiles_of_its_trials() -> None:
    """Of 1, 2, 3, 4: 1.75, 2.5, 3.25 (Hyndman and Fan's type 7)."""
    found = distribution([4, 1, 3, 2])
    assert found is not None
    assert found.model_dump() == {
        "trials": 4,
        "minimum": 1,
        "lower_quartile": 1.75,
        "median": 2.5,
        "upper_quartile": 3.25,
        "maximum": 4,
    }
    assert distribution([]) is None


def test_an_interval_knows_its_width() -> None:
    """And it is no part of what is written down."""
    assert Interval(low=0.25, high=0.75).width == 0.5
    assert set(json.loads(Interval(low=0.25, high=0.75).model_dump_json())) == {
        "low",
        "high",
        "confidence",
    }


def test_importing_the_statistics_loads_no_scipy() -> None:
    """The command and the DAG's parser import them, and must start at once."""
    loaded = "import sys, experiments.verdicts.statistics, experiments.comparing.pairing, experiments.verdicts.judge; print('scipy' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", loaded], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )
