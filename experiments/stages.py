"""What a trial is doing now, and what each of its stages cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from experiments.sweep_folder import SweepFolder


class Stages:
    """Names each stage to whoever watches the sweep, and keeps its seconds."""

    def __init__(self, sweep: SweepFolder, trial_id: str) -> None:
        self._sweep, self._trial_id = sweep, trial_id
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, doing: str) -> Iterator[None]:
        """Frame a stage: `name` for the record, `doing` for the person who watches."""
        self._sweep.say("trial", doing, self._trial_id)
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(time.monotonic() - began, 3)
