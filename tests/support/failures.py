"""A failed test is named when it fails: a run of ten minutes names it at its end otherwise."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Let the process that prints say what fails."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Failures(config), "failures")


class _Failures:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Name a failed test, and what it failed with, in one line each."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None or not report.failed:
            return
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message.partition("\n")[0] if crash else str(report.longrepr)[-200:]
        terminal.write_line("")  # after the dots
        terminal.write_line(f"FAILED {report.nodeid} ({report.when})")
        terminal.write_line(f"  {reason}")
