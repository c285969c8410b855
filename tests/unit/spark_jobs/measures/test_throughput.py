"""Rates over the load window, on a few rows."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ackbench.experiments.ledger.trial_manifest import Phases
from ackbench.spark_jobs.measures.read_committed import unit_of
from ackbench.spark_jobs.measures.throughput import Throughput
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

S = 10**9


def window(begin_ns: int, end_ns: int) -> Phases:
    """Return the phases of a trial without a fault."""
    return Phases(load_begin_ns=begin_ns, load_end_ns=end_ns, settled_ns=9 * S, healthy_ns=9 * S)


def throughput(settled: Sequence[tuple[int | None, str]], phases: Phases) -> Throughput:
    """Return the counts of attempts that settled at these times with these outcomes."""
    attempts = [
        PlantedAttempt(0, seq, outcome, settled_ns=at) for seq, (at, outcome) in enumerate(settled)
    ]
    trial = PlantedTrial("t", attempts, phases=phases)
    return Throughput.of(unit_of(trial.rows()))


def test_acknowledgements_count_inside_the_load_window() -> None:
    """Attempts that were acknowledged later, or not at all, count as attempted."""
    settled = [(2 * S, "acked"), (5 * S, "acked"), (1 * S, "rejected"), (None, "unknown")]
    phases = window(1 * S, 3 * S)
    assert throughput(settled, phases).rates(phases) == {
        "offered_records_per_s": 2.0,
        "throughput_records_per_s": 0.5,
    }


def test_a_window_of_length_zero_has_no_rate() -> None:
    """A single record has a time, but no rate; nor has a load without records."""
    none = {"offered_records_per_s": None, "throughput_records_per_s": None}
    assert throughput([(1, "acked")], window(1, 1)).rates(window(1, 1)) == none
    assert throughput([], window(0, S)).rates(window(0, S)) == none


SETTLED = st.lists(
    st.tuples(st.none() | st.integers(0, 4 * S), st.sampled_from(["acked", "rejected", "unknown"])),
    max_size=8,
)


@given(SETTLED, SETTLED)
def test_counts_of_parts_add_up_to_those_of_all_attempts(
    one: list[tuple[int | None, str]], other: list[tuple[int | None, str]]
) -> None:
    """In any order; an acknowledgement at the end of the load is in time."""
    phases = window(0, 3 * S)
    parts = [throughput(part, phases) for part in (one, other)]
    in_time = [at for at, outcome in (*one, *other) if outcome == "acked" and at is not None]
    expected = (len(one) + len(other), sum(at <= 3 * S for at in in_time))
    both = parts[0] + parts[1], parts[1] + parts[0], throughput([*one, *other], phases)
    assert [(found.attempted, found.acked_in_time) for found in both] == [expected] * 3
