"""What an operator asks of a cluster, as part of a fault: where another part has struck whom it needs, it missed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from experiments.faults.base.misses import Missed
from experiments.faults.base.scene import OBSERVED_PARTITION, Scene
from infra.cluster_spec import PartitionState
from infra.errors import HarnessError


@contextmanager
def asking() -> Iterator[None]:
    """Take a refusal, or no answer, for a miss.

    Raises:
        Missed: with Kafka's text, or what was awaited.
    """
    try:
        yield
    except HarnessError as error:
        raise Missed(str(error)) from error


def observed(scene: Scene) -> PartitionState:
    """Return the observed partition as the cluster tells it now, with a leader or without.

    Raises:
        Missed: there is no such topic now, or no broker answers.
    """
    partitions = scene.state().of(scene.topic)
    if not partitions:
        raise Missed("there was no topic")
    return partitions[OBSERVED_PARTITION]
