"""Pydantic's validation errors in one line each: the key, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from ackbench.experiments.messages.phrases import did_you_mean, format_value, one_line
from ackbench.infra.kafka.secrets import HIDDEN, is_secret

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_PATTERNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        r"^[a-z0-9]+(-[a-z0-9]+)*$": "small letters, digits and single hyphens, as in my-test",
        r"^[a-z][a-z0-9_]*$": "small letters, digits and underscores, as in acks_levels",
        r"^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,99})?$": "letters, digits and . _ -, as in kill-leader",
    }
)
"""Patterns of text, in words."""
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
        "string_pattern_mismatch": lambda limit: _PATTERNS.get(limit["pattern"], "other text"),
    }
)
"""What is allowed, by pydantic's error type, from the context of the error."""

_MOST_PROBLEMS: Final = 8
_UNION_BRANCHES: Final = frozenset({"str", "int", "float", "bool", "none"})
"""Parts that pydantic adds to an error's location for the branch of a union that it tried."""


def describe_validation_error(
    error: ValidationError, model: type[BaseModel], within: str = "", written: object = None
) -> str:
    """Return one line about the problems.

    Args:
        error: pydantic's error.
        model: the model that was validated; its fields are the known keys.
        within: prefix of the key, such as `workload.`.
        written: the data as the user wrote it, for the keys; `None`: as it was validated.
    """
    details = error.errors(include_url=False)
    lines = dict.fromkeys(one_line(_describe(detail, model, within, written)) for detail in details)
    shown = list(lines)[:_MOST_PROBLEMS]
    more = f"; and {len(lines) - len(shown)} other problems" if len(lines) > len(shown) else ""
    return "; ".join(shown) + more


def _describe(detail: ErrorDetails, model: type[BaseModel], within: str, written: object) -> str:
    path = [part for part in detail["loc"] if part not in _UNION_BRANCHES]
    key = within + _key(path, written)
    if detail["type"] == "missing":
        return f"{key} is missing"
    if detail["type"] == "extra_forbidden":
        known = _keys_at(model, detail["loc"][:-1])
        return f"unknown key {key}{did_you_mean(str(detail['loc'][-1]), known)}"
    if not path and detail["type"] == "value_error":  # of the model, which says of which keys
        return f"{within.rstrip('.')}: {_allowed(detail)}" if within else _allowed(detail)
    value = HIDDEN if any(is_secret(str(part)) for part in path) else format_value(detail["input"])
    return f"{key} is {value}; allowed: {_allowed(detail)}"


def _key(path: Sequence[int | str], written: object) -> str:
    """Return the path of a value as in `axes[0].linger.ms`.

    A place in a list that the user wrote as its only element, without a list, is left out.
    """
    text, current = "", written
    for part in path:
        if isinstance(part, str):
            text += f".{part}" if text else part
            current = current.get(part) if isinstance(current, Mapping) else None
        elif isinstance(current, list | tuple):
            text += f"[{part}]"
            current = current[part] if part < len(current) else None
        elif current is None:
            text += f"[{part}]"
    return text


def _allowed(detail: ErrorDetails) -> str:
    describe = _ALLOWED.get(detail["type"])
    if describe is None:
        return detail["msg"].removeprefix("Value error, ")
    return describe(detail.get("ctx", {}))


def inner_model(annotation: object) -> type[BaseModel] | None:
    """Return the model of a field's type: `Model`, or `Model | None`; `None`: it has none."""
    types = (annotation, *get_args(annotation))
    found = next((one for one in types if hasattr(one, "model_fields")), None)
    return cast("type[BaseModel] | None", found)


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the model below a path; none if the value there is not a model."""
    for part in path:
        field = next(
            (field for name, field in model.model_fields.items() if part in {name, field.alias}),
            None,
        )
        inner = inner_model(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    return [field.alias or name for name, field in model.model_fields.items()]
