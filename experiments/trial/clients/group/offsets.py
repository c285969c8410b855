"""The offsets that a group committed, as its coordinator reports them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ackbench.experiments.trial.clients.group.jobs import GroupJob
from ackbench.experiments.trial.clients.settings.librdkafka import admin_settings
from ackbench.experiments.trial.clients.settings.security import connection_settings
from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
from ackbench.infra.errors import HarnessError

_OFFSET_FETCH_TIMEOUT_S: Final = 5.0


def committed_offsets(job: GroupJob, partitions: Iterable[int]) -> dict[int, int]:
    """Return the committed offset of each of these partitions, 0 if there is none.

    Args:
        job: of the group.
        partitions: their numbers.

    Raises:
        HarnessError: no coordinator answers.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    # With read_committed, librdkafka waits for the end of an open transaction that would
    # commit more (KIP-447).
    isolation = {"isolation.level": "read_uncommitted"}
    consumer = Consumer(
        confluent_settings(
            {
                **admin_settings(),
                **isolation,
                "group.id": job.group,
                **connection_settings(job.bootstrap_servers),
            }
        )
    )
    try:
        positions = consumer.committed(
            [TopicPartition(job.topic, number) for number in partitions],
            timeout=_OFFSET_FETCH_TIMEOUT_S,
        )
    except KafkaException as error:
        raise HarnessError(
            f"no answer to OffsetFetch for group {job.group}"
            f" within {_OFFSET_FETCH_TIMEOUT_S:g} s: {error}"
        ) from error
    finally:
        consumer.close()
    return {position.partition: max(0, position.offset) for position in positions}
