"""Which batch a host runs next."""

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.records import a_spec

from ackbench.experiments.ledger.location import Location, open_location
from ackbench.experiments.messages.errors import StorageError
from ackbench.experiments.sweep import batch_choice
from ackbench.experiments.sweep.batch_choice import (
    in_order,
    keep_batches,
    release_ended_batches,
    take_batch,
)
from ackbench.experiments.sweep.plan import Plan

REPEATS = 4
CELLS = {f"{cell}{repeat}": cell for repeat in range(REPEATS) for cell in "abcd"}
HALVES = [
    tuple(f"{cell}{repeat}" for cell in cells)
    for repeat in range(REPEATS)
    for cells in ("ab", "cd")
]
"""Each repeat of four cells is two batches, always with the same cells."""


def run_by(hosts: list[str]) -> dict[str, Counter[str]]:
    """Return how many repeats of each cell each host has run, if they ask for batches in turn."""
    taken: dict[str, str] = {}
    ran: dict[str, Counter[str]] = {host: Counter() for host in hosts}
    for host in hosts:
        batch = in_order(HALVES, taken, host, CELLS)[0]
        taken[batch[0]] = host
        ran[host].update(CELLS[trial_id] for trial_id in batch)
    assert len(taken) == len(HALVES)
    return ran


def test_two_hosts_in_turn_run_as_many_repeats_of_each_cell() -> None:
    """In the plan's order one would run all of `a` and `b`, and the other all of `c` and `d`."""
    ran = run_by(["one", "other"] * REPEATS)
    assert {repeats for counts in ran.values() for repeats in counts.values()} == {REPEATS // 2}


@given(st.randoms(use_true_random=False))
def test_hosts_that_run_as_many_batches_in_any_order_differ_by_one_repeat_at_most(
    order: random.Random,
) -> None:
    """Whichever host is first to end a batch."""
    hosts = ["one", "other"] * REPEATS
    order.shuffle(hosts)
    ran = run_by(hosts)
    assert all(abs(ran["one"][cell] - ran["other"][cell]) <= 2 for cell in "abcd")


def test_a_host_that_is_alone_runs_the_batches_in_the_plans_order() -> None:
    """A host that has run nothing too."""
    assert in_order(HALVES, {}, "one", CELLS) == HALVES


@pytest.fixture
def sweep(tmp_path: Path) -> Location:
    """Return where a sweep's locks are."""
    return open_location(tmp_path.as_uri())


def plan() -> Plan:
    """Return the plan of the trials."""
    trials = (a_spec(trial_id=one, cell={"acks": cell}) for one, cell in CELLS.items())
    return Plan(
        sweep_id="s",
        experiment="e",
        question="?",
        seed=1,
        repeats=REPEATS,
        trials=tuple(trials),
        refused=(),
    )


def test_every_batch_is_taken_once(sweep: Location) -> None:
    """After the last one a task has nothing to run, also one that is delivered twice."""
    keep_batches(sweep, HALVES)
    taken = [take_batch(sweep, plan()) for _ in range(len(HALVES) + 1)]
    assert sorted(filter(None, taken)) == sorted(HALVES)
    assert taken[-1] == ()


def test_a_resumed_sweep_has_batches_of_its_own(sweep: Location) -> None:
    """Those of the earlier run are forgotten, with who has taken them."""
    keep_batches(sweep, HALVES)
    take_batch(sweep, plan())
    keep_batches(sweep, HALVES[:1])
    assert [take_batch(sweep, plan()) for _ in range(2)] == [HALVES[0], ()]


def test_without_a_list_a_task_runs_what_it_was_given(sweep: Location) -> None:
    """No batches were kept."""
    assert take_batch(sweep, plan()) is None


@pytest.mark.parametrize("content", [b"[[", b"{}", b"[1]", b"[[]]", b"\xff", b"[" * 100_000])
def test_a_damaged_list_is_named_when_a_task_was_cleared(sweep: Location, content: bytes) -> None:
    """Whoever can write the store can change it."""
    keep_batches(sweep, HALVES)
    sweep.at(batch_choice.BATCHES).write("list.json", content)
    with pytest.raises(StorageError, match=r"list\.json in .*batches is damaged: resume the sweep"):
        release_ended_batches(sweep, ["a0"])


@pytest.mark.parametrize("content", [b"[[", b"{}", b"[1]", b'[["../x"]]', b"[[]]", b"\xff"])
def test_a_damaged_list_is_named(sweep: Location, content: bytes) -> None:
    """With what to do; also one of trials that the plan does not have."""
    keep_batches(sweep, HALVES)
    sweep.at(batch_choice.BATCHES).write("list.json", content)
    with pytest.raises(StorageError, match=r"list\.json in .*batches is damaged: resume the sweep"):
        take_batch(sweep, plan())
