"""The measuring job, in whose JVM a thread finds no memory while the job waits for its tasks."""

import threading
import time
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext

from ackbench.spark_jobs import distribution, measure

_WAITS_S = 3_600


def starve(context: SparkContext, *_: object) -> None:
    """Wait for a task that does not end, while another thread of the JVM fills the heap."""
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    twice_the_heap = jvm.java.lang.Runtime.getRuntime().maxMemory() // 4

    def fill() -> None:
        # Its traceback would be written into the line in which the job says why it failed.
        with suppress(Py4JError, OSError):
            gateway.new_array(jvm.long, twice_the_heap)

    threading.Thread(target=fill, daemon=True).start()
    context.parallelize([_WAITS_S], 1).foreach(time.sleep)


if __name__ == "__main__":
    distribution.measure_trials = starve  # type: ignore[assignment]
    raise SystemExit(measure.main())
