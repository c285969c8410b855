"""Errors of experiment files, written for people: one line with file, key, value and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

SHOWN_NAMES: Final = 8
SHOWN_CHARACTERS: Final = 60


def one_line(text: str) -> str:
    """Return the text with every run of white space as one space."""
    return " ".join(text.split())


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a remark that names the nearest known names, or all where they are few; empty when nothing is known."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {_or(close)}?"
    return f"; known: {', '.join(names)}" if 0 < len(names) <= SHOWN_NAMES else ""


def sentence(error: ValidationError, model: type[BaseModel], within: str = "") -> str:
    """Return what is wrong with the first thing that is wrong, and how much else is.

    Args:
        error: pydantic's.
        model: what was to be made, for the known keys.
        within: the key the model stands below, with its dot.
    """
    details = error.errors(include_url=False)
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return one_line(_describe(details[0], model, within)) + more


def shown(value: Any) -> str:
    """Return a value as the YAML would show it, shortened."""
    text = (
        {True: "true", False: "false"}[value]
        if isinstance(value, bool)
        else "nothing"
        if value is None
        else repr(value)
    )
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def _describe(detail: ErrorDetails, model: type[BaseModel], within: str) -> str:
    key = within + ".".join(str(part) for part in detail["loc"] if not _is_union_branch(part))
    if detail["type"] == "missing":
        return f"{key} is missing"
    if detail["type"] == "extra_forbidden":
        return f"unknown key {key}{nearest(str(detail['loc'][-1]), _keys_at(model, detail['loc'][:-1]))}"
    return f"{key} is {shown(detail['input'])}; allowed: {_allowed(detail)}"


def _allowed(detail: ErrorDetails) -> str:
    told = _ALLOWED.get(detail["type"])
    return told(detail.get("ctx", {})) if told else detail["msg"].removeprefix("Value error, ")


_ALLOWED: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = MappingProxyType(
    {
        "greater_than": lambda limit: f"more than {limit['gt']:g}",
        "greater_than_equal": lambda limit: f"{limit['ge']:g} or more",
        "less_than": lambda limit: f"less than {limit['lt']:g}",
        "less_than_equal": lambda limit: f"{limit['le']:g} or less",
        "int_type": lambda _: "a whole number",
        "int_parsing": lambda _: "a whole number",
        "int_from_float": lambda _: "a whole number",
        "float_type": lambda _: "a number",
        "float_parsing": lambda _: "a number",
        "finite_number": lambda _: "a finite number",
        "string_type": lambda _: "text; write it in quotes",
        "string_too_short": lambda _: "some text",
        "bool_type": lambda _: "true or false",
        "dict_type": lambda _: "a mapping (key: value)",
        "model_type": lambda _: "a mapping (key: value)",
        "too_short": lambda _: "at least one",
        "literal_error": lambda limit: limit["expected"].replace("'", ""),
        "string_pattern_mismatch": lambda limit: f"text like {limit['pattern']}",
    }
)


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        field = next(
            (field for name, field in model.model_fields.items() if part in {name, field.alias}),
            None,
        )
        inner = field.annotation if field else None
        if not hasattr(inner, "model_fields"):
            return []
        model = cast("type[BaseModel]", inner)
    return [field.alias or name for name, field in model.model_fields.items()]


def _is_union_branch(part: int | str) -> bool:
    return part in {"str", "int", "float", "bool", "none"}


def _or(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
