"""`make soak`: in which experiment a run is killed, family by family."""

from __future__ import annotations

import pytest
from soak import killing

from experiments.faults import FAULTS

FAMILIES = sorted({kind.family for kind in FAULTS.values() if kind.kind != "none"})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_can_be_killed_in_each_family(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that can do all faults no family is left out: one that wants more than a plain experiment has it asked for."""
    monkeypatch.setattr(killing, "missing_capabilities_of", lambda _kind: [])
    found = killing.killing_in(family)

    assert found is not None
    assert found.fault.family == family
