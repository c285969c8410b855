"""The home that `make setup` has filled: its jars and start-up caches serve all tests."""

from typing import Final

from ackbench.infra.machine.home import Home

SET_UP: Final = Home.from_environment()
"""As the environment names it before the first test; tests have a home of their own."""
