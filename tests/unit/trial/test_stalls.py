"""Stalls in planted samples of processes and of the machine, taken every 50 ms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from ackbench.experiments.ledger.stalls import Stall
from ackbench.experiments.trial.stalls import MachineStalls, ProcessStalls, WakeUp, any_ran
from ackbench.infra.process.samples import MachineSample, ProcessSample

MS = 1_000_000
EVERY_MS = 50
Found = list[tuple[str, int, int, int | None]]
"""Cause, begin and end in milliseconds, and amount."""


def described(stalls: Iterable[Stall]) -> Found:
    """Return the stalls without their process."""
    return [
        (stall.cause.value, stall.began_ns // MS, stall.ended_ns // MS, stall.amount)
        for stall in stalls
    ]


def of_process(samples: Sequence[ProcessSample], held: Sequence[bool] = ()) -> Found:
    """Return the stalls of a process that is sampled at 50, 100, 150, ... ms, from 0 on.

    Args:
        samples: of the process.
        held: whether the fault keeps it from running, at each sample; then never again.
    """
    number = 0

    def is_held() -> bool:
        return number < len(held) and held[number]

    stalls, found = ProcessStalls("producer 0", is_held, 0), list[Stall]()
    for number, sample in enumerate(samples):
        found += stalls.observe((number + 1) * EVERY_MS * MS, sample)
    return described([*found, *stalls.end((len(samples) + 1) * EVERY_MS * MS)])


def in_state(states: str) -> list[ProcessSample]:
    """Return samples of a process in these states in turn."""
    return [ProcessSample(state, 0) for state in states]


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ("SRTTTS", [("stopped", 150, 300, None)]),
        ("SttS", [("stopped", 100, 200, None)]),
        ("TTT", [("stopped", 50, 200, None)]),
        ("STSTTS", [("stopped", 200, 300, None)]),
        ("STTSSTTTS", [("stopped", 100, 200, None), ("stopped", 300, 450, None)]),
        ("STS", []),
        ("SRDSZ", []),
    ],
)
def test_a_process_is_stalled_while_it_is_stopped(states: str, found: Found) -> None:
    """From the first sample that shows it to the first that does not, if that is 100 ms or more."""
    assert of_process(in_state(states)) == found


@pytest.mark.parametrize(
    ("states", "held", "found"),
    [
        ("STTTS", [False, True, True, True, True], []),
        # The fault resumes it before it is sampled again.
        ("STTTS", [False, True, False, False, False], []),
        # It is registered only after the process was stopped.
        ("STTTS", [False, False, True, True, False], []),
        ("STTTSTTTS", [False, True, True, True, False], [("stopped", 300, 450, None)]),
    ],
)
def test_a_process_that_the_fault_keeps_from_running_is_not_stalled(
    states: str, held: list[bool], found: Found
) -> None:
    """Until it runs again: a later stop is one of its own."""
    assert of_process(in_state(states), held) == found


@pytest.mark.parametrize(
    ("waited_ms", "found"),
    [
        (99, []),
        (100, [("waited-for-cpu", 0, 100, None)]),
        (320, [("waited-for-cpu", -220, 100, None)]),
    ],
)
def test_a_process_is_stalled_while_it_waits_for_a_cpu_for_long(
    waited_ms: int, found: Found
) -> None:
    """Short waits may add up to the 50 ms between two samples, so one must have been longer."""
    assert of_process([ProcessSample("S", 0, 1), ProcessSample("R", 0, waited_ms * MS)]) == found


@pytest.mark.parametrize(
    ("runs", "found"), [(50, []), (25, []), (24, [("waited-for-cpu", 730, 1050, None)])]
)
def test_of_a_process_with_many_threads_all_must_have_waited(runs: int, found: Found) -> None:
    """One of a broker's threads waits, and the others run as often as usual, or not."""
    stalls = after_a_second(1000)
    sample = ProcessSample("S", 0, 320 * MS, runs, threads=20)
    assert described(stalls.observe(1050 * MS, sample)) == found


@pytest.mark.parametrize(
    ("samples", "found"),
    [
        # A few faults, while the main thread waits for the disk.
        ([("D", 3), ("D", 2), ("S", 0)], [("major-faults", 0, 100, 5)]),
        # Many of a process whose main thread waits for others, as that of a JVM.
        ([("S", 50), ("S", 70), ("S", 0)], [("major-faults", 0, 100, 120)]),
        ([("S", 49), ("S", 49), ("S", 49)], []),
        ([("D", 0), ("D", 0), ("D", 0)], []),
        ([("D", 3), ("S", 0), ("D", 3), ("S", 0)], []),
    ],
)
def test_a_process_is_stalled_while_it_waits_for_its_memory(
    samples: list[tuple[str, int]], found: Found
) -> None:
    """Only major faults read from a disk."""
    assert of_process([ProcessSample(state, faults) for state, faults in samples]) == found


def after_a_second(runs_per_s: int) -> ProcessStalls:
    """Return a process that was sampled for a second, in which it ran so often."""
    stalls = ProcessStalls("producer 0", lambda: False, 0)
    list(stalls.observe(1000 * MS, ProcessSample("S", 0, 0, runs_per_s)))
    return stalls


