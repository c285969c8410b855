"""Ports are reserved for one cluster at a time."""

from ackbench.infra.network.reservations import reserve_ports


def test_two_clusters_reserve_different_ports() -> None:
    """Also when both look for ports at the same time; a release makes them available again."""
    first, second = reserve_ports(9), reserve_ports(9)
    assert len({*first.ports, *second.ports}) == 18
    first.release()
    second.release()
