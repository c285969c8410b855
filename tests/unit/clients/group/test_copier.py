"""Copiers produce each record that they read once more, and commit before, after or together with that; killed between the two they miss or repeat."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.fakes.mock_brokers import IMPATIENT, PATIENT, MockBrokers

from experiments.clients.consumer.final_read import read_log
from experiments.clients.group.groups import ConsumerGroup, GroupJob
from experiments.clients.group.member import Output, PausePoint
from experiments.clients.settings.librdkafka import consumer_settings, producer_settings
from experiments.ledger.record import KeyOptions
from experiments.sweep.plan import Commit
from infra.process.waiting import wait_until

TOKEN = 77
RECORDS = 400
ENDS = {0: RECORDS // 2, 1: RECORDS // 2}
PATIENT_S = 30.0
IDS = {"within": {"transactional.id": "copies"}}


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """One, with an empty topic of two partitions, and one to copy to."""
    with MockBrokers(1) as made:
        made.create_topic("input", 2)
        made.create_topic("output", 2)
        yield made


@pytest.fixture
def job(brokers: MockBrokers, tmp_path: Path) -> Callable[[Commit, int], GroupJob]:
    """Makes what copiers are to do."""

    def make(commit: Commit, copiers: int) -> GroupJob:
        producer = producer_settings({"enable.idempotence": "true", **IDS.get(commit, {})})
        return GroupJob(
            group="copiers",
            members=copiers,
            commit=commit,
            commit_every_records=100,
            bootstrap_servers=brokers.bootstrap_servers,
            topic="input",
            partitions=2,
            settings=consumer_settings(PATIENT),
            token=TOKEN,
            folder=tmp_path,
            output=Output(
                topic="output",
                partitions=2,
                settings=producer,
                record_size_bytes=60,
                keying=KeyOptions(keys=3),
            ),
        )

    return make


def copied(brokers: MockBrokers, ends: dict[int, int]) -> Counter[tuple[int, int, int]]:
    """Partition, producer and seq of what the output holds, all of it whole, and how often. The mock keeps no CRC of a transaction's batches."""
    log = read_log(
        brokers.bootstrap_servers,
        "output",
        ends,
        TOKEN,
        consumer_settings({}),
        20,
        check_crcs=False,
    )
    assert all(log["intact"].to_pylist())
    return Counter(
        zip(
            log["partition"].to_pylist(),
            log["producer"].to_pylist(),
            log["seq"].to_pylist(),
            strict=True,
        )
    )


@pytest.mark.parametrize("commit", ["before", "after"])
def test_copiers_make_one_whole_copy_of_each_record_and_commit_all(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit
) -> None:
    """In the partition of the same number, and noted as processed. There is nothing to copy before both are in: the mock refuses commits while it lets in."""
    with ConsumerGroup.running(job(commit, 2)) as group:
        group.wait_ready()
        brokers.write("input", 2, RECORDS, TOKEN)
        ending = group.finish(ENDS, PATIENT_S)
    assert ending is not None
    assert (ending.at_end, ending.committed) == (True, ENDS)
    assert copied(brokers, ENDS) == Counter({(seq % 2, 1, seq): 1 for seq in range(RECORDS)})
    assert sorted(group.reads()["seq"].to_pylist()) == list(range(RECORDS))
    assert {member.name for member in group.members} == {"copier 1", "copier 2"}


def test_within_transactions_each_record_is_copied_and_noted_once(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob]
) -> None:
    """The mock keeps no offsets of transactions, so that the group has committed them is not asked."""
    brokers.write("input", 2, RECORDS, TOKEN)
    with ConsumerGroup.running(job("within", 1)) as group:
        group.wait_ready()
        wait_until(
            lambda: group.reads().num_rows == RECORDS,
            awaiting="all to be noted",
            timeout_s=PATIENT_S,
        )
        group.members[0].finish()
    assert copied(brokers, _ends(brokers)) == Counter(
        {(seq % 2, 1, seq): 1 for seq in range(RECORDS)}
    )
    assert sorted(group.reads()["seq"].to_pylist()) == list(range(RECORDS))


@pytest.mark.parametrize(
    ("commit", "mark"), [("before", PausePoint.AFTER_COMMIT), ("after", PausePoint.BEFORE_COMMIT)]
)
def test_a_copier_killed_between_the_two_misses_or_repeats_what_it_had_in_hand(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit, mark: PausePoint
) -> None:
    """At-most-once misses, at-least-once repeats: in the output, whatever its mapping says."""
    brokers.write("input", 2, RECORDS, TOKEN)
    impatient = job(commit, 1).model_copy(update={"settings": consumer_settings(IMPATIENT)})
    with ConsumerGroup.running(impatient) as group:
        held = group.members[0].hold_at(mark)
        group.members[0].kill()
        group.members[0].start_again()
        assert group.finish(ENDS, PATIENT_S) is not None
    missed, repeated = (held.records, 0) if commit == "before" else (0, held.records)
    times = copied(brokers, _ends(brokers))
    assert held.records > 0
    assert (len(times), sum(times.values())) == (RECORDS - missed, RECORDS - missed + repeated)


def _ends(brokers: MockBrokers) -> dict[int, int]:
    asker = Consumer(
        {"bootstrap.servers": brokers.bootstrap_servers, "group.id": "asker", "log_level": 0}
    )
    try:
        return {
            number: asker.get_watermark_offsets(TopicPartition("output", number))[1]
            for number in (0, 1)
        }
    finally:
        asker.close()
