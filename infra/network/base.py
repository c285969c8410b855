"""What a cluster needs of its network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from infra.impairment import Caught, Impairment
from infra.kraft import Place


class Network(Protocol):
    """Made by a cluster's supervisor before any node starts; undone by it after the last one ended. Node 1 is number 0."""

    def places(self) -> tuple[Place, ...]:
        """Where each node is to listen, by its number from 0."""

    def command(self, number: int, command: Sequence[str]) -> tuple[str, ...]:
        """Return how a node's program is started where it is to run."""

    async def open(self) -> None:
        """Begin to carry traffic, where that is done by the supervisor itself."""

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Begin to treat the nodes' traffic so; all of it, or, where something is raised, nothing.

        Raises:
            SupervisorError: this network cannot, or the name is taken.
        """

    def caught(self, name: str) -> tuple[Caught, ...]:
        """Return what the impairments of that name have met with so far.

        Raises:
            SupervisorError: there are none of that name.
        """

    def impaired(self) -> tuple[str, ...]:
        """Return the names of the impairments that act now."""

    def mend(self, name: str) -> tuple[Caught, ...]:
        """Undo the impairments of that name and return what they met with in all; a second time finds nothing to do."""

    def end(self) -> None:
        """Undo all that was made and cut; a second time finds nothing to do."""
