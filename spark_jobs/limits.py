"""The time limits of the job's steps: a step that would wait for ever ends with a reason.

A call that does not return cannot be interrupted. So, once the time is over, a timer ends what the
step waits for; and this process, if the step goes on nevertheless.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from ackbench.experiments.ledger.spark_settings import SparkSetupError
from ackbench.spark_jobs.configuration import whole_seconds

LIMIT_SETTING: Final = "spark.ackbench.stepLimitSeconds"
"""Spark's setting for the time limit of each step."""
STEP_LIMIT_S: Final = 600.0
RECORDS_LIMIT_S: Final = 60.0
"""Per million records, in addition: about a hundred times what measuring them takes."""
GRACE_S: Final = 30.0
"""How long a step may take to fail when what it waits for was ended."""
EXIT_CODE: Final = 2


@dataclass(frozen=True)
class StepLimit:
    """How long a step may take."""

    seconds: float
    rule: str
    """What the limit follows from, for messages."""

    @classmethod
    def of(cls, setting: str | None, records: int = 0) -> StepLimit:
        """Return the limit of a step.

        Args:
            setting: the user's value of `LIMIT_SETTING`; `None`: there is none.
            records: how many the step is about.

        Raises:
            SparkSetupError: the setting is not a whole number above 0.
        """
        default_s = STEP_LIMIT_S + RECORDS_LIMIT_S * records / 1e6
        seconds = whole_seconds(LIMIT_SETTING, setting, default_s)
        if setting is not None:
            return cls(seconds, LIMIT_SETTING)
        return cls(seconds, f"{STEP_LIMIT_S:g} s and {RECORDS_LIMIT_S:g} s per million records")

    def exceeded(self, step: str) -> str:
        """Return that a step exceeded the limit, in one line."""
        return (
            f"{step} was not done after {self.seconds:,.0f} s, its limit ({self.rule}): if this "
            f"machine is only slow, allow more with --conf {LIMIT_SETTING}={2 * self.seconds:.0f}"
        )


DEFAULT_LIMIT: Final = StepLimit.of(None)


@contextmanager
def limited(step: str, limit: StepLimit, end: Callable[[], None] | None = None) -> Iterator[None]:
    """Limit the time of a step.

    Args:
        step: what it does, for the message.
        limit: how long it may take.
        end: ends what the step waits for, so that the step fails. `None`: nothing can.

    Raises:
        SparkSetupError: the step failed because it was ended.
    """
    reason, ended = limit.exceeded(step), threading.Event()

    def end_step() -> None:
        ended.set()
        if end is not None:
            end()

    with ExitStack() as timers:
        for seconds, action in (
            (limit.seconds, end_step),
            (limit.seconds + (GRACE_S if end else 0), lambda: _exit(reason)),
        ):
            timer = threading.Timer(seconds, action)
            timer.daemon = True
            timer.start()
            timers.callback(timer.cancel)
        try:
            yield
        except Exception as error:
            if ended.is_set():
                raise SparkSetupError(reason) from error
            raise


def _exit(reason: str) -> None:
    """End this process, with the line that `spark_jobs.measure` would print."""
    os.write(2, f"spark: {reason}\n".encode())
    os._exit(EXIT_CODE)
