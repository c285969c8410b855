"""What consume-process-produce asks of a cell's settings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from experiments.clients.kinds import ClientChoice
from experiments.errors import ExperimentError
from experiments.plan import Workload

_ALONE: Final = Workload.model_fields["delivery"].default


def refuse_what_copies_lack(client: ClientChoice, workload: Workload) -> None:
    """See that there can be such copiers, or that nothing is asked of copiers where there are none.

    Raises:
        ExperimentError: something is asked of nobody, said twice, or is none of the client's.
    """
    for objection in _of_copies(client, workload) if workload.kind == "copy" else _of_none(workload):
        raise ExperimentError(objection)


def _of_copies(client: ClientChoice, workload: Workload) -> Iterator[str]:
    copies = "workload.kind is copy"
    if client.kind != "librdkafka":
        yield f"{copies} and client is {client.kind}; allowed: librdkafka, of whose records a copier knows what they hold"
    if not workload.copiers:
        yield f"{copies} and workload.copiers is 0; allowed: 1 copier or more"
    if workload.consumers:
        yield f"{copies} and workload.consumers is {workload.consumers}; allowed: 0, as the copiers are the consumer group"
    if workload.commit == "before":
        yield f"{copies} and workload.commit is before; allowed: left out, as when a copier commits is workload.delivery"


def _of_none(workload: Workload) -> Iterator[str]:
    none = "workload.kind is produce"
    if workload.copiers:
        yield f"{none} and workload.copiers is {workload.copiers}; allowed: 0, or workload.kind copy"
    if workload.delivery != _ALONE:
        yield f"{none} and workload.delivery is {workload.delivery}; allowed: left out, or workload.kind copy"
