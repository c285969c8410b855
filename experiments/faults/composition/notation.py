"""Faults as an experiment writes them, one value each: `leader-crash`, `leader-crash(at_s=1) >> leader-pause`, `node-crash & follower-pause`. Pure.

`a & b` strikes both, each at its own time after the load began; `a >> b` strikes b after a is healed, and b's time counts from that heal.
`&` binds tighter than `>>`, and brackets group. What stands in brackets behind a name are its parameters, over those of the experiment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from experiments.errors import ExperimentError
from experiments.faults import FAULTS
from experiments.ledger.record import Scalar
from experiments.messages.phrases import did_you_mean
from experiments.sweep.plan import Composition, FaultRequest

MOST_CHARACTERS: Final = 1000
MOST_BRACKETS: Final = 50
MOST_PARTS: Final = 16
"""Each that strikes beside others has a thread."""
_TOKEN: Final = re.compile(r"\s*(?:(>>|[&(),=])|([^\s&(),=>]+)|(\S))")


@dataclass(frozen=True)
class _Token:
    text: str
    at: int
    """The character it begins with, counted from 1."""
    is_word: bool


def parse_fault(text: str) -> FaultRequest:
    """Return the faults that a text asks for, each with the parameters that stand in its own brackets and no others.

    Raises:
        ExperimentError: it is not of that form, or names what does not exist; one line that names the place.
    """
    if len(text) > MOST_CHARACTERS or text.count("(") > MOST_BRACKETS:
        raise ExperimentError(
            f"a fault of {len(text)} characters and {text.count('(')} brackets; allowed: {MOST_CHARACTERS} and {MOST_BRACKETS} at most"
        )
    if not text.strip():
        raise ExperimentError(f"a fault without a name{did_you_mean('', FAULTS)}; `none` is no fault")
    request = _Parser(text).whole()
    if len(request.leaves()) > MOST_PARTS:
        raise ExperimentError(
            f"{len(request.leaves())} faults joined; allowed: {MOST_PARTS} at most"
        )
    return request


def format_fault(request: FaultRequest, within: Composition | None = None) -> str:
    """Return the one way in which a request is written; `parse` reads it back.

    Args:
        request: single or joined.
        within: how it is joined with others, if it is.
    """
    if not request.parts:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in request.parameters.items())
        return f"{request.kind}({given})" if given else request.kind
    joined = f" {request.joined} ".join(
        format_fault(part, request.joined) for part in request.parts
    )
    return f"({joined})" if request.joined == ">>" and within == "&" else joined


class _Parser:
    """Reads a text from left to right, a token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            _Token(found[0].strip(), found.start(found.lastindex or 0) + 1, found[2] is not None)
            for found in _TOKEN.finditer(text.rstrip())
        ]

    def whole(self) -> FaultRequest:
        request = self._joined(">>", lambda: self._joined("&", self._one))
        if self._tokens:
            self._refuse("`&`, `>>` or the end")
        return request

    def _joined(self, how: Composition, read: Callable[[], FaultRequest]) -> FaultRequest:
        """Read one or several; what is joined in the same way inside brackets joins them."""
        parts = [read()]
        while self._takes(how):
            parts.append(read())
        if len(parts) == 1:
            return parts[0]
        flat = tuple(
            inner for part in parts for inner in (part.parts if part.joined == how else (part,))
        )
        request = FaultRequest(kind="", joined=how, parts=flat)
        return request.model_copy(update={"kind": format_fault(request)})

    def _one(self) -> FaultRequest:
        if not self._takes("("):
            return self._single()
        request = self._joined(">>", lambda: self._joined("&", self._one))
        self._expect(")")
        return request

    def _single(self) -> FaultRequest:
        name = self._word("the name of a fault")
        if name.text not in FAULTS:
            raise ExperimentError(
                f"unknown fault {name.text}{self._at(name)}{did_you_mean(name.text, FAULTS)}"
            )
        if name.text == "none" and len(name.text) < len(self._text.strip()):
            raise ExperimentError(
                f"fault {self._text}: none{self._at(name)} stands alone, or not at all"
            )
        return FaultRequest(
            kind=name.text, parameters=self._parameters(name.text) if self._takes("(") else {}
        )

    def _parameters(self, kind: str) -> dict[str, Scalar]:
        given: dict[str, Scalar] = {}
        while True:
            name = self._word(f"a parameter of {kind}")
            known = FAULTS[kind].parameters.model_fields
            if name.text not in known or name.text in given:
                twice = name.text in given
                wrong = (
                    f"stands twice{self._at(name)}"
                    if twice
                    else f"is no parameter of {kind}{self._at(name)}{did_you_mean(name.text, known)}"
                )
                raise ExperimentError(f"fault {self._text}: {name.text} {wrong}")
            self._expect("=")
            given[name.text] = _value(self._word(f"a value of {name.text}").text)
            if not self._takes(","):
                self._expect(")")
                return given

    def _takes(self, text: str) -> bool:
        """Go on behind such a token, if it is the next one."""
        is_next = (
            bool(self._tokens) and self._tokens[0].text == text and not self._tokens[0].is_word
        )
        if is_next:
            self._tokens.pop(0)
        return is_next

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            self._refuse(f"`{text}`")

    def _word(self, what: str) -> _Token:
        if not self._tokens or not self._tokens[0].is_word:
            self._refuse(what)
        return self._tokens.pop(0)

    def _refuse(self, wanted: str) -> NoReturn:
        found = (
            f"there is `{self._tokens[0].text}`{self._at(self._tokens[0])}"
            if self._tokens
            else "it ends"
        )
        cut = (
            "; in a list in square brackets, quote a fault that holds a comma"
            if not self._tokens and self._text.count("(") > self._text.count(")")
            else ""
        )
        raise ExperimentError(f"fault {self._text}: where {wanted} is due, {found}{cut}")

    def _at(self, token: _Token) -> str:
        """Say where, if there is more than one word."""
        return f" at character {token.at}" if token.text != self._text.strip() else ""


def _value(text: str) -> Scalar:
    """Read a number or a truth value as YAML would; anything else is text."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def _shown(value: Scalar) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
