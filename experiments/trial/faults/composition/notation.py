"""The notation of faults: `leader-crash`, `leader-crash(at_s=1) >> leader-pause`. Pure.

`a & b` injects both, each at its own time after the load began. `a >> b` injects b after a is
healed, and b's times count from that heal. `&` binds tighter than `>>`; parentheses group.
Parameters in parentheses after a name override those of the experiment.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, NoReturn

from pydantic_core import from_json

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.sweep.plan import Composition, FaultRequest
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.operations.commands import COMMAND

MAX_CHARACTERS: Final = 1000
MAX_PARENTHESES: Final = 50
MAX_PARTS: Final = 16
"""Each fault that is injected in parallel with others takes a thread."""
_TOKEN: Final = re.compile(r"\s*(?:(>>|[&(),=])|([^\s&(),=>]+)|(\S))")


def parse_fault(text: str, commands: Collection[str] = ()) -> FaultRequest:
    """Return the faults that a text requests, each with the parameters in its own parentheses.

    Args:
        text: in the notation of this module.
        commands: names of the experiment's own faults, which are commands.

    Raises:
        ExperimentError: the syntax is wrong, or a name is unknown; with the position.
    """
    parentheses = text.count("(")
    if len(text) > MAX_CHARACTERS or parentheses > MAX_PARENTHESES:
        raise ExperimentError(
            f"a fault of {len(text)} characters and {parentheses} opening parentheses;"
            f" allowed: {MAX_CHARACTERS} and {MAX_PARENTHESES} at most"
        )
    if not text.strip():
        raise ExperimentError(
            f"a fault without a name{did_you_mean('', FAULTS)}; write `none` for no fault"
        )
    request = _Parser(text, commands).parse()
    if len(request.leaves()) > MAX_PARTS:
        raise ExperimentError(
            f"{len(request.leaves())} faults joined; allowed: {MAX_PARTS} at most"
        )
    return request


def format_fault(request: FaultRequest, within: Composition | None = None) -> str:
    """Return the canonical notation of a request; `parse_fault` returns an equal request for it.

    Args:
        request: one fault, or several joined.
        within: how it is joined with others, if it is.
    """
    if not request.parts:
        parameters = ", ".join(
            f"{name}={_format_value(value)}" for name, value in request.parameters.items()
        )
        return f"{request.kind}({parameters})" if parameters else request.kind
    joined = f" {request.joined} ".join(
        format_fault(part, request.joined) for part in request.parts
    )
    return f"({joined})" if request.joined == ">>" and within == "&" else joined


@dataclass(frozen=True)
class _Token:
    text: str
    position: int
    """Its first character, counted from 1."""
    is_word: bool


class _Parser:
    """A recursive descent parser with a lookahead of one token."""

    def __init__(self, text: str, commands: Collection[str]) -> None:
        self._text = text
        self._known = {*FAULTS, *commands}
        self._tokens = [
            _Token(match[0].strip(), match.start(match.lastindex or 0) + 1, match[2] is not None)
            for match in _TOKEN.finditer(text.rstrip())
        ]

    def parse(self) -> FaultRequest:
        request = self._sequence()
        if self._tokens:
            self._fail("`&`, `>>` or the end")
        return request

    def _sequence(self) -> FaultRequest:
        return self._joined(">>", lambda: self._joined("&", self._operand))

    def _joined(
        self, composition: Composition, operand: Callable[[], FaultRequest]
    ) -> FaultRequest:
        """Parse one or several operands.

        Operands in parentheses that are joined in the same way become operands of the whole.
        """
        parts = [operand()]
        while self._accept(composition):
            parts.append(operand())
        if len(parts) == 1:
            return parts[0]
        flat = tuple(
            inner
            for part in parts
            for inner in (part.parts if part.joined == composition else (part,))
        )
        request = FaultRequest(kind="", joined=composition, parts=flat)
        return request.model_copy(update={"kind": format_fault(request)})

    def _operand(self) -> FaultRequest:
        if not self._accept("("):
            return self._single()
        request = self._sequence()
        self._expect(")")
        return request

    def _single(self) -> FaultRequest:
        name = self._word("the name of a fault")
        if name.text not in self._known:
            raise ExperimentError(
                f"unknown fault {name.text}{self._at(name)}{did_you_mean(name.text, self._known)}"
            )
        if name.text == "none" and len(name.text) < len(self._text.strip()):
            raise ExperimentError(
                f"fault {self._text}: none{self._at(name)} must be the only fault,"
                " without parameters"
            )
        parameters = self._parameters(name.text) if self._accept("(") else {}
        return FaultRequest(kind=name.text, parameters=parameters)

    def _parameters(self, kind: str) -> dict[str, Scalar]:
        known = FAULTS[kind if kind in FAULTS else COMMAND].parameters.model_fields
        parameters: dict[str, Scalar] = {}
        while True:
            name = self._word(f"a parameter of {kind}")
            if name.text in parameters:
                raise ExperimentError(
                    f"fault {self._text}: {name.text} is given twice{self._at(name)}"
                )
            if name.text not in known:
                raise ExperimentError(
                    f"fault {self._text}: {name.text} is not a parameter of {kind}"
                    f"{self._at(name)}{did_you_mean(name.text, known)}"
                )
            self._expect("=")
            parameters[name.text] = _parse_value(self._word(f"a value of {name.text}").text)
            if not self._accept(","):
                self._expect(")")
                return parameters

    def _accept(self, text: str) -> bool:
        """Consume the next token if it is this operator; return whether it was."""
        is_next = (
            bool(self._tokens) and self._tokens[0].text == text and not self._tokens[0].is_word
        )
        if is_next:
            self._tokens.pop(0)
        return is_next

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self._fail(f"`{text}`")

    def _word(self, expected: str) -> _Token:
        if not self._tokens or not self._tokens[0].is_word:
            self._fail(expected)
        return self._tokens.pop(0)

    def _fail(self, expected: str) -> NoReturn:
        if self._tokens:
            found = f"`{self._tokens[0].text}`{self._at(self._tokens[0])}"
        elif self._text.count("(") > self._text.count(")"):
            found = "the end; in a list in square brackets, quote a fault that contains a comma"
        else:
            found = "the end"
        raise ExperimentError(f"fault {self._text}: expected {expected}, found {found}")

    def _at(self, token: _Token) -> str:
        """Return the token's position, if the text is more than that token."""
        return f" at character {token.position}" if token.text != self._text.strip() else ""


def _parse_value(text: str) -> Scalar:
    """Return a number or a boolean as YAML reads it; anything else is text."""
    try:
        value = from_json(text)
    except ValueError:
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return text
    return value if isinstance(value, bool | int | float) else text


def _format_value(value: Scalar) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)
