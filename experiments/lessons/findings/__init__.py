"""The findings of the claims: one module per claim, with a pure function `find`.

An experiment names the module of its claim under `claim.finding`. `find` computes the finding from
the figures of a sweep; it reads no file.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from experiments.planning.catalog import check_finding

if TYPE_CHECKING:
    from experiments.lessons.finding import Finding, FindingInput


def load_finding(name: str) -> Callable[[FindingInput], Finding]:
    """Return the function that computes a finding.

    Args:
        name: a module of this package.

    Raises:
        ExperimentError: no module of this package has that name.
    """
    check_finding(name)
    module = import_module(f"{__name__}.{name}")
    return cast("Callable[[FindingInput], Finding]", module.find)
