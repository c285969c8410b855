"""What every test may use, and what is told at the end."""

import signal
import sys
from pathlib import Path

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits that it is ignored, and interrupts are what some tests are about
sys.path.insert(0, str(Path(__file__).parent))  # the stand-ins in tests/standins/


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how much was checked."""
    from standins import tally

    for line in tally.lines():
        terminalreporter.write_line(line)
