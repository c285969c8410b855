"""Faults of the clients: producers and members of a consumer group.

A producer is restarted; members crash, are paused, join or leave.
"""

from __future__ import annotations

from typing import Final

from ackbench.experiments.trial.faults.clients import applications, members, membership, producers

KINDS: Final = (*producers.KINDS, *members.KINDS, *membership.KINDS, *applications.KINDS)
