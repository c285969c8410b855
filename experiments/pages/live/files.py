"""The files of the live page. Airflow's API server serves them, and imports nothing else of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ackbench.infra.machine.home import Home

PAGE: Final = "index.html"
DATA: Final = "data.js"
LOCK: Final = ".lock"
"""One process at a time writes the page: who holds this file's lock."""


def live_folder(home: Home) -> Path:
    """Return the folder of a home's live page."""
    return home.root / "live"


def page_path(home: Home) -> Path:
    """Return the live page of a home."""
    return live_folder(home) / PAGE
