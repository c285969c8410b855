"""The templates of all pages, without what only reports need; the live page loads in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackbench.experiments.messages.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment

_TEMPLATES: Final = Path(__file__).with_name("templates")


def template_environment() -> Environment:
    """Return an environment for the templates of `templates/`.

    Values are escaped unless the template marks them as safe, and have no control characters. A
    name without a value is an error.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _visible(value: Any) -> Any:
    """Return a value of a template as a page shows it; text that is HTML stays HTML."""
    is_text = type(value) is str or (isinstance(value, str) and hasattr(value, "__html__"))
    return type(value)(visible(value)) if is_text else value
