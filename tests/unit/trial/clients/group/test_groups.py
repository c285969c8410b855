"""Group members process and commit in the requested order.

Killed between the two, they repeat or miss their presult records.
"""

import select
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from support.fakes.mock_brokers import (
    LONG_SESSION,
    SHORT_SESSION,
    MockBrokers,
    wait_for_own_partitions,
)
from support.group_members import first_process, group_reads, hold_with_records

from ackbench.experiments.sweep.workload import AfterFailure, Commit, GroupMembers
from ackbench.experiments.trial.clients.consumer.reads import ReadRow, ReadsFile
from ackbench.experiments.trial.clients.group.groups import ConsumerGroup, _member_job
from ackbench.experiments.trial.clients.group.jobs import GroupJob
from ackbench.experiments.trial.clients.group.member_main import MemberLoop
from ackbench.experiments.trial.clients.group.messages import Breakpoint, MemberEventLog
from ackbench.experiments.trial.clients.settings.group_members import (
    AUTO_COMMIT_INTERVAL,
    AUTO_COMMITS,
    AUTO_OFFSET_STORE,
    member_settings,
    without_group_settings,
)
from ackbench.experiments.trial.clients.settings.librdkafka import consumer_settings
from ackbench.infra.errors import HarnessError, WaitTimeout
from ackbench.infra.process.waiting import wait_until

TOKEN = 77
RECORDS = 400
OFFSET_COMMIT = 8
COORDINATOR_LOAD_IN_PROGRESS = 14
ILLEGAL_GENERATION = 22


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """Start one broker with an empty topic of two partitions."""
    with MockBrokers(1) as made:
        made.create_topic("trial", 2)
        yield made


@pytest.fixture
def job(brokers: MockBrokers, tmp_path: Path) -> Callable[[Commit, int], GroupJob]:
    """Return a function that creates the job of a group."""

    def make(commit: Commit, members: int) -> GroupJob:
        return GroupJob(
            group="group",
            load=GroupMembers.model_validate(
                {"consumers": members, "commit": commit, "commit_every_records": 100}
            ),
            bootstrap_servers=brokers.bootstrap_servers,
            topic="trial",
            partitions=2,
            settings=consumer_settings(LONG_SESSION),
            token=TOKEN,
            folder=tmp_path,
        )

    return make


@pytest.mark.further("before")
@pytest.mark.parametrize("commit", ["before", "after"])
def test_a_group_processes_each_record_once_and_commits_all(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit
) -> None:
    """Without a crash the order does not matter.

    Records are written once both members own a partition.
    """
    with ConsumerGroup.running(job(commit, 2)) as group:
        group.wait_ready()
        wait_for_own_partitions(group, 2)
        brokers.write("trial", 2, RECORDS, TOKEN)
        # The member that joined last takes a partition from the other one first.
        owner = wait_until(
            lambda: group.owner_of(0), awaiting="a member that owns partition 0", timeout_s=20
        )
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)
    assert owner in group.members
    assert group.owner_of(0) is None
    assert result is not None
    assert (result.at_end, result.committed) == (True, {0: RECORDS // 2, 1: RECORDS // 2})
    reads = group_reads(group)
    assert sorted(reads["seq"].to_pylist()) == list(range(RECORDS))
    assert set(reads["consumer"].to_pylist()) <= {1, 2}
    assert {(event.kind, event.partition) for event in group.events()} >= {
        ("assigned", 0),
        ("assigned", 1),
        ("revoked", 0),
        ("revoked", 1),
    }


@pytest.mark.further(commit=["before"])
@pytest.mark.parametrize(
    ("commit", "point"), [("before", Breakpoint.AFTER_COMMIT), ("after", Breakpoint.BEFORE_COMMIT)]
)
def test_a_member_killed_between_processing_and_commit_misses_or_repeats_pending_records(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit, point: Breakpoint
) -> None:
    """At-most-once misses them, at-least-once repeats them."""
    impatient = job(commit, 1).model_copy(update={"settings": consumer_settings(SHORT_SESSION)})
    with ConsumerGroup.running(impatient) as group:
        member = first_process(group)
        held = hold_with_records(member, point, lambda: brokers.write("trial", 2, RECORDS, TOKEN))
        member.kill()
        member.restart()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)
    missed, repeated = (held.records, 0) if commit == "before" else (0, held.records)
    times = Counter(group_reads(group)["seq"].to_pylist())
    assert result is not None
    assert result.at_end
    assert held.records > 0
    assert RECORDS - len(times) == missed
    assert sum(times.values()) - len(times) == repeated
    assert set(group_reads(group)["generation"].to_pylist()) == (
        {1} if missed or not held.processed_records else {0, 1}
    )


@pytest.mark.further(point=[Breakpoint.BEFORE_COMMIT])
@pytest.mark.parametrize("point", [Breakpoint.BEFORE_COMMIT, Breakpoint.AFTER_COMMIT])
def test_a_member_that_commits_each_record_repeats_at_most_one_after_a_crash(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], point: Breakpoint
) -> None:
    """None if the commit was acknowledged."""
    each = changed(job("after", 1), commit_every_records=1)
    with ConsumerGroup.running(each) as group:
        member = first_process(group)
        held = hold_with_records(member, point, lambda: brokers.write("trial", 2, RECORDS, TOKEN))
        member.kill()
        member.restart()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 60)
    assert (held.records, held.commit_answered, result.at_end) == (1, True, True)
    repeated = 1 if point is Breakpoint.BEFORE_COMMIT else 0
    assert group_reads(group).num_rows == RECORDS + repeated
    assert set(group_reads(group)["seq"].to_pylist()) == set(range(RECORDS))


