"""The stepped clock of `make hostile`, and the clock of a trial under it."""

import subprocess
import sys
from pathlib import Path

import pytest
from hostile.clock import Step, SteppedClock, stepped_clock
from support.needed_programs import missing

pytestmark = pytest.mark.skipif(bool(missing(["cc"])), reason=str(missing(["cc"])))
STEPPING = """
import struct, sys, threading, time
from pathlib import Path
from ackbench.experiments.trial.events.clock import ahead_of_wall_ns, now_ns
step_file = Path(sys.argv[1])
condition = threading.Condition()
def ahead_of_boot_ns():
    return now_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)
wall, own_ns = time.time(), ahead_of_boot_ns()
for step_s in (1800, -3600):
    step_file.write_bytes(struct.pack("=qq", 0, step_s))
    with condition:
        condition.wait(0.05)
    print(round((time.time() - wall) / 60), round((ahead_of_boot_ns() - own_ns) / 1e9), end=" ")
    print(round(ahead_of_wall_ns() / 60e9))
"""

WAITING = """
import ctypes, struct, sys, time
from pathlib import Path
class Instant(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
library = ctypes.CDLL(None)
condition, mutex = (ctypes.create_string_buffer(64) for _ in range(2))
library.cnd_init(condition), library.mtx_init(mutex, 0), library.mtx_lock(mutex)
def wait_until(instant_ns, due_s):
    deadline = Instant(*divmod(instant_ns, 10**9))
    library.cnd_timedwait(condition, mutex, ctypes.byref(deadline))
    late_s = time.monotonic() - due_s
    return "early" if late_s < -0.1 else "late" if late_s > 10 else "due"
for step_s in (1800, -1800):
    before_s, before_ns = time.monotonic(), time.time_ns()
    Path(sys.argv[1]).write_bytes(struct.pack("=qq", 0, step_s))
    after_s, after_ns = time.monotonic(), time.time_ns()
    print(wait_until(after_ns + 10**9, after_s + 1), end=" ")
    print(wait_until(before_ns + 3 * 10**9, before_s + 3), end=" ")
    Path(sys.argv[1]).write_bytes(struct.pack("=qq", 0, 0))
"""
"""Waits of C11, as librdkafka's, until instants that were computed after and before the step."""


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    """Return a clock that is not stepped, in a folder that separates libraries for the loader."""
    (tmp_path / "a folder").mkdir()
    return stepped_clock(tmp_path / "a folder")


def test_a_step_of_the_wall_clock_changes_neither_waits_nor_the_clock_of_a_trial(
    clock: SteppedClock,
) -> None:
    """Half an hour forwards, then an hour backwards. The wall clock is printed in minutes."""
    assert _printed_under(clock, STEPPING).splitlines() == ["30 0 -30", "-60 0 60"]


def test_nodes_of_kafka_have_a_step_of_their_own(clock: SteppedClock) -> None:
    """A program with the class of Kafka's nodes among its arguments is taken for one."""
    stepped = "import time; print(round(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME), -3))"
    clock.step_to(Step(brokers_s=0, others_s=0))
    before = float(_printed_under(clock, stepped))
    clock.step_to(Step(brokers_s=600_000, others_s=300_000))
    ahead_s = [
        float(_printed_under(clock, stepped, argument)) - before for argument in ("", "kafka.Kafka")
    ]
    assert [round(seconds, -5) for seconds in ahead_s] == [300_000, 600_000]


def test_a_wait_of_librdkafka_is_as_long_under_a_stepped_clock(clock: SteppedClock) -> None:
    """A wait that was not moved back ended after half an hour, or at once."""
    assert _printed_under(clock, WAITING).split() == ["due"] * 4


def _printed_under(clock: SteppedClock, program: str, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program, str(clock.step_file), *arguments],
        env=dict(clock.environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ran.stderr == ""
    return ran.stdout
