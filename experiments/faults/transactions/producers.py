"""A transactional producer that is fenced, and one that leaves its transaction open.

What each of these does: KIP-98 (epochs and fencing), KIP-360 (a producer that was fenced ends), KIP-890 (transactions that hang),
and `docs/faults.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pydantic import Field

from experiments.clients.producer import ProducerProcess
from experiments.faults.base import FaultKind, FaultParameters, Missed, Scene
from experiments.faults.base.nature import Nature, Shape
from experiments.faults.transactions.stable_offset import Stuck, freed, stuck
from experiments.faults.transactions.transactional import FAMILY, first_producer, id_of, needs_transactions
from experiments.ledger.record import FaultEvidence
from infra.errors import WaitTimeout

_OPEN_WITHIN_S: Final = 10.0
"""A producer that follows its schedule is in a transaction most of the time."""


class FencedParameters(FaultParameters):
    """Another producer takes the `transactional.id`."""

    patience_s: float = Field(default=10.0, gt=0, le=3600, description="how long the fenced producer may take to be told, seconds")

    def impossible(self, shape: Shape) -> str | None:
        """Only a transactional producer can be fenced so."""
        return needs_transactions(shape)


class AbandonedParameters(FaultParameters):
    """A producer dies in a transaction, and nobody takes its `transactional.id`."""

    patience_s: float = Field(default=60.0, gt=0, le=3600, description="how long the transaction may stay open before it is taken to hang on, seconds")

    def impossible(self, shape: Shape) -> str | None:
        """There must be a transaction to leave open."""
        return needs_transactions(shape)


def fence_producer(scene: Scene, parameters: FencedParameters) -> FaultEvidence:
    """Take producer 0's `transactional.id` with another producer; it bit when the client said that it was fenced."""
    scene.until(parameters.at_s)
    producer = first_producer(scene)
    with scene.striking():
        _take_the_id(producer)
        scene.note("fault_bit", f"another producer was given {id_of(producer)}")
        told = scene.noticed(lambda: _fenced(scene, producer), parameters.patience_s)
    return FaultEvidence(kind="producer-fenced", bit=told, evidence=tuple(scene.facts))


def abandon_transaction(scene: Scene, parameters: AbandonedParameters) -> FaultEvidence:
    """Kill producer 0 in a transaction that holds records; it bit when the last stable offset stood still behind the high watermark."""
    scene.until(parameters.at_s)
    producer = first_producer(scene)
    with scene.striking():
        records = _killed_in_a_transaction(scene, producer)
        scene.saw(
            f"producer 0 (process {producer.pid}) was killed {scene.since_load_began_s():.2f} s into the load, {records} stored records in its transaction"
        )
        stands = stuck(scene)
        bit = stands is not None and scene.noticed(_released(scene, stands), parameters.patience_s)
    return FaultEvidence(kind="transaction-abandoned", bit=bit, evidence=tuple(scene.facts))


def _take_the_id(producer: ProducerProcess) -> None:
    """Be another producer of the same id for a moment: its coordinator aborts what is open, and raises the epoch."""
    from experiments.clients.handle import Client
    from experiments.clients.librdkafka import PRODUCER
    from experiments.clients.transact import Transactions

    job = producer.job
    with Client(PRODUCER, {**job.settings, "bootstrap.servers": job.bootstrap_servers}, log=job.folder / "fencing.log") as other:
        Transactions(other).init(job.warm_up_timeout_s)


def _fenced(scene: Scene, producer: ProducerProcess) -> str | None:
    from experiments.clients.librdkafka import error_text
    from experiments.clients.transact import FENCINGS

    code = producer.ended_by()
    return f"producer 0 was told {error_text(code)} {scene.since_begin_s():.2f} s after the fault began" if code in FENCINGS else None


def _killed_in_a_transaction(scene: Scene, producer: ProducerProcess) -> int:
    """Kill it for good as soon as its open transaction holds some stored records, and not yet all; return how many.

    Raises:
        Missed: it was in no transaction that held any.
    """
    try:
        scene.wait(
            producer.stored_in_open_transaction, awaiting="producer 0 to be in a transaction with stored records", timeout_s=_OPEN_WITHIN_S, every_s=0.002
        )
    except WaitTimeout as error:
        raise Missed(str(error)) from error
    scene.note("fault_kill", "SIGKILL, producer 0")
    producer.leave()
    scene.note("fault_bit", f"producer 0, process {producer.pid}, is gone")
    return producer.stored_in_open_transaction()


def _released(scene: Scene, stands: Stuck) -> Callable[[], str | None]:
    return lambda: freed(scene, stands)


def _nature_of_fencing(kind: str, parameters: FencedParameters, _shape: Shape) -> Nature:
    return Nature(kind=kind, undecided=True, heals_within_ms=parameters.patience_s * 1000)


def _nature_of_abandoning(kind: str, parameters: AbandonedParameters, _shape: Shape) -> Nature:
    return Nature(kind=kind, undecided=True, heals_within_ms=parameters.patience_s * 1000)


KINDS: Final = (
    FaultKind(
        "producer-fenced",
        FAMILY,
        "another producer takes producer 0's transactional.id in mid-load",
        FencedParameters,
        fence_producer,
        _nature_of_fencing,
        outside=True,
    ),
    FaultKind(
        "transaction-abandoned",
        FAMILY,
        "producer 0 is killed in a transaction, which stays open until transaction.timeout.ms",
        AbandonedParameters,
        abandon_transaction,
        _nature_of_abandoning,
        outside=True,
    ),
)
