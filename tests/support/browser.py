"""Renders pages in headless Chromium (Debian's packages chromium and chromium-driver)."""

from __future__ import annotations

import base64
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys
from selenium_axe_python.axe import Axe
from support.needed_programs import skip_without

WIDTHS = (1280, 768, 400)
"""A desktop, a tablet and a phone, CSS pixels."""
_A4 = {"paperWidth": 21.0 / 2.54, "paperHeight": 29.7 / 2.54}
"""In inches."""
_SCRIPT_TIMEOUT_S = 300
"""As long as a page may take to load: axe runs as one script, on a busy machine over 30 s."""
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
const box = element => element.getBoundingClientRect();
const above = (cell, heads) => {
  const own = getComputedStyle(cell, "::before").content;
  if (own !== "none") return own.replace(/^"|"$/g, "");
  const middle = (box(cell).left + box(cell).right) / 2;
  const head = heads.find(one => box(one).left <= middle && middle <= box(one).right);
  return head ? head.innerText : "";
};
return [...document.querySelectorAll(arguments[0])].flatMap(table => {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies]
    .flatMap(body => [...body.rows])
    .filter(row => !row.classList.contains("heading"));
  const entry = cell => [above(cell, heads), cell.innerText];
  return rows.map(row => [row.cells[0].innerText, [...row.cells].slice(1).map(entry)]);
});
"""

_BROKEN_WORDS = """
const broken = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const parent = node.parentElement;
  const skipped = parent.closest("svg, code, pre, script, style, a.skip");
  if (!parent.checkVisibility() || skipped) continue;
  for (const word of node.data.matchAll(/[^\\s\\u00a0\\/-]+/g)) {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const lines = new Set([...range.getClientRects()].map(box => Math.round(box.top)));
    if (lines.size > 1) broken.push(word[0]);
  }
}
return broken;
"""


class Browser:
    """One headless Chromium."""

    def __init__(self, chrome: Chrome) -> None:
        self._chrome = chrome

    def open(
        self,
        page: Path | str,
        width: int,
        section: str = "",
        *,
        dark: bool = False,
        height: int = 900,
        printed: bool = False,
        scripts: bool = True,
    ) -> None:
        """Open a page.

        Args:
            page: the file, or its address.
            width: in CSS pixels.
            section: the id of a section, as a link to it has it.
            dark: whether the reader prefers dark colours.
            height: of the window, CSS pixels.
            printed: whether the style of paper is shown.
            scripts: whether the page's own scripts run.
        """
        self._chrome.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
        self._chrome.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._chrome.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"media": "print" if printed else "", "features": [scheme]},
        )
        self._chrome.get("about:blank")  # a link within the page would not load it again
        address = page if isinstance(page, str) else page.as_uri()
        self._chrome.get(address + (f"#{section}" if section else ""))

    def click_all(self, selector: str) -> None:
        """Click on each element that a CSS selector finds."""
        for element in self._chrome.find_elements("css selector", selector):
            element.click()

    def is_still(self) -> bool:
        """Return whether the page looks as it did a second ago."""
        before = self._chrome.get_screenshot_as_base64()
        time.sleep(1.0)
        return bool(self._chrome.get_screenshot_as_base64() == before)

    def open_all_details(self) -> None:
        """Open everything that is folded."""
        self._chrome.execute_script(
            "document.querySelectorAll('details').forEach(one => { one.open = true; });"
        )

    def shows(self, element_id: str) -> bool:
        """Return whether an element is in the visible part of the page, and not folded."""
        shown: bool = self._chrome.execute_script(
            "const one = document.getElementById(arguments[0]), box = one.getBoundingClientRect();"
            "return one.checkVisibility() && box.top >= 0 && box.top < innerHeight;",
            element_id,
        )
        return shown

    def size(self) -> tuple[int, int]:
        """Return the width and height of the page's content, CSS pixels."""
        root = "document.documentElement"
        width, height = self._chrome.execute_script(
            f"return [{root}.scrollWidth, {root}.scrollHeight];"
        )
        return width, height

    def visible_width(self) -> int:
        """Return the width that is visible without scrolling, CSS pixels."""
        width: int = self._chrome.execute_script("return document.documentElement.clientWidth;")
        return width

    def broken_words(self) -> list[str]:
        """Return the visible words that are broken over several lines; not identifiers in code."""
        words: list[str] = self._chrome.execute_script(_BROKEN_WORDS)
        return words

    def violations(self) -> list[str]:
        """Return the violations that axe-core finds, with the elements."""
        axe = Axe(self._chrome)
        axe.inject()  # type: ignore[no-untyped-call]
        return [
            f"{found['id']}: {', '.join(str(node['target']) for node in found['nodes'][:9])}"
            for found in axe.run()["violations"]
        ]

    def text(self, selector: str) -> str:
        """Return the visible text of the first element that a CSS selector finds.

        In one step: a page that renews itself may replace the element between two.
        """
        text: str = self._chrome.execute_script(
            "return document.querySelector(arguments[0]).innerText", selector
        )
        return text.strip()

    def count(self, selector: str) -> int:
        """Return how many elements a CSS selector finds."""
        return len(self._chrome.find_elements("css selector", selector))

    def count_shown(self, selector: str) -> int:
        """Return how many of the elements that a CSS selector finds are laid out."""
        return sum(
            element.is_displayed()
            for element in self._chrome.find_elements("css selector", selector)
        )

    def type_into(self, selector: str, text: str) -> None:
        """Type a text into a field, key by key."""
        self._chrome.find_element("css selector", selector).send_keys(text)

    def focus_order(self, presses: int) -> list[str]:
        """Return the ids of the elements that get the focus when Tab is pressed repeatedly."""
        ids = []
        for _ in range(presses):
            self._chrome.switch_to.active_element.send_keys(Keys.TAB)
            ids.append(self._chrome.switch_to.active_element.get_attribute("id") or "")
        return ids

    def printed_pages(self) -> int:
        """Return on how many A4 pages the page is printed."""
        # WebDriver's own print command ends after 10 s, which is too few on a busy machine.
        printed = self._chrome.execute_cdp_cmd("Page.printToPDF", _A4)
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"])))

    def screenshot(self, path: Path) -> None:
        """Write the visible part of the page as a PNG."""
        self._chrome.save_screenshot(str(path))

    def rows(self, tables: str) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the rows of tables as a reader sees them.

        Args:
            tables: the CSS selector of one or more tables.

        Returns:
            For each row, the text of its first cell, and header and text of each further cell.
            In a narrow layout the header is the label in front of the cell's text.
        """
        rows: list[Any] = self._chrome.execute_script(_ROWS, tables)
        return [(first, [(head, text) for head, text in cells]) for first, cells in rows]


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser; skip the test with a reason if none is installed."""
    skip_without("chromium", "chromedriver")
    options = ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in _FLAGS:
        options.add_argument(flag)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        # It writes to the user's home, which may be read-only, and does not start if it cannot.
        service = Service(str(shutil.which("chromedriver")), env={**os.environ, "HOME": home})
        chrome = Chrome(options=options, service=service)
        chrome.set_script_timeout(_SCRIPT_TIMEOUT_S)
        try:
            yield Browser(chrome)
        finally:
            chrome.quit()
