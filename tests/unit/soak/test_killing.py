"""The experiment in which `make soak` kills a run, for each family of faults."""

from __future__ import annotations

import pytest
from soak import killing

from ackbench.experiments.trial.faults import FAULTS

FAMILIES = sorted({kind.family for kind in FAULTS.values() if kind.kind not in {"none", "command"}})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_can_be_killed_in_each_family(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with every capability, each family has a valid experiment."""
    monkeypatch.setattr(killing, "missing_capabilities_of", lambda _kind: [])
    case = killing.kill_case(family)
    assert case is not None
    assert case.fault.family == family
