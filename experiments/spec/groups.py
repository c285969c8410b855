"""What a consumer group asks of a cell's settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.clients.kinds import ClientChoice
from experiments.errors import ExperimentError
from experiments.plan import Workload

_AUTO_COMMIT: Final = "enable.auto.commit"
_TRUE: Final = frozenset({"true", "t", "1"})


def refuse_what_groups_lack(client: ClientChoice, workload: Workload, consumer: Mapping[str, str]) -> None:
    """See that there can be such a group.

    Raises:
        ExperimentError: it is not librdkafka's, or would commit by itself.
    """
    if not workload.members:
        return
    kind, says = ("copiers", "delivery") if workload.kind == "copy" else ("consumers", "commit")
    members = f"workload.{kind} is {workload.members}"
    if client.kind != "librdkafka":
        raise ExperimentError(f"{members} and client is {client.kind}; allowed: members of librdkafka's, which can be held between processing and committing")
    if consumer.get(_AUTO_COMMIT, "false").lower() in _TRUE:
        raise ExperimentError(f"{members} and {_AUTO_COMMIT} is true; allowed: false, as when a member commits is workload.{says}")
