"""A page as its reader sees it: laid out by headless Chromium (Debian's packages chromium and chromium-driver)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service

NEEDED = ("chromium", "chromedriver")
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
const rows = [...table.tBodies].flatMap(body => [...body.rows]).filter(row => !row.classList.contains("heading"));
return rows.map(row => [row.cells[0].innerText, [...row.cells].slice(1).map(cell => [above(cell), cell.innerText])]);
"""


class Browser:
    """One headless Chromium."""

    def __init__(self, chrome: Chrome) -> None:
        self._chrome = chrome

    def open(self, page: Path, width: int) -> None:
        """Lay out a page at a width, in CSS pixels."""
        self._chrome.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        self._chrome.get(page.as_uri())

    def picture(self, path: Path) -> None:
        """Write what is seen first as a PNG."""
        self._chrome.save_screenshot(str(path))

    def rows(self, table: str) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the rows of a table as they are read.

        Args:
            table: its CSS selector.

        Returns:
            A row each: the text of its first cell, and of each further cell the header that stands above it, or before it where the
            layout is too narrow for a header, and its text.
        """
        found: list[Any] = self._chrome.execute_script(_ROWS, table)
        return [(first, [(head, text) for head, text in cells]) for first, cells in found]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser; skip the test aloud where there is none."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if missing:
        pytest.skip(
            f"no {' and no '.join(missing)} on PATH: Debian has them as chromium and chromium-driver"
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
