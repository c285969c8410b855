"""The offsets that a group committed, as its coordinator reports them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from ackbench.experiments.trial.clients.group.jobs import GroupJob
from ackbench.experiments.trial.clients.settings.librdkafka import admin_settings
from ackbench.experiments.trial.clients.settings.security import connection_settings
from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.process.waiting import wait_until

_OFFSET_FETCH_TIMEOUT_S: Final = 5.0
_POLL_INTERVAL_S: Final = 0.1


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


class _GroupMember(Protocol):
    def require_alive(self) -> None:
        """Raise a `HarnessError` if the process has exited."""


def wait_until_committed(
    job: GroupJob,
    members: Sequence[_GroupMember],
    end_offsets: Mapping[int, int],
    timeout_s: float,
    left_out: Callable[[], Collection[int | None]] = tuple,
) -> bool:
    """Wait until a group has committed up to these offsets, exclusive; return whether it has.

    Args:
        job: of the group.
        members: must live until then.
        end_offsets: of each partition.
        timeout_s: how long to wait.
        left_out: returns the partitions that are not waited for.

    Raises:
        HarnessError: a member has exited, or no coordinator answers.
    """

    def uncommitted() -> set[int]:
        committed = committed_offsets(job, end_offsets)
        return {partition for partition, end in end_offsets.items() if committed[partition] < end}

    def nothing_to_wait_for() -> bool:
        for member in members:
            member.require_alive()
        return not uncommitted().difference(left_out())

    try:
        wait_until(
            nothing_to_wait_for,
            awaiting=f"group {job.group} to commit all",
            timeout_s=timeout_s,
            every_s=_POLL_INTERVAL_S,
        )
    except WaitTimeout:
        return False
    return not uncommitted()
