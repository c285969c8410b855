"""What keys, pairs and the naming of partitions ask of a cell's settings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from experiments.clients.kinds import ClientChoice
from experiments.errors import ExperimentError
from experiments.plan import Workload

_TWO: Final = 2


def refuse_what_keys_lack(client: ClientChoice, workload: Workload) -> None:
    """See that there can be such keys.

    Raises:
        ExperimentError: there are too few keys, two wishes exclude each other, or the client makes its own keys.
    """
    for objection in _objections(client, workload):
        raise ExperimentError(objection)


def _objections(client: ClientChoice, workload: Workload) -> Iterator[str]:
    drawn = {"workload.pairs": workload.pairs != "none", "workload.hot_key_share": workload.hot_key_share > 0}
    for name in (name for name, is_asked in drawn.items() if is_asked and workload.keys < _TWO):
        yield f"{name} is asked for and workload.keys is {workload.keys}; allowed: 2 keys or more"
    if all(drawn.values()):
        yield "workload.pairs and workload.hot_key_share are both asked for; allowed: one of them, as each says which key a record has"
    if workload.round_robin and workload.keys:
        yield f"workload.round_robin is true and workload.keys is {workload.keys}; allowed: 0, as a key is there to choose the partition"
    own = [*(name for name, is_asked in drawn.items() if is_asked), *(["workload.round_robin"] if workload.round_robin else [])]
    if client.kind == "java" and own:
        yield f"{own[0]} is asked for; allowed with client java: not at all, VerifiableProducer draws its keys in turn and names no partition"
