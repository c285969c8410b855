"""The driver's JVM as a process: it exits when it has no memory, and says why it ended.

Spark logs an OutOfMemoryError of many of its threads and goes on without the thread. A job whose
results that thread would have received never ends.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark import SparkContext

EXIT_OPTION: Final = "-XX:+ExitOnOutOfMemoryError"
OUT_OF_MEMORY: Final = 3
"""The exit code of a JVM with `EXIT_OPTION`."""
_EXIT_S: Final = 5.0
"""How long a JVM whose connections are closed may take to exit."""
_GIB: Final = 1 << 30


@dataclass(frozen=True)
class DriverJvm:
    """A JVM that this process started."""

    process: subprocess.Popen[Any]
    heap_bytes: int
    log: Path

    def why_ended(self) -> str | None:
        """Return why it ended, in one line; `None`: it runs."""
        try:
            code = self.process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            return None
        if code == OUT_OF_MEMORY:
            return driver_out_of_memory(self.heap_bytes)
        if code < 0:
            return (
                f"Spark's driver was killed ({signal.Signals(-code).name}), as the kernel does "
                f"when the machine has no memory left; its log: {self.log}"
            )
        return f"Spark's driver exited with code {code}; its log: {self.log}"

    def kill(self) -> None:
        """Kill it, and the Python processes of its tasks."""
        import psutil  # as in `session`

        try:
            jvm = psutil.Process(self.process.pid)
            kill_all([jvm, *jvm.children(recursive=True)])
        except psutil.NoSuchProcess:
            pass


def kill_all(processes: Iterable[Any]) -> None:
    """Kill processes of psutil; those that have ended do not matter."""
    import psutil

    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue


def driver_out_of_memory(heap_bytes: int) -> str:
    """Return that the driver's heap was full, and which setting makes it larger."""
    more = max(2, -(-2 * heap_bytes // _GIB))
    return (
        f"Spark's driver ran out of memory (java.lang.OutOfMemoryError, heap of "
        f"{heap_bytes >> 20:,} MB): give it more with --conf spark.driver.memory={more}g"
    )


_JVMS: WeakKeyDictionary[SparkContext, DriverJvm] = WeakKeyDictionary()


def note_jvm(context: SparkContext, jvm: DriverJvm) -> None:
    """Record that a context runs in a JVM that this process started."""
    _JVMS[context] = jvm


def why_ended(context: SparkContext) -> str | None:
    """Return why a context's JVM ended; `None`: it runs, or is that of spark-submit."""
    jvm = _JVMS.get(context)
    return jvm.why_ended() if jvm else None


def has_ended(context: SparkContext) -> bool:
    """Return whether a context's JVM is known to have ended."""
    jvm = _JVMS.get(context)
    return jvm is not None and jvm.process.poll() is not None


def end_jobs(context: SparkContext) -> None:
    """End the jobs of a context, with its JVM unless that is spark-submit's."""
    jvm = _JVMS.get(context)
    if jvm:
        jvm.kill()
    else:
        context.cancelAllJobs()
