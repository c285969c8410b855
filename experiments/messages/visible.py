"""Text of others as it is written anywhere: without characters that act instead of being shown.

An experiment's file, a store, a broker and a client decide what labels, questions, reasons and
errors say. A control character of theirs moves the cursor of a terminal or recolours it, and is
not allowed in XML; a bidirectional control shows text in another order than it has; and the half
of a surrogate pair cannot be encoded. Every writer uses `visible`, or what is built on it here.
Pure.
"""

from __future__ import annotations

import json
import re
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands for each character that is not shown."""
_ACTING: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f"  # C0 and C1 controls, except the newline
    "\u2028\u2029"  # line and paragraph separators
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\ud800-\udfff"  # halves of surrogate pairs
    "\ufdd0-\ufdef\ufffe\uffff"  # no characters
    "]|[\U0001fffe\U0001ffff]"
)
"""Characters that Unicode gives no shape, and that terminals, XML or encodings act on."""


def visible(text: str) -> str:
    """Return the text with a visible character in place of each that is not shown.

    Newlines stay; a tab and the return before a newline are white space.
    """
    if text.isprintable():  # most texts, in a tenth of the time
        return text
    return _ACTING.sub(REPLACEMENT, text.replace("\r\n", "\n").replace("\t", " "))


def visible_json(document: str) -> str:
    """Return a JSON document in which such characters are escapes; its content is the same."""
    return _ACTING.sub(lambda found: _json_escape(found[0]), document)


def _json_escape(character: str) -> str:
    """Return a character of a string as JSON's escape; white space between tokens stays."""
    return character if character in "\r\t" else json.dumps(character)[1:-1]
