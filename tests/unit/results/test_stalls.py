"""Stalls in words."""

from __future__ import annotations

from typing import Any

import pytest
from support.golden_files import Says

from ackbench.experiments.ledger.stalls import Stall, StallCause
from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.experiments.results.stalls import shorten_stalls, stall_sentence, stalls_under_load

S = 1_000_000_000
PHASES = Phases(load_begin_ns=10 * S, load_end_ns=20 * S, settled_ns=20 * S, healthy_ns=25 * S)


@pytest.mark.parametrize(
    ("process", "cause", "amount", "sentence"),
    [
        ("producer 0", StallCause.STOPPED, None, "producer 0 was stopped"),
        ("node 2", StallCause.WAITED_FOR_CPU, None, "node 2 waited for a CPU"),
        (
            "consumer 0",
            StallCause.MAJOR_FAULTS,
            1234,
            "consumer 0 waited for its memory (1,234 major page faults)",
        ),
        (
            "machine",
            StallCause.STEAL,
            None,
            "the machine's CPUs were given to other virtual machines (steal)",
        ),
        ("machine", StallCause.SWAP, 5000, "the machine swapped in 5,000 pages"),
        ("machine", StallCause.FROZEN, None, "the machine was frozen"),
        ("relay", StallCause.STOPPED, None, "relay was stopped"),
        ("relay", StallCause.LATE, None, "relay did not run"),
    ],
)
def test_a_stall_is_named_with_its_process_length_and_time(
    process: str, cause: StallCause, amount: int | None, sentence: str
) -> None:
    """Every cause has its words; the load began at 10 s."""
    stall = Stall(
        process=process,
        cause=cause,
        began_ns=round(14.3 * S),
        ended_ns=round(15.5 * S),
        amount=amount,
    )
    assert stall_sentence(stall, 10 * S) == f"{sentence} for 1.20 s, 4.3 s after the load began"


def test_a_stall_can_begin_before_the_load() -> None:
    """It is under load if it ends in it."""
    stall = Stall(process="node 1", cause=StallCause.STOPPED, began_ns=9 * S, ended_ns=11 * S)
    assert stall_sentence(stall, 10 * S).endswith("for 2.00 s, 1.0 s before the load began")


def a_row(began_s: float, ended_s: float, process: str = "producer 0") -> dict[str, Any]:
    """Return a row of `STALLS`."""
    times = {"began_ns": round(began_s * S), "ended_ns": round(ended_s * S)}
    return {"trial_id": "t", "process": process, "cause": "stopped", "amount": None, **times}


def test_only_stalls_of_the_load_until_the_cluster_is_healthy_are_named() -> None:
    """Neither those of the warm-up and of the final read, nor those of the trial's own process."""
    rows = [a_row(8, 10), a_row(9, 10.1), a_row(24, 30), a_row(25, 26), a_row(12, 13, "trial")]
    assert [stall.began_ns // S for stall in stalls_under_load(PHASES, rows)] == [9, 24]


def test_many_stalls_are_counted(says: Says) -> None:
    """Three are named."""
    assert shorten_stalls(["a", "b", "c"]) == "a; b; c"
    says(shorten_stalls(["a", "b", "c", "d"]))
