"""Intervals over trials: values, texts, and how many trials a question needs."""

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from ackbench.experiments.verdicts import statistics
from ackbench.experiments.verdicts.statistics import (
    MIN_TRIALS_FOR_DIFFERENCE,
    MIN_TRIALS_FOR_INTERVAL,
    Interval,
    Share,
    describe_share,
    estimate,
    is_precise_enough,
    median_change,
    median_interval,
    share,
    share_of,
    trials_for_width,
    trials_needed,
)

counts = st.integers(1, 80).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))
values = st.lists(st.floats(0.001, 1e6), min_size=MIN_TRIALS_FOR_INTERVAL, max_size=12)


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
def test_a_share_has_the_clopper_pearson_interval(
    seen: int, of: int, low: float, high: float
) -> None:
    """To the four decimals of published tables."""
    interval = share(seen, of).interval
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@settings(max_examples=40)
@given(of=st.integers(1, 30), probability=st.integers(0, 10_000).map(lambda part: part / 10_000))
def test_the_interval_of_a_share_contains_its_probability_in_at_least_95_percent_of_sweeps(
    of: int, probability: float
) -> None:
    """The coverage is summed over all outcomes, so the test is exact."""
    intervals = [share(seen, of).interval for seen in range(of + 1)]
    covered = sum(
        float(binom.pmf(seen, of, probability))
        for seen, interval in enumerate(intervals)
        if interval.low <= probability <= interval.high
    )
    assert covered >= 0.95 - 1e-9


def smallest_coverage(of: int) -> float:
    """Return the smallest probability with which the interval of a share contains the truth.

    Exact: the binomial probabilities of the outcomes whose interval contains p are added up, for
    each p of a grid of 1,999, and on both sides of every bound, where the coverage jumps.
    """
    intervals = [share(seen, of).interval for seen in range(of + 1)]
    bounds = np.array([bound for one in intervals for bound in (one.low, one.high)])
    grid = np.concatenate([np.linspace(0, 1, 2001), bounds - 1e-9, bounds + 1e-9])
    grid = grid[(grid > 0) & (grid < 1)]
    covered = sum(
        binom.pmf(seen, of, grid) * ((one.low <= grid) & (grid <= one.high))
        for seen, one in enumerate(intervals)
    )
    return float(np.min(covered))


@pytest.mark.parametrize("of", [3, 5, 10, 18])
def test_the_document_states_the_smallest_coverage_of_the_interval(of: int) -> None:
    """At least 95 %, rounded down to a tenth of a percent in docs/statistics.md."""
    coverage = smallest_coverage(of)
    assert coverage >= 0.95
    document = (Path(__file__).parents[3] / "docs" / "statistics.md").read_text()
    assert f"| {of} | {math.floor(coverage * 1000) / 10:.1f} % |" in document


@given(counts)
def test_the_interval_of_the_complement_is_mirrored(count: tuple[int, int]) -> None:
    """The interval of k of n mirrors that of n - k of n."""
    seen, of = count
    one, other = share(seen, of).interval, share(of - seen, of).interval
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-9)


@given(counts)
def test_one_more_observation_never_lowers_a_bound(count: tuple[int, int]) -> None:
    """With the same number of trials."""
    seen, of = count
    assume(seen < of)
    less, more = share(seen, of).interval, share(seen + 1, of).interval
    assert less.low <= more.low
    assert less.high <= more.high


def test_a_share_of_no_trials_is_unknown() -> None:
    """Its interval is 0 to 1."""
    nothing = share(0, 0)
    assert (nothing.interval.low, nothing.interval.high) == (0.0, 1.0)
    assert describe_share(nothing) == "no trials"


@pytest.mark.parametrize(("seen", "of"), [(-1, 3), (4, 3)])
def test_an_impossible_share_is_rejected(seen: int, of: int) -> None:
    """It is an error of the caller."""
    with pytest.raises(ValueError, match=r"invalid share: -?\d of 3 trials \(allowed: 0 to 3\)"):
        share(seen, of)


@given(st.integers(1, 500))
def test_zero_of_n_has_the_two_sided_bound(of: int) -> None:
    """The same interval as any other share: 2.5 % of the error on each side."""
    assert share(0, of).interval.high == pytest.approx(1 - 0.025 ** (1 / of))
    assert share(of, of).interval.low == pytest.approx(0.025 ** (1 / of))