@pytest.mark.further
def test_a_member_that_commits_asynchronously_repeats_what_was_not_answered(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob]
) -> None:
    """While the coordinator loads its offsets, the member processes all records."""
    brokers.write("trial", 2, RECORDS, TOKEN)
    brokers.fail_next_requests(OFFSET_COMMIT, *[COORDINATOR_LOAD_IN_PROGRESS] * 100)
    hasty = changed(job("after", 1), asynchronous_commits=True, commit_every_records=50)
    with ConsumerGroup.running(hasty) as group:
        member = first_process(group)
        member.wait_in_group(20)
        wait_until(
            lambda: group_reads(group).num_rows == RECORDS, awaiting="all records", timeout_s=60
        )
        member.kill()
        committed = sum(group.committed([0, 1]).values())  # after what the member had sent
        brokers.answer_requests(OFFSET_COMMIT)
        member.restart()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 60)
    assert committed == 0
    assert result.at_end
    assert group_reads(group).num_rows == 2 * RECORDS
    assert set(group_reads(group)["seq"].to_pylist()) == set(range(RECORDS))


def test_an_asynchronous_commit_that_failed_is_made_again(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob]
) -> None:
    """The group comes to its end without another record."""
    hasty = changed(job("after", 1), asynchronous_commits=True)
    with ConsumerGroup.running(hasty) as group:
        first_process(group).wait_in_group(20)
        brokers.fail_next_requests(OFFSET_COMMIT, *[ILLEGAL_GENERATION] * 2)
        brokers.write("trial", 2, RECORDS, TOKEN)
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 60)
    assert result.at_end
    assert [event for event in group.events() if event.kind == "commit_refused"]
    assert set(group_reads(group)["seq"].to_pylist()) == set(range(RECORDS))


@pytest.mark.further(on_revocation=[True])
@pytest.mark.parametrize("on_revocation", [True, False])
def test_what_is_pending_in_a_rebalance_is_committed_if_the_experiment_says_so(
    job: Callable[[Commit, int], GroupJob], tmp_path: Path, on_revocation: bool
) -> None:
    """It is processed in any case; requested commits are made again, and awaited."""
    load = job("after", 1)
    settings = _member_job(
        changed(load, asynchronous_commits=True, commit_on_revocation=on_revocation), 0
    )
    consumer = FakeConsumer({0: 7})
    loop = MemberLoop(
        job=settings,
        consumer=consumer,  # type: ignore[arg-type]
        processed=ReadsFile(tmp_path / "reads"),
        log=MemberEventLog(tmp_path / "events", 0),
    )
    loop._on_revoking((0,), lost=False)
    assert loop.processed.filled == FakeConsumer.PENDING
    assert consumer.pending.size == 0
    assert consumer.calls == (["forget", "commit"] if on_revocation else [])


