"""Faults of the clients themselves: a producer that dies and is started again, members of a consumer group that die or stand still."""

from __future__ import annotations

from typing import Final

from experiments.faults.clients import members, membership, producers

KINDS: Final = (*producers.KINDS, *members.KINDS, *membership.KINDS)
