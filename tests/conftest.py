"""What every test may use, and what is told at the end."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the stand-ins in tests/standins/


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell how much was checked."""
    from standins import tally

    for line in tally.lines():
        terminalreporter.write_line(line)