@pytest.mark.further(after_failure=["seek"], commit=["before", "auto"])
@pytest.mark.parametrize("commit", ["before", "after", "auto"])
@pytest.mark.parametrize("after_failure", ["seek", "continue"])
def test_a_record_that_fails_is_processed_after_a_seek_and_missed_without_one(
    brokers: MockBrokers,
    job: Callable[[Commit, int], GroupJob],
    commit: Commit,
    after_failure: AfterFailure,
) -> None:
    """Records before it in its batch are not processed again."""
    failing = changed(job(commit, 1), fail_every=2, after_failure=after_failure)
    if commit == "auto":
        settings = consumer_settings({**SHORT_SESSION, **AUTO_COMMITS, AUTO_OFFSET_STORE: "false"})
        failing = failing.model_copy(update={"settings": settings})
    brokers.write("trial", 2, RECORDS, TOKEN)
    with ConsumerGroup.running(failing) as group:
        group.wait_ready()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 60)
        failed = [event for event in group.events() if event.kind == "batch_failed"]
    reads = group_reads(group)
    processed = set(zip(reads["partition"].to_pylist(), reads["offset"].to_pylist(), strict=True))
    assert result.at_end
    assert {event.detail for event in failed} == {f"member 1.0: {after_failure}"}
    assert len(processed) == reads.num_rows
    assert (len(processed) == RECORDS) == (after_failure == "seek")
    for event in failed:
        assert ((event.partition, event.offset) in processed) == (after_failure == "seek")


@pytest.mark.further(pauses=[False])
@pytest.mark.parametrize("pauses", [True, False])
def test_a_member_that_polls_with_its_partitions_paused_stays_in_its_group(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], pauses: bool
) -> None:
    """Otherwise it leaves after max.poll.interval.ms."""
    settings = consumer_settings({**SHORT_SESSION, "max.poll.interval.ms": "4000"})
    busy = changed(job("after", 1), pause_while_processing=pauses).model_copy(
        update={"settings": settings}
    )
    with ConsumerGroup.running(busy) as group:
        member = first_process(group)
        hold_with_records(
            member, Breakpoint.BEFORE_COMMIT, lambda: brokers.write("trial", 2, RECORDS, TOKEN)
        )
        time.sleep(6)
        member.release()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 60)
        removed = [
            event
            for event in group.events()
            if event.kind == "commit_refused" or event.detail.endswith("lost")
        ]
    times = Counter(group_reads(group)["seq"].to_pylist())
    assert result.at_end
    assert len(times) == RECORDS
    assert bool(removed) != pauses
    assert (max(times.values()) == 1) == pauses


@pytest.mark.parametrize("point", [Breakpoint.IN_BATCH, Breakpoint.BEFORE_COMMIT])
def test_a_member_that_polls_while_it_works_gives_its_partitions_up_with_the_batch_done(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], point: Breakpoint
) -> None:
    """Another member joins meanwhile.

    The mock coordinator refuses commits in a rebalance, and may begin another one: a record is
    processed once more for each refused commit of its partition, and never otherwise.
    """
    with ConsumerGroup.running(changed(job("after", 1), pause_while_processing=True)) as group:
        member = first_process(group)
        held = hold_with_records(member, point, lambda: brokers.write("trial", 2, RECORDS, TOKEN))
        group.add_member()
        wait_until(
            lambda: [event for event in group.events() if event.kind == "revoked"],
            awaiting="the rebalance",
            timeout_s=60,
        )
        assert group_reads(group).num_rows == held.records
        member.release()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 60)
        refused = Counter(
            event.partition for event in group.events() if event.kind == "commit_refused"
        )
    reads = group_reads(group)
    times = Counter(zip(reads["partition"].to_pylist(), reads["seq"].to_pylist(), strict=True))
    assert result.at_end
    assert len(times) == RECORDS
    assert all(count <= 1 + refused[partition] for (partition, _), count in times.items())


