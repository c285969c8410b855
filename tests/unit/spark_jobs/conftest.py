"""The measuring job without Spark, as a fixture."""

from collections.abc import Callable

import pyarrow as pa
import pytest
from support.measured import measure_planted


@pytest.fixture
def measured() -> Callable[..., dict[str, pa.Table]]:
    """Return the function that measures planted trials."""
    return measure_planted
