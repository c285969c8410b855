"""Tests of record keys: they follow the options, and the compiled producer loop agrees."""

from math import floor
from typing import Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.trial.clients.librdkafka.library import ANY_PARTITION
from ackbench.experiments.trial.clients.producer.loop import Schedule, key_of, partition_of
from ackbench.experiments.trial.clients.record.keys import record_keys, record_pairs

SEQ = np.arange(4_000, dtype=np.int64)
Pairs = Literal["none", "own", "common"]
ANY_PAIRS: st.SearchStrategy[Pairs] = st.sampled_from(("none", "own", "common"))


def schedule_with(
    options: Keys, round_robin_partitions: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Return the compiled loop's schedule with these key options."""
    schedule = np.zeros(1, Schedule)
    schedule["keys"], schedule["hot_key_share"], schedule["round_robin_partitions"] = (
        options.count,
        options.hot_key_share,
        round_robin_partitions,
    )
    schedule["pair_apart_records"], schedule["common_key"] = (
        options.pair_apart_records if options.pairs != "none" else 0,
        options.pairs == "common",
    )
    return schedule


@given(
    keys=st.integers(2, 100_000),
    share=st.floats(0, 0.99),
    pairs=ANY_PAIRS,
    apart=st.integers(1, 1_500),
    begin=st.integers(0, 2**40),
)
@settings(max_examples=60, deadline=None)
def test_compiled_loop_computes_the_same_keys(
    keys: int, share: float, pairs: Pairs, apart: int, begin: int
) -> None:
    """For each record, at any position in the schedule."""
    options = Keys(count=keys, pairs=pairs, pair_apart_records=apart, hot_key_share=share)
    schedule, seq = schedule_with(options), SEQ[:300] + begin
    assert [key_of(schedule, one) for one in seq] == record_keys(seq, options).tolist()


def test_keys_take_turns_by_default() -> None:
    """The key is the sequence number modulo the number of keys."""
    assert record_keys(SEQ, Keys(count=64)).tolist() == (SEQ % 64).tolist()


@given(apart=st.integers(1, 700), keys=st.integers(2, 1_000))
def test_records_of_a_pair_are_the_given_distance_apart(apart: int, keys: int) -> None:
    """Each pair occurs once, with one common key or two different ones."""
    seq = SEQ[: len(SEQ) // (2 * apart) * 2 * apart]
    pair, second = record_pairs(seq, apart)
    first_at, second_at = seq[second == 0], seq[second == 1]
    assert pair[second == 0].tolist() == pair[second == 1].tolist() == list(range(len(seq) // 2))
    assert set((second_at - first_at).tolist()) == {apart}
    common, own = (
        record_keys(seq, Keys(count=keys, pairs=pairs, pair_apart_records=apart))
        for pairs in ("common", "own")
    )
    assert common[first_at].tolist() == common[second_at].tolist()
    assert (own[first_at] != own[second_at]).all()


@given(share=st.floats(0.01, 0.99), keys=st.integers(2, 50))
def test_hot_key_has_its_share_and_the_other_keys_take_turns(share: float, keys: int) -> None:
    """The counts are exact to within one record."""
    options = Keys(count=keys, hot_key_share=share)
    counts = np.bincount(record_keys(SEQ, options), minlength=keys)
    assert counts[0] == floor(len(SEQ) * share)
    assert counts[1:].max() - counts[1:].min() <= 1


def test_producer_loop_assigns_partitions_in_turn_for_round_robin() -> None:
    """There is no such partitioner in librdkafka. By default the client chooses the partition."""
    schedule = schedule_with(Keys(), 3)
    assert [partition_of(schedule, seq) for seq in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert partition_of(schedule_with(Keys()), 5) == ANY_PARTITION
