"""ackbench from Python: load sweeps as pandas DataFrames, run an experiment, compare two sweeps.

For notebooks and tests of users: `from experiments import api`. What `__all__` names, and the
columns in `experiments.api.columns`, follow semantic versioning; no other module of ackbench does.
Loading and comparing needs the light installation only. What is computed here belongs elsewhere:
this package only turns results into tables. `docs/api.md` is its reference.
"""

from experiments.api.columns import (
    CELL_COLUMNS,
    DIFFERENCE_COLUMNS,
    TRIAL_COLUMNS,
    VERDICT_COLUMNS,
    Column,
)
from experiments.api.sweeps import Sweep, compare, load, run, sweeps
from infra.errors import AckbenchError

__all__ = [
    "CELL_COLUMNS",
    "DIFFERENCE_COLUMNS",
    "TRIAL_COLUMNS",
    "VERDICT_COLUMNS",
    "AckbenchError",
    "Column",
    "Sweep",
    "compare",
    "load",
    "run",
    "sweeps",
]
