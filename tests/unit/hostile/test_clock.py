"""The stepped clock of `make hostile`, and the clock of a trial under it."""

import subprocess
import sys
from pathlib import Path

import pytest
from hostile.clock import SteppedClock, missing_compiler, stepped_clock

pytestmark = pytest.mark.skipif(bool(missing_compiler()), reason=str(missing_compiler()))
STEPPING = """
import struct, sys, threading, time
from pathlib import Path
from experiments.events.clock import ahead_of_wall_ns, now_ns
step_file = Path(sys.argv[1])
condition = threading.Condition()
wall, own = time.time(), now_ns()
for step_s in (1800, -3600):
    step_file.write_bytes(struct.pack("=q", step_s))
    with condition:
        condition.wait(0.05)
    print(round((time.time() - wall) / 60), (now_ns() - own) // 10**9, end=" ")
    print(round(ahead_of_wall_ns() / 60e9))
"""


@pytest.fixture
def clock(tmp_path: Path) -> SteppedClock:
    """Return a clock that is not stepped."""
    return stepped_clock(tmp_path)


def test_a_step_of_the_wall_clock_changes_neither_waits_nor_the_clock_of_a_trial(
    clock: SteppedClock,
) -> None:
    """Half an hour forwards, then an hour backwards. The wall clock is printed in minutes."""
    ran = subprocess.run(
        [sys.executable, "-c", STEPPING, str(clock.step_file)],
        env=dict(clock.environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (ran.stdout.splitlines(), ran.stderr) == (["30 0 -30", "-60 0 60"], "")