@pytest.mark.parametrize(
    ("observed", "text"),
    [
        (share(0, 5), "0 of 5 trials (below 53 %)"),
        (share(0, 10), "0 of 10 trials (below 31 %)"),
        (share(0, 39), "0 of 39 trials (below 9.1 %)"),
        (share(0, 1000), "0 of 1000 trials (below 0.37 %)"),
        (share(5, 5), "5 of 5 trials (above 47 %)"),
        (share(1, 1), "1 of 1 trial (above 2.5 %)"),
        (share(0, 1), "0 of 1 trial (below 98 %)"),
        (share(3, 5), "3 of 5 trials (14 to 95 %)"),
        (share(0, 10, confidence=0.99), "0 of 10 trials (below 42 %)"),
        (share(0, 0, unknown=3), "0 to 3 of 3 trials (0 to 100 %)"),
        (share(0, 4, unknown=1), "0 to 1 of 5 trials (below 72 %)"),
        (share(4, 4, unknown=1), "4 to 5 of 5 trials (above 28 %)"),
        (share(1, 3, unknown=2), "1 to 3 of 5 trials (0.5 to 95 %)"),
    ],
)
def test_a_share_is_described_with_its_interval_rounded_outwards(
    observed: Share, text: str
) -> None:
    """52.2 % becomes "below 53 %", 47.8 % becomes "above 47 %"."""
    assert describe_share(observed) == text


@given(counts, st.integers(0, 5))
def test_a_description_never_claims_more_than_the_interval(
    count: tuple[int, int], unknown: int
) -> None:
    """The printed bounds enclose the computed ones."""
    known = share(*count, unknown=unknown)
    bounds = describe_share(known).split("(")[1].removesuffix(" %)")
    text = bounds.replace("below ", "0 to ")
    text = f"{text.removeprefix('above ')} to 100" if text.startswith("above ") else text
    low, high = text.split(" to ")
    assert float(low) / 100 <= known.interval.low + 1e-9
    assert float(high) / 100 >= known.interval.high - 1e-9


@given(counts, st.integers(0, 5))
def test_the_interval_encloses_that_of_every_outcome_of_the_unknown_trials(
    count: tuple[int, int], unknown: int
) -> None:
    """So no choice of the trials that cannot tell makes it claim too much."""
    seen, of = count
    interval = share(seen, of, unknown=unknown).interval
    for more in range(unknown + 1):
        known = share(seen + more, of + unknown).interval
        assert interval.low <= known.low
        assert known.high <= interval.high


def test_a_trial_that_cannot_tell_counts_as_unknown() -> None:
    """It is neither in `seen` nor in `of`."""
    observed = share_of([True, None, False, None])
    assert (observed.seen, observed.of, observed.unknown, observed.trials) == (1, 2, 2, 4)
    assert observed == share(1, 2, unknown=2)


def test_a_negative_number_of_unknown_trials_is_rejected() -> None:
    """It is an error of the caller."""
    with pytest.raises(ValueError, match=r"-1 unknown trials \(allowed: 0 or more\)"):
        share(0, 3, unknown=-1)


def test_a_share_is_precise_enough_when_its_interval_is_narrower_than_requested() -> None:
    """The width decides, wherever the interval is."""
    assert is_precise_enough(share(0, 36), 0.1)
    assert not is_precise_enough(share(0, 35), 0.1)
    assert is_precise_enough(share(36, 36), 0.1)
    assert not is_precise_enough(share(18, 36), 0.1)


@pytest.mark.parametrize(
    ("probability", "trials"), [(0.05, 59), (0.1, 29), (0.5, 5), (1.0, 1), (0.01, 299)]
)
def test_a_rare_event_needs_the_published_number_of_trials(probability: float, trials: int) -> None:
    """For example 59 trials for 1 in 20 at 95 %, as in sampling tables."""
    assert trials_needed(probability) == trials


@given(probability=st.floats(0.001, 0.999), confidence=st.floats(0.5, 0.999))
def test_the_trials_needed_suffice_and_one_fewer_does_not(
    probability: float, confidence: float
) -> None:
    """It is the smallest number whose chance of at least one event reaches the confidence."""
    trials = trials_needed(probability, confidence)
    assert 1 - (1 - probability) ** trials >= confidence - 1e-6
    assert trials == 1 or 1 - (1 - probability) ** (trials - 1) < confidence + 1e-6


