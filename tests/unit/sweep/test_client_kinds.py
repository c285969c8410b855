"""The traits of each kind of client."""

from __future__ import annotations

from typing import get_args

from ackbench.experiments.sweep.client_kinds import (
    CLIENTS,
    DEFAULT_CLIENT,
    FINAL_READER,
    ClientKind,
)


def test_each_kind_of_client_has_its_traits() -> None:
    """A plan may name each of them."""
    assert tuple(CLIENTS) == get_args(ClientKind)


def test_the_default_client_can_do_everything() -> None:
    """Experiments that say nothing of clients use all workloads and faults."""
    traits = CLIENTS[DEFAULT_CLIENT]
    assert traits.attempts_survive
    assert traits.has_members
    assert not traits.reports_in_text


def test_the_final_read_needs_values_of_any_size() -> None:
    """It decodes what either client wrote."""
    assert not CLIENTS[FINAL_READER].reports_in_text
