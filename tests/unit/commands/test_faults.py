"""`ackbench faults` and what `doctor` says of them: each is offered and explained; one that this machine cannot do says why, and what would enable it."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from experiments.cli import cli
from experiments.commands import faults
from experiments.faults import FAULTS
from infra.cluster.capabilities import MissingCapability

NO_ROOT = MissingCapability("not root", "run as root")


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has none of the means that some fault needs."""
    monkeypatch.setattr(faults, "missing_capability", lambda _means: NO_ROOT)


def said(*arguments: str) -> str:
    """Return what the command prints."""
    return CliRunner().invoke(cli, [*arguments], standalone_mode=False).output


def test_every_fault_of_the_registry_is_listed_with_what_it_does() -> None:
    """Under its family's name."""
    listed = said("faults")
    assert [
        kind.kind
        for kind in FAULTS.values()
        if f"  {kind.kind} " not in listed or kind.summary not in listed
    ] == []


def test_a_faults_parameters_are_explained_with_their_defaults() -> None:
    """As a user writes them into an experiment."""
    assert "at_s = 2.0: when it strikes, seconds after the load began" in said(
        "faults", "leader-crash"
    )


@pytest.mark.parametrize("kind", [kind.kind for kind in FAULTS.values() if kind.kind != "none"])
def test_every_parameter_says_what_it_is(kind: str) -> None:
    """A name alone explains nothing."""
    assert [
        name
        for name, field in FAULTS[kind].parameters.model_fields.items()
        if not field.description
    ] == []


def test_what_this_machine_cannot_do_is_listed_all_the_same_with_the_reason(
    nothing_here: None,
) -> None:
    """And with what would enable it, as often as there are faults that need something."""
    del nothing_here
    assert said("faults").count("not available on this machine: not root -> run as root") == sum(
        len(kind.required_capabilities) for kind in FAULTS.values()
    )
