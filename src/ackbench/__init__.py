"""ackbench from Python: load sweeps as pandas DataFrames, run an experiment, compare two sweeps.

For notebooks and tests of users: `import ackbench`. What `__all__` names, and the columns that it
lists, follow semantic versioning; no module of this package does. Loading and comparing needs
`ackbench[read]` only. `docs/api.md` is the reference.

The packages are folders of the repository's top level, to which this one has links; a wheel has
them in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ackbench.experiments.commands.api.sweeps import Sweep, compare, history, load, run, sweeps
    from ackbench.experiments.results.formats.columns import (
        CELL_COLUMNS,
        DIFFERENCE_COLUMNS,
        EXPECTATION_COLUMNS,
        TRIAL_COLUMNS,
        VERDICT_COLUMNS,
        Column,
    )
    from ackbench.infra.errors import AckbenchError
    from ackbench.spark_jobs.data_source import SparkSource

__all__ = [
    "CELL_COLUMNS",
    "DIFFERENCE_COLUMNS",
    "EXPECTATION_COLUMNS",
    "TRIAL_COLUMNS",
    "VERDICT_COLUMNS",
    "AckbenchError",
    "Column",
    "SparkSource",
    "Sweep",
    "compare",
    "history",
    "load",
    "run",
    "sweeps",
]


def __getattr__(name: str) -> Any:
    """Import what a user asks for: every process of ackbench imports this module, most need less.

    Args:
        name: of `__all__`.

    Raises:
        AttributeError: this package has no such name.
        ModuleNotFoundError: this installation lacks what reads sweeps; the message installs it.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "SparkSource":
        from ackbench.spark_jobs import data_source

        return data_source.SparkSource
    from ackbench.infra import errors
    from ackbench.infra.start import READ_PACKAGES

    try:
        from ackbench.experiments.commands.api import sweeps
        from ackbench.experiments.results.formats import columns
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in READ_PACKAGES:
            raise
        from ackbench.infra.machine.home import INSTALL_READ

        raise ModuleNotFoundError(
            f"ackbench.{name} needs the package {package}, which this installation does not have: "
            f"{INSTALL_READ} installs it",
            name=package,
        ) from error

    return next(vars(module)[name] for module in (sweeps, columns, errors) if name in vars(module))


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
