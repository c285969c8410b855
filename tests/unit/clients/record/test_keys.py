"""Which key each record has: the compiled loop's and the ledger's say the same, and what was asked for is what comes out."""

from math import floor
from typing import Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.clients.librdkafka.library import ANY_PARTITION
from experiments.clients.producer.loop import Schedule, key_of, partition_of
from experiments.clients.record.keys import keys_of, pairs_of
from experiments.ledger.record import KeyOptions

SEQ = np.arange(4_000, dtype=np.int64)
Pairs = Literal["none", "own", "common"]
ANY_PAIRS: st.SearchStrategy[Pairs] = st.sampled_from(("none", "own", "common"))


def told(
    keying: KeyOptions, round_robin_partitions: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """What the compiled loop is told of it."""
    schedule = np.zeros(1, Schedule)
    schedule["keys"], schedule["hot_key_share"], schedule["round_robin_partitions"] = (
        keying.keys,
        keying.hot_key_share,
        round_robin_partitions,
    )
    schedule["pair_apart_records"], schedule["common_key"] = (
        keying.pair_apart_records if keying.pairs != "none" else 0,
        keying.pairs == "common",
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
def test_the_compiled_loop_gives_the_keys_that_the_ledger_tells(
    keys: int, share: float, pairs: Pairs, apart: int, begin: int
) -> None:
    """Record by record, wherever the schedule is."""
    keying = KeyOptions(keys=keys, pairs=pairs, pair_apart_records=apart, hot_key_share=share)
    schedule, seq = told(keying), SEQ[:300] + begin
    assert [key_of(schedule, one) for one in seq] == keys_of(seq, keying).tolist()


def test_what_nothing_is_said_of_takes_turns() -> None:
    """As it ever was."""
    assert keys_of(SEQ, KeyOptions(keys=64)).tolist() == (SEQ % 64).tolist()


@given(apart=st.integers(1, 700), keys=st.integers(2, 1_000))
def test_the_second_of_a_pair_comes_so_many_records_later(apart: int, keys: int) -> None:
    """Every pair once, the first before the second; with one key, or with two."""
    seq = SEQ[: len(SEQ) // (2 * apart) * 2 * apart]
    pair, second = pairs_of(seq, apart)
    first_at, second_at = seq[second == 0], seq[second == 1]
    assert pair[second == 0].tolist() == pair[second == 1].tolist() == list(range(len(seq) // 2))
    assert set((second_at - first_at).tolist()) == {apart}
    common, own = (
        keys_of(seq, KeyOptions(keys=keys, pairs=pairs, pair_apart_records=apart))
        for pairs in ("common", "own")
    )
    assert common[first_at].tolist() == common[second_at].tolist()
    assert (own[first_at] != own[second_at]).all()


@given(share=st.floats(0.01, 0.99), keys=st.integers(2, 50))
def test_the_hot_key_has_its_share_and_the_others_take_turns(share: float, keys: int) -> None:
    """To within one record."""
    found = np.bincount(keys_of(SEQ, KeyOptions(keys=keys, hot_key_share=share)), minlength=keys)
    assert found[0] == floor(len(SEQ) * share)
    assert found[1:].max() - found[1:].min() <= 1


def test_round_robin_is_named_by_the_producer_itself() -> None:
    """There is no such partitioner in librdkafka; without it the client decides."""
    assert [partition_of(told(KeyOptions(), 3), seq) for seq in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert partition_of(told(KeyOptions()), 5) == ANY_PARTITION
