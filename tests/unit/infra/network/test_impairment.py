"""Impairments begin together or not at all, and each ends whatever becomes of the others."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from infra.errors import SupervisorError
from infra.network.impairment import (
    Cut,
    Impairment,
    ImpairmentCounts,
    ImpairmentHandle,
    Impairments,
)
from infra.network.switch import run


@dataclass
class Recording:
    """Keeps which nodes are impaired; refuses what it is told to refuse."""

    acts: set[int] = field(default_factory=set)
    refuses_begin: int = 0
    refuses_end: int = 0

    def place(self, impairment: Impairment) -> ImpairmentHandle:
        """Make one ready."""
        return _One(self, impairment.node_id)


@dataclass
class _One:
    recording: Recording
    node: int

    def begin(self) -> None:
        if self.node == self.recording.refuses_begin:
            raise SupervisorError("refused")
        self.recording.acts.add(self.node)

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        return (ImpairmentCounts(self.node, "packets", 1),)

    def end(self) -> tuple[ImpairmentCounts, ...]:
        if self.node == self.recording.refuses_end:
            raise SupervisorError("refused")
        self.recording.acts.discard(self.node)
        return (ImpairmentCounts(self.node, "packets", 2),)


CUTS = (Cut(1), Cut(2), Cut(3))


def test_what_it_met_with_in_all_is_told_at_the_end_and_only_once() -> None:
    """A second heal finds nothing to do."""
    recording = Recording()
    impairments = Impairments(recording.place)
    impairments.begin("a", CUTS)
    assert (recording.acts, impairments.names()) == ({1, 2, 3}, ("a",))
    assert [one.packets for one in impairments.counts("a")] == [1, 1, 1]
    assert sorted((one.node_id, one.packets) for one in impairments.heal("a")) == [
        (1, 2),
        (2, 2),
        (3, 2),
    ]
    assert (recording.acts, impairments.names(), impairments.heal("a")) == (set(), (), ())


def test_where_one_cannot_begin_none_acts() -> None:
    """Half a partition would be another fault."""
    recording = Recording(refuses_begin=3)
    impairments = Impairments(recording.place)
    with pytest.raises(SupervisorError, match="refused"):
        impairments.begin("a", CUTS)
    assert (recording.acts, impairments.names()) == (set(), ())


def test_where_one_cannot_end_the_others_do_and_the_network_is_known_to_be_impaired() -> None:
    """The error is told, and the cluster is not whole."""
    recording = Recording(refuses_end=2)
    impairments = Impairments(recording.place)
    impairments.begin("a", CUTS)
    with pytest.raises(SupervisorError, match="refused"):
        impairments.heal("a")
    assert (recording.acts, impairments.names()) == ({2}, ("a",))


def test_a_name_is_given_once_and_known() -> None:
    """Two faults at a time have two names."""
    impairments = Impairments(Recording().place)
    impairments.begin("a", CUTS)
    with pytest.raises(SupervisorError, match="already"):
        impairments.begin("a", CUTS)
    with pytest.raises(SupervisorError, match=r"no impairment b: there are \['a'\]"):
        impairments.counts("b")


def test_a_program_that_fails_or_hangs_is_a_refusal_and_no_traceback() -> None:
    """The supervisor answers with its words; a kernel that is slow to answer is told as such."""
    assert run(["cat"], "said") == "said"
    with pytest.raises(SupervisorError, match="sh -c echo why >&2; exit 3: why"):
        run(["sh", "-c", "echo why >&2; exit 3"])
    with pytest.raises(SupervisorError, match=r"not done after 0\.05 s"):
        run(["sh", "-c", "exec sleep 60"], timeout_s=0.05)
