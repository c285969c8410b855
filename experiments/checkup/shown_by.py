"""The experiment of the catalogue that shows what settings do under a fault."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache
from typing import Final

from experiments.checkup.configuration import Configuration
from experiments.faults import FAULTS
from experiments.planning.catalog import catalog_names, load_experiment

_FAMILIES: Final = "faults-"
"""How the experiments begin that run one family of faults each."""


@cache
def _experiment_of_fault() -> dict[str, str]:
    """Return the experiment that runs each fault, by fault."""
    found: dict[str, str] = {}
    for name in catalog_names():
        if name.startswith(_FAMILIES):
            for cross in load_experiment(name).axes:
                for fault in cross.get("fault", ()):
                    found.setdefault(str(fault), name)
    return found


def command_that_shows(configuration: Configuration, faults: Sequence[str]) -> str | None:
    """Return the command that runs these settings under one of the faults; `None`: there is none.

    The first fault in the order of the catalogue that needs no root, or else the first.
    """
    known = _experiment_of_fault()
    ordered = [fault for fault in FAULTS if fault in faults and fault in known]
    if not ordered:
        return None
    fault = next((one for one in ordered if not FAULTS[one].required_capabilities), ordered[0])
    producer = configuration.effective_producer()
    settings = {
        "fault": fault,
        "acks": producer["acks"],
        "enable.idempotence": producer["enable.idempotence"],
        "replication.factor": str(configuration.replicas),
        "min.insync.replicas": configuration.effective_topic()["min.insync.replicas"],
    }
    if configuration.client != "librdkafka":
        settings["client"] = configuration.client
    words = ["ackbench", "run", known[fault]]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)