def test_a_static_member_has_its_own_id_through_all_its_generations(
    job: Callable[[Commit, int], GroupJob],
) -> None:
    """Two members with one id would be fenced."""
    static = changed(job("after", 2), static=True)
    with ConsumerGroup.running(static) as group:
        ids = [member.job.settings["group.instance.id"] for member in group.members]
        first_process(group).kill()
        first_process(group).restart()
        assert first_process(group).job.settings["group.instance.id"] == ids[0]
    assert ids == ["group-1", "group-2"]
    assert "group.instance.id" not in _member_job(job("after", 1), 0).settings


class FakeConsumer:
    """A consumer with pending records, which notes what is asked of it."""

    PENDING = 3

    def __init__(self, offsets: dict[int, int]) -> None:
        self.offsets = offsets
        self.processed = 0
        self.calls: list[str] = []
        self.pending = np.zeros(self.PENDING, ReadRow)

    def drop_pending(self) -> None:
        """Drop them."""
        self.pending, self.processed = self.pending[:0], 0

    def offsets_to_commit(self) -> dict[int, int]:
        """Return what there is to commit."""
        return self.offsets

    def forget_requested(self) -> None:
        """Note it."""
        self.calls.append("forget")

    def commit(self, offsets: dict[int, int]) -> int:
        """Note it."""
        assert offsets == self.offsets
        self.calls.append("commit")
        return 0


def changed(job: GroupJob, **load: object) -> GroupJob:
    """Return the job with another load, whose members' sessions are short."""
    return job.model_copy(
        update={
            "load": job.load.model_copy(update=load),
            "settings": consumer_settings(SHORT_SESSION),
        }
    )


@pytest.mark.further(stores_itself=[False])
@pytest.mark.parametrize("stores_itself", [True, False])
def test_a_member_that_dies_in_its_batch_misses_what_its_client_has_committed(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], stores_itself: bool
) -> None:
    """Librdkafka commits by itself what it has handed out, unless the member stores the offsets."""
    by_itself = {
        **AUTO_COMMITS,
        AUTO_COMMIT_INTERVAL: "50",
        AUTO_OFFSET_STORE: str(stores_itself).lower(),
    }
    settings = consumer_settings({**SHORT_SESSION, **by_itself})
    automatic = job("auto", 1).model_copy(update={"settings": settings})
    with ConsumerGroup.running(automatic) as group:
        member = first_process(group)
        held = hold_with_records(
            member, Breakpoint.IN_BATCH, lambda: brokers.write("trial", 2, RECORDS, TOKEN)
        )
        stored = group_reads(group).num_rows
        unprocessed = held.records - held.processed_records
        handed_out = stored + unprocessed if stores_itself else stored - held.processed_records
        wait_until(
            lambda: sum(group.committed([0, 1]).values()) == handed_out,
            awaiting="the client's commit",
            timeout_s=20,
        )
        member.kill()
        member.restart()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)
    times = Counter(group_reads(group)["seq"].to_pylist())
    assert result.at_end
    assert unprocessed > 0
    assert RECORDS - len(times) == (unprocessed if stores_itself else 0)
    assert sum(times.values()) - len(times) == (0 if stores_itself else held.processed_records)


def test_a_consumer_without_a_group_does_not_commit_although_the_members_do() -> None:
    """It has the cell's settings of a consumer otherwise."""
    settings = without_group_settings(consumer_settings(AUTO_COMMITS))
    assert settings == consumer_settings({})


