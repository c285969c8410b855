"""Faults of the network between the clients and the nodes, which are well: packets of the client listeners are dropped by the kernel.

The harness looks at the nodes through another listener (`infra.lookout`), and sees all of it.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from experiments.faults.base import FaultKind, Scene
from experiments.faults.base.aftermath import with_timed_out_requests
from experiments.faults.base.nature import Nature, Shape
from experiments.faults.network.cutting import FAMILY, NEEDS, NETWORK
from experiments.faults.network.impairing import ImpairmentParameters, impair
from experiments.ledger.record import FaultEvidence
from infra.impairment import Cut


class SilenceParameters(ImpairmentParameters):
    """Nothing comes through, and nobody is told."""

    def unnoticed(self, client_timeout_s: float, acks: str) -> str | None:
        """One that is no longer than the client waits is repaired by TCP; with acks=0 nobody waits, and what is asked is another thing."""
        if acks == "0" or self.lasts_s > client_timeout_s:
            return None
        waits = f"the client waits {client_timeout_s * 1000:g} ms for an answer (socket.timeout.ms; java: request.timeout.ms)"
        return f"lasts_s is {self.lasts_s:g} and {waits}; allowed: a longer cut"


class ClientCutParameters(SilenceParameters):
    """Clients are cut off."""

    nodes: Literal["all", "leader"] = Field(default="all", description="from whom the clients are cut off: all or leader")


def isolate_clients(scene: Scene, parameters: ClientCutParameters) -> FaultEvidence:
    """Cut the clients off from all nodes, or from the leader alone; it bit when packets were dropped and requests timed out."""
    scene.until(parameters.at_s)
    nodes = scene.cluster.node_ids() if parameters.nodes == "all" else (scene.leader(),)
    return impair("client-isolated", scene, parameters, [Cut(node, clients=True) for node in nodes])


def drop_responses(scene: Scene, parameters: SilenceParameters) -> FaultEvidence:
    """Drop what the leader answers its clients: the batch is appended, and its producer never hears of it."""
    scene.until(parameters.at_s)
    return impair("responses-dropped", scene, parameters, [Cut(scene.leader(), clients=True, incoming=False)])


def _nature_of_client_cut(kind: str, parameters: SilenceParameters, _shape: Shape) -> Nature:
    """The nodes are well. What the clients had sent waits in the kernel, and arrives at the heal, wanted or not."""
    lasts_ms = parameters.lasts_s * 1000
    return Nature(kind=kind, clients_cut=True, holds_ms=lasts_ms, heals_after_ms=lasts_ms, heals_within_ms=lasts_ms)


def _nature_of_lost_answers(kind: str, parameters: SilenceParameters, shape: Shape) -> Nature:
    return _nature_of_client_cut(kind, parameters, shape).model_copy(update={"answers_cut": True})


KINDS: Final = (
    FaultKind(
        "client-isolated",
        FAMILY,
        "the clients are cut off from all nodes, or from the leader",
        ClientCutParameters,
        isolate_clients,
        _nature_of_client_cut,
        NEEDS,
        NETWORK,
        confirmed=with_timed_out_requests,
    ),
    FaultKind(
        "responses-dropped",
        FAMILY,
        "what the leader answers its clients is dropped: the batch is stored, and the producer never hears of it",
        SilenceParameters,
        drop_responses,
        _nature_of_lost_answers,
        NEEDS,
        NETWORK,
        confirmed=with_timed_out_requests,
    ),
)
