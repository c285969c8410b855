"""Renders pages in headless Chromium (Debian's packages chromium and chromium-driver)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

REQUIRED_PROGRAMS = ("chromium", "chromedriver")
WIDTHS = (1280, 768, 400)
"""A desktop, a tablet and a phone, CSS pixels."""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_ROWS = """
const table = document.querySelector(arguments[0]);
const heads = [...table.tHead.rows[0].cells];
const box = element => element.getBoundingClientRect();
const above = cell => {
  const own = getComputedStyle(cell, "::before").content;
  if (own !== "none") return own.replace(/^"|"$/g, "");
  const middle = (box(cell).left + box(cell).right) / 2;
  const head = heads.find(one => box(one).left <= middle && middle <= box(one).right);
  return head ? head.innerText : "";
};
const rows = [...table.tBodies]
  .flatMap(body => [...body.rows])
  .filter(row => !row.classList.contains("heading"));
const entry = cell => [above(cell), cell.innerText];
return rows.map(row => [row.cells[0].innerText, [...row.cells].slice(1).map(entry)]);
"""


class Browser:
    """One headless Chromium."""

    def __init__(self, chrome: Chrome) -> None:
        self._chrome = chrome

    def open(self, page: Path, width: int) -> None:
        """Open a page at a width in CSS pixels."""
        self._chrome.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        self._chrome.get(page.as_uri())

    def screenshot(self, path: Path) -> None:
        """Write the visible part of the page as a PNG."""
        self._chrome.save_screenshot(str(path))

    def rows(self, table: str) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the rows of a table as a reader sees them.

        Args:
            table: its CSS selector.

        Returns:
            For each row, the text of its first cell, and header and text of each further cell.
            In a narrow layout the header is the label in front of the cell's text.
        """
        rows: list[Any] = self._chrome.execute_script(_ROWS, table)
        return [(first, [(head, text) for head, text in cells]) for first, cells in rows]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser; skip the test with a reason if none is installed."""
    missing = [program for program in REQUIRED_PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(
            f"no {' and no '.join(missing)} on PATH; "
            "install them with: apt install chromium chromium-driver"
        )
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in _FLAGS:
        options.add_argument(flag)
    chrome = Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
    try:
        yield Browser(chrome)
    finally:
        chrome.quit()