def test_a_member_that_is_held_when_nobody_waits_for_it_any_more_goes_on(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it can be held again: what it said of the first hold is not taken for the second."""
    with ConsumerGroup.running(job("after", 1)) as group:
        member = first_process(group)
        member.wait_in_group(20)
        with monkeypatch.context() as patch:
            patch.setattr("ackbench.experiments.trial.clients.group.member._HOLD_TIMEOUT_S", 0.0)
            patch.setattr(member, "release", lambda: None)  # the release is on its way
            with pytest.raises(WaitTimeout, match="held"):
                member.hold_at(Breakpoint.BEFORE_COMMIT)
        brokers.write("trial", 2, RECORDS, TOKEN)
        assert select.select([member._output], [], [], 20)[0]
        # After its release the member may commit all there is before it reads the next request.
        with writing(brokers) as written:
            member.release()
            assert member.hold_at(Breakpoint.AFTER_COMMIT).breakpoint is Breakpoint.AFTER_COMMIT
            member.release()
        ends = (RECORDS + sum(written)) // 2
        assert group.finish({0: ends, 1: ends}, 20) is not None


@contextmanager
def writing(brokers: MockBrokers) -> Iterator[list[int]]:
    """Write records again and again; yield how many each time."""
    written: list[int] = []
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(0.1):
            brokers.write("trial", 2, RECORDS, TOKEN)
            written.append(RECORDS)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        ended.set()
        thread.join()


def test_a_member_that_is_late_is_said_to_be_where_it_is(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob]
) -> None:
    """And one that is stopped is not asked."""
    brokers.write("trial", 2, RECORDS, TOKEN)
    with ConsumerGroup.running(job("after", 1)) as group:
        member = first_process(group)
        member.hold_at(Breakpoint.BEFORE_COMMIT)
        with pytest.raises(WaitTimeout, match=r"it is in .* called by _stop_at \(member_main.py:"):
            member.expect_line("done", 0)
        member.pause()
        with pytest.raises(WaitTimeout, match="no line; "):
            member.expect_line("done", 0)
        member.resume()
        member.release()
        assert group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20).at_end


@pytest.mark.further
def test_a_paused_member_that_was_killed_by_another_program_is_an_error_of_the_trial(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob]
) -> None:
    """It needs no heal, so the heal of its fault does not fail: that would end the sweep."""
    brokers.write("trial", 2, RECORDS, TOKEN)
    with ConsumerGroup.running(job("after", 1)) as group:
        member = first_process(group)
        member.hold_at(Breakpoint.BEFORE_COMMIT)
        member.pause()
        member.send_signal(signal.SIGKILL)
        member.wait_for_exit(10)
        member.resume()
        member.release()
        with pytest.raises(HarnessError, match=r"member 1 exited by SIGKILL; "):
            group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)


@pytest.mark.further("none")
@pytest.mark.parametrize("auto_offset_reset", ["latest", "none"])
def test_a_group_begins_at_offset_0_with_any_auto_offset_reset(
    brokers: MockBrokers,
    job: Callable[[Commit, int], GroupJob],
    auto_offset_reset: Literal["latest", "none"],
) -> None:
    """Without a committed offset a member would begin at the end, or with an error.

    An unthrottled slow member finishes at once.
    """
    brokers.write("trial", 2, RECORDS, TOKEN)
    changes = {"auto_offset_reset": auto_offset_reset, "slow_members": 1, "slow_records_per_s": 1}
    with ConsumerGroup.running(job("after", 1).model_copy(update=changes)) as group:
        group.wait_ready()
        group.unthrottle()
        result = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)
    assert result.at_end
    assert sorted(group_reads(group)["seq"].to_pylist()) == list(range(RECORDS))


def test_a_consumer_without_a_group_gets_no_group_settings() -> None:
    """A manual assignment needs no session; with KIP-848 the broker decides on the session."""
    group_settings = consumer_settings({"session.timeout.ms": "1500", "group.protocol": "classic"})
    assert without_group_settings(group_settings) == consumer_settings({})
    assert member_settings(consumer_settings({}), "group")["session.timeout.ms"] == "45000"
    assert "session.timeout.ms" not in member_settings(
        consumer_settings({"group.protocol": "consumer"}), "group"
    )
