"""`ackbench faults` lists and explains every fault, and why one is unavailable here."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from ackbench.experiments.commands import faults
from ackbench.experiments.commands.cli import cli
from ackbench.experiments.trial.faults import FAULTS
from ackbench.infra.cluster.capabilities import MissingCapability

NO_ROOT = MissingCapability("not root", "run as root")


@pytest.fixture
def no_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine that lacks every capability that a fault needs."""
    monkeypatch.setattr(faults, "missing_capability", lambda _capability: NO_ROOT)


def output_of(*arguments: str) -> str:
    """Return the output of the command."""
    return CliRunner().invoke(cli, [*arguments], standalone_mode=False).output


def test_every_fault_of_the_registry_is_listed_with_its_summary() -> None:
    """The faults are grouped by family."""
    listed = output_of("faults")
    assert [
        kind.kind
        for kind in FAULTS.values()
        if f"  {kind.kind} " not in listed or kind.summary not in listed
    ] == []


def test_a_faults_parameters_are_explained_with_their_defaults() -> None:
    """The syntax is that of an experiment's YAML file."""
    assert "at_s = 2.0: when the fault is injected, seconds after the load began" in output_of(
        "faults", "leader-crash"
    )


@pytest.mark.parametrize("kind", [kind.kind for kind in FAULTS.values() if kind.kind != "none"])
def test_every_parameter_has_a_description(kind: str) -> None:
    """A name alone does not explain a parameter."""
    assert [
        name
        for name, field in FAULTS[kind].parameters.model_fields.items()
        if not field.description
    ] == []


def test_an_unavailable_fault_is_listed_with_the_reason_and_a_remedy(no_capabilities: None) -> None:
    """One line, where all required capabilities lack the same."""
    del no_capabilities
    assert output_of("faults").count(
        "not available on this machine: not root -> run as root"
    ) == sum(bool(kind.required_capabilities) for kind in FAULTS.values())


@pytest.mark.usefixtures("no_capabilities")
def test_what_two_capabilities_lack_is_named_once() -> None:
    """A fault that needs namespaces and a queue of the kernel needs root for both."""
    kind = next(kind for kind in FAULTS.values() if len(kind.required_capabilities) > 1)
    assert faults.missing_capabilities_of(kind) == (NO_ROOT,)
