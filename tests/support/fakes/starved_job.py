"""The measuring job, in whose JVM a thread finds no memory while the job waits for its tasks."""

import threading
import time
from typing import Any

from pyspark import SparkContext

from ackbench.spark_jobs import distribution, measure

_WAITS_S = 3_600


def starve(context: SparkContext, *_: object) -> None:
    """Wait for a task that does not end, while another thread of the JVM fills the heap."""
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    # Twice the heap, in a thread of the JVM of its own.
    longs = jvm.java.lang.Runtime.getRuntime().maxMemory() // 4
    threading.Thread(target=gateway.new_array, args=(jvm.long, longs), daemon=True).start()
    context.parallelize([_WAITS_S], 1).foreach(time.sleep)


if __name__ == "__main__":
    distribution.measure_trials = starve  # type: ignore[assignment]
    raise SystemExit(measure.main())
