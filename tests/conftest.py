"""Settings of all tests, and a summary of what the tests counted."""

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A shell's background job inherits SIG_IGN for SIGINT, and some tests send interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The fakes, builders and references are in tests/support.
sys.path.insert(0, str(Path(__file__).parent))
from support.isolation import isolate  # noqa: E402

TEMPORARY = isolate()
pytest_plugins = [
    "support.failures",
    "support.golden_files",
    "support.leftovers",
    "support.order",
    "support.tiers",
]
# A busy machine must not fail a test.
settings.register_profile(
    "no deadline", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no deadline")


def pytest_collection_finish() -> None:
    """Spare the garbage collector what stays until the end: modules, and thousands of tests."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs root for other users."""
    if os.geteuid() and item.get_closest_marker("root"):
        pytest.skip("not root")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the counts of a worker (pytest-xdist) to the main process."""
    from support import tally

    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counted"] = tally.counts()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the counts of a worker; a crashed worker has none, and its tests fail."""
    from support import tally

    for name, number in getattr(node, "workeroutput", {}).get("counted", {}).items():
        tally.count(name, number)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the counts, and what would end the skips."""
    from support import tally
    from support.needed_programs import packages_for

    for line in tally.summary_lines():
        terminalreporter.write_line(line)
    reasons = [report.longrepr[-1] for report in terminalreporter.stats.get("skipped", [])]
    without = [reason for reason in reasons if packages_for([reason])]
    if without:
        packages = " ".join(packages_for(without))
        terminalreporter.write_line(
            f"{len(without)} of {len(reasons)} skips are for want of programs: "
            f"apt-get install --no-install-recommends {packages}",
            yellow=True,
        )
