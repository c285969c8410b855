"""The treatment of one frame by a relay, and its direction. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["responses", "requests"]
"""Of a client connection: what the node sends, or what it receives."""
RelayTreatment = Literal["hold", "drop", "reset"]
"""The treatment of bytes that a relay does not forward.

hold: keep them, and deliver them at the end. drop: discard them, and reset the connection at the
end. reset: discard them, and reset the connection at once.
"""
FrameAction = RelayTreatment | Literal["answer"]
"""The same of a frame and what follows it on its connection; answer: the node never gets it."""


@dataclass(frozen=True)
class FrameTreatment:
    """The treatment of a frame."""

    frame: bytes
    """The frame as it is forwarded or held; the response to a request that the relay answers."""
    treatment: FrameAction | None = None
    """`None`: it is forwarded. Held and dropped is also what follows it on its connection."""
    for_s: float | None = None
    """For how long it is held; `None`: until the watcher, or its removal, delivers it."""
