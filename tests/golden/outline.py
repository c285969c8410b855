"""The outline of a page: its headings, tables and texts, one line each, for people to compare.

Left out are scripts, styles and the lines of drawings; of a drawing its name and its texts are
kept. A table's row is one line with its cells, and what is in a `<details>` is indented.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

_IGNORED: Final = frozenset({"script", "style", "defs"})
_LINES: Final = frozenset(
    {
        *("title", "h1", "h2", "h3", "h4", "p", "li", "dt", "dd", "tr", "caption", "summary"),
        *("pre", "figcaption", "svg", "nav", "form", "button", "label", "div", "section"),
    }
)
"""Elements that begin a line of the outline, with their name."""
_PARTS: Final = frozenset({"td", "th", "text", "a", "option"})
"""Elements that separate the parts of a line."""
_INDENTED: Final = frozenset({"table", "details", "figure", "ul", "ol", "dl", "section"})
_KEPT: Final = ("id", "class", "href", "aria-label", "title", "data-head", "datetime", "value")
"""Attributes that a reader or a program sees."""
_SPACE: Final = re.compile(r"[ \n\t]+")


def outline(page: str) -> str:
    """Return the outline of an HTML page."""
    parser = _Outline()
    parser.feed(page)
    parser.close()
    parser.end_line()
    return "\n".join(parser.lines) + "\n"


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self._head, self._parts, self._depth, self._ignored = "", [""], 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _IGNORED:
            self._ignored += 1
        if tag == "svg" and self._head.startswith("tr"):
            self._parts.append(f"[{_named(tag, attrs)}] ")
        elif tag in _LINES:
            self.end_line()
            self._head = _named(tag, attrs)
        elif tag in _INDENTED:
            self.end_line()
            self.lines.append(f"{'  ' * self._depth}{_named(tag, attrs)}")
        elif tag in _PARTS:
            kept = "" if tag == "text" else _attributes(attrs)
            self._parts.append(f"[{kept}] " if kept else "")
        if tag in _INDENTED:
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in _IGNORED:
            self._ignored -= 1
        if tag in _PARTS or (tag == "svg" and self._head.startswith("tr")):
            self._parts.append("")
        elif tag in _LINES:
            self.end_line()
        if tag in _INDENTED:
            self.end_line()
            self._depth -= 1

    def handle_data(self, data: str) -> None:
        if not self._ignored:
            self._parts[-1] += data

    def end_line(self) -> None:
        """Add the line that was begun, unless it says nothing."""
        texts = [_SPACE.sub(" ", part).strip() for part in self._parts]
        text = " | ".join(text for text in texts if text)
        bare = self._head in {"", "div", "section", "p"}
        if text or not bare:
            self.lines.append(f"{'  ' * self._depth}{self._head or 'text'}: {text}".rstrip())
        self._head, self._parts = "", [""]


def _named(tag: str, attrs: list[tuple[str, str | None]]) -> str:
    kept = _attributes(attrs)
    return f"{tag} {kept}" if kept else tag


def _attributes(attrs: list[tuple[str, str | None]]) -> str:
    return " ".join(f"{name}={value}" for name, value in attrs if name in _KEPT and value)