@pytest.mark.parametrize(
    ("probability", "confidence"), [(0.0, 0.95), (-0.1, 0.95), (1.1, 0.95), (0.5, 1.0), (0.5, 0.0)]
)
def test_an_impossible_probability_or_confidence_is_rejected(
    probability: float, confidence: float
) -> None:
    """The answer would be infinite or undefined."""
    with pytest.raises(ValueError, match="no number of trials"):
        trials_needed(probability, confidence)


@pytest.mark.parametrize(
    ("probability", "width"), [(0.0, 0.1), (1.0, 0.1), (0.5, 0.2), (0.2, 0.05)]
)
def test_the_trials_for_a_width_make_the_interval_that_narrow(
    probability: float, width: float
) -> None:
    """If the share of observations is the expected one, to the nearest trial."""
    trials = trials_for_width(probability, width)
    assert share(round(probability * trials), trials).interval.width < width * 1.02
    assert share(round(probability * (trials - 2)), trials - 2).interval.width > width * 0.98


@pytest.mark.parametrize(("probability", "width"), [(0.5, 0), (-0.5, 0.1), (1.5, 0.1)])
def test_what_no_number_of_trials_achieves_is_rejected(probability: float, width: float) -> None:
    """They determine no probability exactly, and none is outside 0 to 1."""
    with pytest.raises(ValueError, match=f"probability {probability} narrower than {width} "):
        trials_for_width(probability, width)


@settings(max_examples=30)
@given(values)
def test_the_interval_of_an_estimate_contains_its_median(sample: list[float]) -> None:
    """Low, median and high are ordered, and inside the range of the values."""
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
    """Equal values give equal intervals in any order."""
    shuffled = list(sample)
    random.shuffle(shuffled)
    assert estimate(shuffled) == estimate(sample)


@pytest.mark.parametrize("sample", [[5.0] * 8, [0.0] * 6, [1.0, 1.0, 1.0, 1.0, 1.0, 9.0]])
def test_equal_values_have_an_interval(sample: list[float]) -> None:
    """Ties are common: an outage often lasts exactly one timeout."""
    found = estimate(sample)
    assert found is not None
    assert found.interval is not None


def test_too_few_trials_have_a_median_and_no_interval() -> None:
    """Even the full range of five values contains the median in only 94 % of sweeps."""
    few = estimate([5.0, 1.0, 2.0, 3.0, 4.0])
    assert few is not None
    assert (few.median, few.interval, few.trials) == (3, None, 5)
    assert estimate([]) is None


@pytest.mark.parametrize(
    ("trials", "rank"), [(6, 1), (7, 1), (8, 1), (9, 2), (10, 2), (18, 5), (25, 8), (100, 40)]
)
def test_the_interval_of_a_median_is_that_of_the_sign_test(trials: int, rank: int) -> None:
    """One rank further in, fewer heads than that would not be rare enough (SciPy's binomial)."""
    interval = median_interval(range(1, trials + 1))
    assert interval is not None
    assert (interval.low, interval.high) == (rank, trials + 1 - rank)
    assert 2 * binom.cdf(rank - 1, trials, 0.5) <= 0.05 < 2 * binom.cdf(rank, trials, 0.5)


Draw = Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]
DRAWS: dict[str, Draw] = {
    "log-normal": lambda random, n: np.exp(random.normal(0, 1, n)),
    "uniform": lambda random, n: random.uniform(0, 2, n),
    "bimodal": lambda random, n: 1 + random.choice([-1, 1], n) * random.uniform(0.001, 1, n),
}
"""Distributions whose median is 1."""


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("trials", [6, 10, 18])
def test_the_interval_contains_the_true_median_in_at_least_95_percent_of_sweeps(
    draw: Draw, trials: int
) -> None:
    """2,000 seeded sweeps of each; `docs/statistics.md` states the exact coverage."""
    random, hits = np.random.default_rng(7), 0
    for _ in range(2000):
        interval = median_interval(list(draw(random, trials)))
        assert interval is not None
        hits += interval.low <= 1 <= interval.high
    assert hits >= 0.95 * 2000


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
@pytest.mark.parametrize("trials", [7, 10, 18])
def test_the_intervals_of_two_medians_contain_the_true_change_as_often(
    draw: Draw, trials: int
) -> None:
    """The second cell has three times the values of the first: a difference of 2, a ratio of 3."""
    random, differences, ratios = np.random.default_rng(7), 0, 0
    for _ in range(2000):
        difference, ratio = median_change(
            list(draw(random, trials)), list(3 * draw(random, trials))
        )
        assert difference is not None
        assert ratio is not None
        differences += difference.low <= 2 <= difference.high
        ratios += ratio.low <= 3 <= ratio.high
    assert differences >= 0.95 * 2000
    assert ratios >= 0.95 * 2000


