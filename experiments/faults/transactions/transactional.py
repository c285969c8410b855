"""The producer whose transactions are struck."""

from __future__ import annotations

from typing import Final

from experiments.clients.producer import ProducerProcess
from experiments.faults.base import Missed, Scene
from experiments.faults.base.nature import Shape

FAMILY: Final = "transactions"


def needs_transactions(shape: Shape) -> str | None:
    """Say that there are no transactions to strike, as the end of a sentence; `None`: there are."""
    return None if shape.transactional else "workload.transaction_records is 0; allowed: producers that send in transactions"


def first_producer(scene: Scene) -> ProducerProcess:
    """Return producer 0.

    Raises:
        Missed: it is none of ours, or has ended.
    """
    producer = scene.clients.first_producer() if scene.clients else None
    if producer is None or not producer.lives():
        raise Missed("there is no producer 0 that runs")
    return producer


def id_of(producer: ProducerProcess) -> str:
    """Return a producer's `transactional.id`."""
    return producer.job.settings["transactional.id"]
