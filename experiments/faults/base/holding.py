"""Which part of a fault keeps which node down or still, so that the heal of one does not undo what another still does."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

How = Literal["down", "still"]


class Holding:
    """Who holds what; safe to use from several threads."""

    def __init__(self) -> None:
        """Nobody holds anything."""
        self._holders: defaultdict[tuple[int, How], set[str]] = defaultdict(set)
        self._locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    @contextmanager
    def alone(self, node: int) -> Iterator[None]:
        """Keep the other parts from doing anything to the node meanwhile: what is looked at and then done is done to what was looked at."""
        with self._lock:
            lock = self._locks[node]
        with lock:
            yield

    def take(self, node: int, how: How, holder: str) -> None:
        """Hold a node from now on."""
        with self._lock:
            self._holders[node, how].add(holder)

    def let_go(self, node: int, how: How, holder: str) -> bool:
        """Hold it no longer; return whether nobody does any more."""
        with self._lock:
            self._holders[node, how].discard(holder)
            return not self._holders[node, how]

    def nodes(self) -> tuple[int, ...]:
        """Every node that was ever held."""
        with self._lock:
            return tuple(sorted({node for node, _ in self._holders}))
