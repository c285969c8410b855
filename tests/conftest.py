"""What every test may use, and what is told at the end."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a shell's background job inherits that it is ignored, and interrupts are what some tests are about
sys.path.insert(
    0, str(Path(__file__).parent)
)  # the fakes, builders and references in tests/support/
settings.register_profile(
    "no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine is no failure
settings.load_profile("no clock")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what was counted from a worker (pytest-xdist) to the process that tells it."""
    from support import tally

    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counted"] = tally.counted()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker counted; one that died counted nothing, and fails its tests."""
    from support import tally

    for what, number in getattr(node, "workeroutput", {}).get("counted", {}).items():
        tally.count(what, number)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how much was checked."""
    from support import tally

    for line in tally.lines():
        terminalreporter.write_line(line)
