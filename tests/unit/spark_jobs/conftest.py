"""The measuring job without Spark: planted trials are measured in this process."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from support.measured import measure_planted


@pytest.fixture
def measured() -> Callable[..., dict[str, pa.Table]]:
    """Return a function that measures planted trials."""
    return measure_planted
