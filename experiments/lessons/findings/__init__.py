"""The findings of the claims: one module per claim, with a pure function `find`.

An experiment names the module of its claim under `claim.finding`. `find` computes the finding from
the figures of a sweep; it reads no file.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, cast

from experiments.errors import ExperimentError
from experiments.messages.phrases import did_you_mean

if TYPE_CHECKING:
    from experiments.lessons.finding import Finding, FindingInput


def finding_names() -> tuple[str, ...]:
    """Return the names that `claim.finding` may have: the modules of this package."""
    return tuple(sorted(module.name for module in iter_modules(__path__)))


def check_finding(name: str) -> None:
    """Check that a finding exists, without loading it.

    Raises:
        ExperimentError: no module of this package has that name.
    """
    names = finding_names()
    if name not in names:
        raise ExperimentError(
            f"claim.finding is {name}, which is no module of experiments.lessons.findings"
            f"{did_you_mean(name, names)}"
        )


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
