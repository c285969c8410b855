"""What a cluster needs of its network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from infra.kraft import Place


class Network(Protocol):
    """Made by a cluster's supervisor before any node starts; undone by it after the last one ended."""

    def places(self) -> tuple[Place, ...]:
        """Where each node is to listen, by its number from 0."""

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return how a node's program is started where it is to run."""

    def end(self) -> None:
        """Undo all that was made and cut; a second time finds nothing to do."""