def test_two_medians_of_too_few_trials_have_no_interval_and_one_at_zero_no_ratio() -> None:
    """Six trials are enough for one median, not for the change of two."""
    few, enough = [1.0] * 6, [1.0] * 7
    assert median_change(few, enough) == median_change(enough, few) == (None, None)
    assert median_change([0.0] * 7, enough) == (Interval(low=1, high=1), None)


def test_an_interval_knows_its_width() -> None:
    """The width is computed, and not part of the JSON."""
    assert Interval(low=0.25, high=0.75).width == 0.5
    assert set(json.loads(Interval(low=0.25, high=0.75).model_dump_json())) == {
        "low",
        "high",
        "confidence",
    }


def test_importing_the_statistics_loads_no_scipy() -> None:
    """The CLI and the DAG parser import them, and must start fast."""
    program = (
        "import sys; from ackbench.experiments.verdicts import judge, statistics; "
        "from ackbench.experiments.results.comparing import pairing; print('scipy' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "False"
    )


def test_a_median_has_an_interval_from_as_many_trials_on_as_are_asked_for() -> None:
    """Messages and the plan name the same numbers as the computation needs."""
    for trials in range(1, 12):
        observed = [float(trial) for trial in range(1, trials + 1)]
        difference, _ = median_change(observed, observed)
        assert (median_interval(observed) is not None) == (trials >= MIN_TRIALS_FOR_INTERVAL)
        assert (difference is not None) == (trials >= MIN_TRIALS_FOR_DIFFERENCE)


def test_an_interval_that_contains_the_median_exactly_as_often_as_asked_is_one() -> None:
    """Two values lie on both sides of the median in one sweep of two."""
    assert median_interval([1.0, 2.0], 0.5) == Interval(low=1, high=2, confidence=0.5)


def test_a_change_reaches_from_the_nearest_to_the_farthest_bounds() -> None:
    """Of seven trials, the lowest and the highest; a value of 0 in the first cell has no ratio."""
    first, second = [float(value) for value in range(1, 8)], [float(v) for v in range(11, 18)]
    assert median_change(first, second) == (Interval(low=4, high=16), Interval(low=11 / 7, high=17))
    assert median_change([0.0, *first[1:]], second) == (Interval(low=4, high=17), None)


def test_a_share_whose_interval_has_the_requested_width_is_not_narrower() -> None:
    """The bound is excluded."""
    observed = share(2, 30)
    assert not is_precise_enough(observed, observed.interval.width)


@pytest.mark.parametrize(
    ("probability", "confidence", "trials"), [(0.5, 0.75, 2), (0.5, 0.5, 1), (0.5, 1e-12, 1)]
)
def test_a_number_of_trials_that_is_whole_is_not_rounded_up(
    probability: float, confidence: float, trials: int
) -> None:
    """And it is never 0."""
    assert trials_needed(probability, confidence) == trials


@pytest.mark.parametrize("trials", [1, 8, 12, 100])
def test_the_fewest_trials_whose_interval_is_narrower_are_found(trials: int) -> None:
    """Narrower than with this number of them: one more."""
    width = statistics._expected_width(0.5, trials, 0.95)
    assert trials_for_width(0.5, width) == trials + 1
    assert trials_for_width(0.5, 2) == 1


def test_the_expected_width_is_that_of_the_exact_interval() -> None:
    """Where the expected number of observations is whole."""
    for seen, of in [(0, 10), (1, 10), (5, 10), (10, 10)]:
        width = statistics._expected_width(seen / of, of, 0.95)
        assert width == pytest.approx(share(seen, of).interval.width)


@pytest.mark.parametrize(
    ("fraction", "up", "down"),
    [
        (0.10551, "11", "10"),
        (0.09551, "9.6", "9.5"),
        (0.012345, "1.3", "1.2"),
        (0.0098765, "0.99", "0.98"),
        (0.1, "10", "10"),
    ],
)
def test_a_percentage_has_as_many_digits_as_its_size_needs(
    fraction: float, up: str, down: str
) -> None:
    """Rounded outwards."""
    assert statistics._percent(fraction, up=True) == up
    assert statistics._percent(fraction, up=False) == down