@pytest.mark.parametrize(
    ("runs", "within_ms", "ran"),
    [(50, 50, True), (25, 50, True), (24, 50, False), (50, 500, False), (0, 50, False)],
)
def test_a_process_has_run_if_it_got_a_cpu_half_as_often_as_before(
    runs: int, within_ms: int, *, ran: bool
) -> None:
    """It got one once per millisecond in the second before."""
    stalls = after_a_second(1000)
    list(stalls.observe((1000 + within_ms) * MS, ProcessSample("S", 0, 0, runs)))
    assert stalls.ran is ran


def test_how_often_a_process_usually_runs_follows_the_load() -> None:
    """Once the load is over, it runs rarely: that is no stall."""
    stalls, ran = after_a_second(1000), []
    for number in range(1, 100):
        list(stalls.observe((1000 + number * EVERY_MS) * MS, ProcessSample("S", 0, 0, 0)))
        ran.append(stalls.ran)
    assert ran[0] is False
    assert ran[-1] is None


@pytest.mark.parametrize("runs", [None, 19, 0])
def test_a_process_that_runs_rarely_tells_nothing(runs: int | None) -> None:
    """Nor does one of which the kernel does not tell when it runs."""
    stalls = after_a_second(19)
    list(stalls.observe(1050 * MS, ProcessSample("S", 0, 0, runs)))
    assert stalls.ran is None
    stalls = after_a_second(1000)
    list(stalls.observe(1050 * MS, ProcessSample("S", 0)))
    assert stalls.ran is None


@pytest.mark.parametrize(
    ("answers", "ran"),
    [
        ([], None),
        ([None], None),
        ([None, True], True),
        ([False, None], False),
        ([False, True], True),
    ],
)
def test_of_several_clients_one_that_ran_is_enough(
    answers: list[bool | None], *, ran: bool | None
) -> None:
    """Those that tell nothing do not count."""
    assert any_ran(answers) is ran


@pytest.mark.parametrize(
    ("late_ms", "waited_ms", "clients_ran", "found"),
    [
        (99, 0, False, []),
        (100, 0, False, [("machine", "frozen")]),
        (100, None, False, [("machine", "frozen")]),
        (100, 49, False, [("machine", "frozen")]),
        (100, 50, False, [("trial", "waited-for-cpu")]),
        (100, 50, True, [("trial", "waited-for-cpu")]),
        (100, 0, True, [("trial", "late")]),
        (100, 0, None, [("trial", "late")]),
    ],
)
def test_the_machine_was_frozen_if_no_client_ran_while_the_sampler_did_not(
    late_ms: int, waited_ms: int | None, clients_ran: bool | None, found: list[tuple[str, str]]
) -> None:
    """Otherwise only the process of the trial was late; a wait for a CPU is no frozen machine."""
    wake_up = WakeUp(
        (1000 + late_ms) * MS, 1000 * MS, None if waited_ms is None else waited_ms * MS, clients_ran
    )
    stalls = list(MachineStalls.woke(wake_up))
    assert [(stall.process, stall.cause) for stall in stalls] == found
    assert all(
        (stall.began_ns, stall.ended_ns) == (1000 * MS, (1000 + late_ms) * MS) for stall in stalls
    )


def test_what_stops_the_trial_stops_the_relays_in_it() -> None:
    """Clients ran, and nothing passed between them and the brokers."""
    (stall,) = MachineStalls.woke(WakeUp(1100 * MS, 1000 * MS, 0, clients_ran=True), "relay")
    assert (stall.process, stall.cause) == ("relay", "late")


def of_machine(samples: Sequence[MachineSample]) -> Found:
    """Return the stalls of a machine that is sampled at 50, 100, 150, ... ms, from 0 on."""
    stalls, found = MachineStalls(0), list[Stall]()
    for number, sample in enumerate(samples):
        found += stalls.observe((number + 1) * EVERY_MS * MS, sample)
    return described(found)


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ([0.0, 0.8, 1.0, 0.1], [("steal", 50, 150, None)]),
        ([0.79, 0.79, 0.79, 0.0], []),
        ([1.0, 0.0, 1.0, 0.0], []),
        ([None, None], []),
    ],
)
def test_a_machine_is_stalled_while_the_hypervisor_takes_its_cpus(
    shares: list[float | None], found: Found
) -> None:
    """Most of their time, for 100 ms or longer; unknown is not stalled."""
    assert of_machine([MachineSample(share, 0) for share in shares]) == found


@pytest.mark.parametrize(
    ("pages", "found"),
    [([0, 250, 1000, 0], [("swap", 50, 150, 1250)]), ([249, 249, 249, 0], []), ([None, None], [])],
)
def test_a_machine_is_stalled_while_it_swaps_in(pages: list[int | None], found: Found) -> None:
    """5,000 pages per second or more."""
    assert of_machine([MachineSample(0.0, swapped) for swapped in pages]) == found
