"""Texts that act on a terminal, are not allowed in XML, or are markup, and what shows that."""

from __future__ import annotations

import unicodedata
from html.parser import HTMLParser
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

HOSTILE: Final = (
    "\x1b[31mred\x1b[0m",
    "a\x00b\x0bc\x7fd\x9be",
    "\x1b]0;title\x07",
    "\r\x1b[2K",
    "\ufffe\uffff\U0001ffff",
    "\ud800 and \udfff",
    "\u202egnp.exe",
    "<script>alert(1)</script>",
    "<b>x</b> &lt;b&gt; &#60; <!-- y --> <?z?>",
    "[x](javascript:alert(1)) ![y](z) <http://a.b> https://a.b www.a.b a@b.c",
    "a | b\n|---|\n\n# head\n- item\n1. one\n    code\n```\nfence",
    "*a* _b_ ~~c~~ `d` \\*e\\* $f$",
    "===\n---",
    "1. one",
    "]]>&\"'",
    "[bold]x[/bold] [/] :smile:",
)
ANY_TEXT: Final = st.one_of(
    st.text(st.characters(codec=None), max_size=40),
    st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=3).map(" ".join),
)
_BIDIRECTIONAL: Final = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
GITHUB: Final = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def for_any_text(law: Any) -> Any:
    """Return a law that is tried with each of the hostile texts, and with any others."""
    tried = given(ANY_TEXT)(law)
    for text in HOSTILE:
        tried = example(text)(tried)
    return tried


def acting(text: str) -> list[str]:
    """Return the characters that a terminal, XML or an encoding acts on, but for newlines."""
    return [
        sign
        for sign in text
        if (unicodedata.category(sign) in {"Cc", "Cs"} and sign != "\n")
        or unicodedata.bidirectional(sign) in _BIDIRECTIONAL
        or sign in "\ufffe\uffff"
    ]


class Page(HTMLParser):
    """The elements and the text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        del attrs
        self.elements.append(tag)

    def handle_comment(self, data: str) -> None:
        """Keep a comment."""
        self.elements.append(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        """Keep a declaration."""
        self.elements.append(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        """Keep an instruction."""
        self.elements.append(f"<?{data}>")

    def handle_data(self, data: str) -> None:
        """Keep text."""
        self.text += data
