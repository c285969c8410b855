"""`make mlflow`: MLflow's page in docs/images, as `ackbench open mlflow` shows it.

They are of a stored sweep with its ledgers, which is measured and tracked here. Needs Debian's
chromium and chromium-driver.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.services import free_ports
from golden.stored import unpack
from support.browser import Browser, browser

from ackbench.experiments.orchestration.tracking.cell_runs import CELL
from ackbench.experiments.orchestration.tracking.store import (
    TrackedSweep,
    answer_link,
    charts_link,
    open_client,
    track,
)
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
from ackbench.infra.process.waiting import wait_until

KIND: Final = "quick"
IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
_ASSISTANT: Final = "button[data-component-id='mlflow.assistant.chat_panel.close']"
_BANNER: Final = "button[data-component-id='mlflow.experiment_page.shared_view.dismiss']"
_LOAD_TIMEOUT_S: Final = 120.0


def main() -> int:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder, browser() as chrome:
        home = Home(Path(folder))
        sweep = SweepFolder(unpack(KIND, home)[0])
        tracked = track(sweep, home)
        with _served(home, sweep.sweep_id) as server:
            charts = charts_link(server, sweep.sweep_id, tracked)
            _write(chrome, "mlflow-table.png", answer_link(server, tracked), 560, "matching runs")
            _write(chrome, "mlflow-charts.png", charts, 1040, "matching runs")
            compared = _comparison(server, tracked, home)
            _write(chrome, "mlflow-compare.png", compared, 640, "Run details")
    return 0


def _write(chrome: Browser, name: str, link: str, height: int, awaited: str) -> None:
    chrome.open(link, 1600, height=height)
    _wait_for(chrome, awaited)
    for button in (_ASSISTANT, _BANNER):
        chrome.click_all(button)
    wait_until(chrome.is_still, awaiting=f"{name} to be drawn", timeout_s=_LOAD_TIMEOUT_S)
    chrome.screenshot(IMAGES / name)


def _comparison(server: str, tracked: TrackedSweep, home: Home) -> str:
    """Return the address of the comparison of the sweep's cells."""
    cells = open_client(home).search_runs([tracked.experiment_id], f"tags.kind = '{CELL}'")
    runs = quote(json.dumps([run.info.run_id for run in cells], separators=(",", ":")))
    return f"{server}/#/compare-runs?runs={runs}&experiments=[%22{tracked.experiment_id}%22]"


def _wait_for(chrome: Browser, text: str) -> None:
    wait_until(lambda: text in chrome.text("body"), awaiting=f"{text!r}", timeout_s=_LOAD_TIMEOUT_S)


@contextmanager
def _served(home: Home, sweep_id: str) -> Iterator[str]:
    """Serve the store as the command does; yield the server's address."""
    command = Path(sys.executable).with_name("ackbench")
    server = subprocess.Popen(
        [command, "open", "mlflow", sweep_id, "--port", str(free_ports().mlflow)],
        env={**os.environ, "ACKBENCH_HOME": str(home.root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout
        link = next(line for line in server.stdout if line.startswith("http://"))
        yield link.partition("/#")[0]
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)


if __name__ == "__main__":
    sys.exit(main())
