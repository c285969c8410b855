"""Notes of sweeps that use external clusters: a damaged one concerns its own sweep alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ackbench.experiments.commands.clean import clean
from ackbench.experiments.orchestration.clusters import destroy_all
from ackbench.experiments.orchestration.external_use import note_use, noted_uses
from ackbench.experiments.sweep.plan import ExternalAccess
from ackbench.experiments.trial.clients.settings import security
from ackbench.experiments.trial.faults.operations.noted_heals import (
    NotedHeal,
    note_heal,
    noted_heals,
)
from ackbench.infra.machine.home import Home

SWEEP = "mine-20260101T000000-0001"
OTHER = "other-20260101T000000-0002"
UNSET = "ACKBENCH_TEST_PASSWORD_THAT_IS_NOT_SET"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return a home whose sweep has used a cluster that cannot be contacted without a variable.

    Its security is that of all later clients of this process: of this test's only.
    """
    monkeypatch.setattr(security, "_security_by_servers", {})
    home = Home(tmp_path)
    properties = {"security.protocol": "SASL_SSL", "sasl.password": f"${UNSET}"}
    access = ExternalAccess(addresses="localhost:1", security=properties)
    note_use(home, SWEEP, access)
    return home


def _damage_note_of_other(home: Home) -> Path:
    note = home.external / OTHER / "use.json"
    note.parent.mkdir()
    note.write_text('{"sweep_id": ')
    return note


def test_a_damaged_note_does_not_keep_other_sweeps_from_ending_their_clusters(home: Home) -> None:
    """Nor a sweep that has no note at all."""
    _damage_note_of_other(home)
    assert destroy_all(home, "third-20260101T000000-0003") is None
    left = str(destroy_all(home, SWEEP))
    assert OTHER not in left
    assert f"topics and groups of {SWEEP} may be left in external cluster" in left


def test_cleaning_names_a_damaged_note_with_its_remedy_and_goes_on(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are kept, each with its reason."""
    note = _damage_note_of_other(home)
    assert clean(home, [], force=False) == 0
    mine, other = capsys.readouterr().out.splitlines()
    assert f"{UNSET} is not set" in mine
    assert mine.endswith("`ackbench clean` tries again")
    assert other.startswith(f"kept: {note} is damaged: delete the topics and groups of external")
    assert noted_uses(home) == [SWEEP, OTHER]


def test_a_heal_that_fails_keeps_the_note_and_says_that_the_cluster_may_be_broken(
    home: Home,
) -> None:
    """The topics are deleted only from a healed cluster."""
    command = (sys.executable, "-c", "raise SystemExit('no permission')")
    note = note_heal(
        home.external / SWEEP, NotedHeal(fault="stop-leader", command=command, timeout_s=30)
    )
    left = str(destroy_all(home, SWEEP))
    assert "ended with 1: no permission; the cluster may still be broken" in left
    assert left.count("tries again") == 1
    assert noted_heals(home.external / SWEEP) == [note]
    assert noted_uses(home) == [SWEEP]
