"""Members of a group process each record and commit, in the order that they are told; killed between the two they repeat or miss what they had in hand."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from support.fakes.mock_brokers import IMPATIENT, PATIENT, MockBrokers

from experiments.clients.group.groups import ConsumerGroup, GroupJob
from experiments.clients.group.member import PausePoint
from experiments.clients.settings.group_members import alone, member_settings
from experiments.clients.settings.librdkafka import consumer_settings
from experiments.sweep.plan import Commit
from infra.process.waiting import wait_until

TOKEN = 77
RECORDS = 400


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """One, with an empty topic of two partitions."""
    with MockBrokers(1) as made:
        made.create_topic("trial", 2)
        yield made


@pytest.fixture
def job(brokers: MockBrokers, tmp_path: Path) -> Callable[[Commit, int], GroupJob]:
    """Makes what a group is to do."""

    def make(commit: Commit, members: int) -> GroupJob:
        return GroupJob(
            group="group",
            members=members,
            commit=commit,
            commit_every_records=100,
            bootstrap_servers=brokers.bootstrap_servers,
            topic="trial",
            partitions=2,
            settings=consumer_settings(PATIENT),
            token=TOKEN,
            folder=tmp_path,
        )

    return make


@pytest.mark.parametrize("commit", ["before", "after"])
def test_a_group_processes_each_record_once_and_commits_all(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit
) -> None:
    """Where nothing goes wrong, their order does not matter. There is nothing to read before both are in: the mock refuses commits while it lets in."""
    with ConsumerGroup.running(job(commit, 2)) as group:
        group.wait_ready()
        brokers.write("trial", 2, RECORDS, TOKEN)
        holder = wait_until(
            lambda: group.holder_of(0), awaiting="a member that has partition 0", timeout_s=20
        )  # who was let in last takes one away first
        ending = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)
    assert holder in group.members
    assert group.holder_of(0) is None
    assert ending is not None
    assert (ending.at_end, ending.committed) == (True, {0: RECORDS // 2, 1: RECORDS // 2})
    reads = group.reads()
    assert sorted(reads["seq"].to_pylist()) == list(range(RECORDS))
    assert set(reads["consumer"].to_pylist()) <= {1, 2}
    assert {(event.kind, event.partition) for event in group.events()} >= {
        ("assigned", 0),
        ("assigned", 1),
        ("revoked", 0),
        ("revoked", 1),
    }


@pytest.mark.parametrize(
    ("commit", "mark"), [("before", PausePoint.AFTER_COMMIT), ("after", PausePoint.BEFORE_COMMIT)]
)
def test_a_member_killed_between_the_two_misses_or_repeats_what_it_had_in_hand(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit, mark: PausePoint
) -> None:
    """At-most-once misses, at-least-once repeats."""
    brokers.write("trial", 2, RECORDS, TOKEN)
    impatient = job(commit, 1).model_copy(update={"settings": consumer_settings(IMPATIENT)})
    with ConsumerGroup.running(impatient) as group:
        member = group.members[0]
        held = member.hold_at(mark)
        member.kill()
        member.start_again()
        ending = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)
    missed, repeated = (held.records, 0) if commit == "before" else (0, held.records)
    times = Counter(group.reads()["seq"].to_pylist())
    assert ending is not None
    assert ending.at_end
    assert held.records > 0
    assert RECORDS - len(times) == missed
    assert sum(times.values()) - len(times) == repeated
    assert set(group.reads()["generation"].to_pylist()) == (
        {1} if missed or not held.processed else {0, 1}
    )


@pytest.mark.parametrize("auto_offset_reset", ["latest", "none"])
def test_a_group_begins_at_the_start_whatever_it_does_where_an_offset_is_gone(
    brokers: MockBrokers,
    job: Callable[[Commit, int], GroupJob],
    auto_offset_reset: Literal["latest", "none"],
) -> None:
    """Without a committed offset a member would begin at the end, or with an error; a slow one that is told to hurry is done at once."""
    brokers.write("trial", 2, RECORDS, TOKEN)
    slow = {"out_of_range": auto_offset_reset, "slow_members": 1, "slow_records_per_s": 1}
    with ConsumerGroup.running(job("after", 1).model_copy(update=slow)) as group:
        group.wait_ready()
        group.hurry()
        ending = group.finish({0: RECORDS // 2, 1: RECORDS // 2}, 20)
    assert ending.at_end
    assert sorted(group.reads()["seq"].to_pylist()) == list(range(RECORDS))


def test_who_reads_alone_is_given_nothing_of_a_group() -> None:
    """Assigned by hand, a consumer has no session to keep; KIP-848's member has none that it decides on."""
    asked = consumer_settings({"session.timeout.ms": "1500", "group.protocol": "classic"})
    assert alone(asked) == consumer_settings({})
    assert member_settings(consumer_settings({}), "ours")["session.timeout.ms"] == "45000"
    assert "session.timeout.ms" not in member_settings(
        consumer_settings({"group.protocol": "consumer"}), "ours"
    )
