"""The traits of each kind of client."""

from __future__ import annotations

from ackbench.experiments.sweep.client_kinds import (
    DEFAULT_CLIENT,
    FINAL_READER,
    LIBRARIES,
    traits_of,
)


def test_each_library_has_its_own_traits_and_every_other_kind_those_of_a_program() -> None:
    """A plan may name any of them."""
    assert {kind: traits_of(kind) for kind in LIBRARIES} == dict(LIBRARIES)
    assert traits_of("my-client").is_program
    assert traits_of("my-client").owner == "my-client's"


def test_the_default_client_can_do_everything() -> None:
    """Experiments that say nothing of clients use all workloads and faults."""
    traits = traits_of(DEFAULT_CLIENT)
    assert traits.attempts_survive
    assert not traits.reports_in_text


def test_the_final_read_needs_values_of_any_size() -> None:
    """It decodes what either client wrote."""
    assert not traits_of(FINAL_READER).reports_in_text
