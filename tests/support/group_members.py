"""Members of groups that run on ackbench's own loops, as their tests use them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pyarrow as pa

from ackbench.experiments.ledger.schema import ATTEMPTS
from ackbench.experiments.trial.clients.group.groups import ConsumerGroup
from ackbench.experiments.trial.clients.group.member import MemberProcess
from ackbench.experiments.trial.clients.group.messages import Breakpoint, PendingBatch


def first_process(group: ConsumerGroup) -> MemberProcess:
    """Return the first member, which a test holds and kills."""
    first = group.members[0]
    assert isinstance(first, MemberProcess)
    return first


def group_reads(group: ConsumerGroup) -> pa.Table:
    """Return what the members processed, whose records carry all themselves."""
    return group.reads(ATTEMPTS.empty_table())


def hold_with_records(
    member: MemberProcess, point: Breakpoint, write: Callable[[], object]
) -> PendingBatch:
    """Return the batch of a member that is asked to wait before there are records.

    If they were there before, a member of a busy machine could have processed all of them.
    """
    asked, send = threading.Event(), member.send_line

    def ask(line: str) -> None:
        send(line)
        asked.set()

    member.wait_in_group(60)
    with patch.object(member, "send_line", ask), ThreadPoolExecutor(1) as threads:
        holding = threads.submit(member.hold_at, point)
        assert asked.wait(60)
        write()
        return holding.result()
