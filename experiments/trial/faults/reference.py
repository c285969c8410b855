"""The table of all faults with their parameters and defaults, as `docs/faults.md` has it.

A test compares the two, so the document cannot list a fault that does not exist, or lack one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from ackbench.experiments.messages.markdown import table
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.trial.faults.core.kind import FaultKind


def as_markdown() -> str:
    """Return a table with one row per fault, by family."""
    return "\n".join(table(("fault", "what happens", "parameters (default)"), _rows()))


def _rows() -> Iterator[tuple[str, str, str]]:
    for family, kinds in itertools.groupby(FAULTS.values(), key=lambda kind: kind.family):
        yield f"**{family}**", "", ""
        for kind in kinds:
            yield f"`{kind.kind}`", kind.summary, _parameters(kind)


def _parameters(kind: FaultKind) -> str:
    if kind.kind == "none":
        return ""
    fields = kind.parameters.model_fields.items()
    return ", ".join(f"`{name}` ({_default(field.default)})" for name, field in fields)


def _default(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
