"""A setting that differs: a module of its own, so that a trend does not load what reads results."""

from __future__ import annotations

from ackbench.experiments.ledger.trial_manifest import Frozen


class SettingChange(Frozen):
    """A setting that differs between the sides."""

    scope: str
    name: str
    a: str
    b: str
