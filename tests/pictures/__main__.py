"""`make pictures`: the README's table and the pictures in docs/images, from the stored quick sweep.

`make pictures SWEEP=newest` stores the newest quick sweep first: run `make bench` before. Needs
Debian's chromium and chromium-driver.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from pictures.readme_table import ROWS, readme_table
from rich.console import Console
from support.browser import browser
from support.stored_sweep import (
    PAGE_FINGERPRINT,
    SITE_FINGERPRINT,
    fingerprint_of,
    site_page,
    store_sweep,
    stored_sweep,
)

from ackbench.experiments.pages.report.data import read_report_data
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.infra.machine.home import Home

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
IMAGES: Final = ROOT / "docs" / "images"
PICTURES: Final = {"report-desktop.png": (1280, 1560), "report-phone.png": (400, 1400)}
"""Widths and heights in CSS pixels."""
SITE_PICTURE: Final = "site.png"
SITE_SIZE: Final = (1280, 900)
SITE_FILTER: Final = "acks=all"


def main(arguments: list[str]) -> int:
    """Write the pictures and the table.

    Args:
        arguments: empty, or the sweep to store first.
    """
    home = Home.from_environment()
    set_matplotlib_cache(home)
    for sweep in arguments:
        store_sweep(read_report_data(find_sweep(home, "quick" if sweep == "newest" else sweep)))
    data = stored_sweep()
    with tempfile.TemporaryDirectory() as folder, browser() as chrome:
        page, site = Path(folder) / "report.html", Path(folder) / "what-breaks-what.html"
        page.write_text(render_page(data), encoding="utf-8")
        site.write_text(site_page(data), encoding="utf-8")
        for name, (width, height) in PICTURES.items():
            chrome.open(page, width, height=height)
            chrome.screenshot(IMAGES / name)
        chrome.open(site, SITE_SIZE[0], SITE_FILTER, height=SITE_SIZE[1])
        chrome.screenshot(IMAGES / SITE_PICTURE)
        PAGE_FINGERPRINT.write_text(fingerprint_of(page.read_text(encoding="utf-8")))
        SITE_FINGERPRINT.write_text(fingerprint_of(site.read_text(encoding="utf-8")))
    text, replaced = re.subn(
        r"(?<=<!-- quick -->\n).*?(?=\n<!-- /quick -->)",
        lambda _: readme_table(data.results),
        README.read_text(),
        flags=re.DOTALL,
    )
    if replaced != 1:
        raise SystemExit(f"{README} has no table between <!-- quick --> and <!-- /quick -->")
    README.write_text(text)
    sweep_id = data.results.sweep_id
    Console().print(f"{len(PICTURES) + 1} pictures and {len(ROWS)} rows of {sweep_id}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
