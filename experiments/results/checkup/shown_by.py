"""The experiment of the catalogue that shows what settings do under a fault."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import cache
from typing import Final

from ackbench.experiments.planning.catalog import catalog_names
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.verdicts.guarantees import Guarantee

_FAMILIES: Final = "faults-"
"""How the experiments begin that run one family of faults each."""
_DEFAULTS: Final = "faults-defaults"
"""Runs the usual faults with the default timeouts, which rarely shows what they break."""
_UNCLEAN: Final = "unclean.leader.election.enable"
_DURATION: Final = "workload.duration_s"


@cache
def _experiment_of_fault() -> dict[str, str]:
    """Return the experiment that runs each fault, by fault."""
    found: dict[str, str] = {}
    for name in sorted(catalog_names(), key=lambda name: name == _DEFAULTS):
        if name.startswith(_FAMILIES):
            for cross in load_experiment(name).axes:
                for fault in cross.get("fault", ()):
                    found.setdefault(str(fault), name)
    return found


def command_that_shows(
    configuration: Configuration, faults: Sequence[str], guarantee: Guarantee
) -> str | None:
    """Return the command that runs these settings under one of the faults; `None`: there is none.

    The fault that shows a violation most reliably; else the first in the order of the catalogue
    that needs no root, or the first.
    """
    known, topic = _experiment_of_fault(), configuration.effective_topic()
    unclean = topic[_UNCLEAN] == "true"
    telling = (*(("unclean-election",) if unclean else ()), *guarantee.shown_by)
    ordered = [
        fault for fault in dict.fromkeys((*telling, *FAULTS)) if fault in faults and fault in known
    ]
    if not ordered:
        return None
    fault = next((one for one in ordered if not FAULTS[one].required_capabilities), ordered[0])
    producer = configuration.effective_producer()
    settings = {
        "fault": fault,
        "acks": producer["acks"],
        "enable.idempotence": producer["enable.idempotence"],
        "replication.factor": str(configuration.replicas),
        "min.insync.replicas": topic["min.insync.replicas"],
    }
    settings |= _shared_settings(known[fault], fault, unclean=unclean)
    if configuration.client != DEFAULT_CLIENT:
        settings["client"] = configuration.client
    words = ["ackbench", "run", known[fault]]
    for name, value in settings.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join(words)


def _shared_settings(name: str, fault: str, *, unclean: bool) -> dict[str, str]:
    """Return what else to set, as `--set fault=` gives the fault to all axes of the experiment.

    Without it the fault would also run with the settings that other faults need, such as a load of
    75 s.
    """
    experiment = load_experiment(name)
    axes = {axis for cross in experiment.axes for axis in cross}
    settings = {}
    if unclean or _UNCLEAN in axes:
        settings[_UNCLEAN] = str(unclean).lower()
    if _DURATION in axes:
        own = next(cross for cross in experiment.axes if fault in cross.get("fault", ()))
        (duration_s,) = own.get(_DURATION, (experiment.workload.duration_s,))
        settings[_DURATION] = f"{duration_s:g}"
    return settings
