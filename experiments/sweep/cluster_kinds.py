"""The kinds of clusters under test, with their traits as data.

Code asks for a trait, not for a kind: each trait is the reason why something is done for one kind
and not for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

ClusterKind = Literal["local", "external"]


@dataclass(frozen=True)
class ClusterTraits:
    """The differences for a sweep between the kinds of clusters."""

    started_here: bool
    """`True`: its nodes are processes of this machine, which a sweep starts and ends.

    So they can have faults, need memory here, and their files and logs can be read.
    """
    planned: bool
    """`True`: the experiment chooses its version, features and settings.

    Else they are what the cluster reports when the sweep is planned, and may be unknown.
    """
    shared: bool
    """`True`: others use it too.

    So the names of all that a sweep makes there begin with the sweep's id, its operator grants the
    permissions and chooses replication factors, and trials on it run one after the other.
    """


CLUSTER_KINDS: Final[Mapping[ClusterKind, ClusterTraits]] = MappingProxyType(
    {
        "local": ClusterTraits(started_here=True, planned=True, shared=False),
        "external": ClusterTraits(started_here=False, planned=False, shared=True),
    }
)
