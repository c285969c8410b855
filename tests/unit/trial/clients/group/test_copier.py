"""Copiers copy each record, and commit before, after or in one transaction with the copy.

Killed between copy and commit, they miss or repeat records.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.fakes.mock_brokers import (
    LONG_SESSION,
    SHORT_SESSION,
    MockBrokers,
    wait_for_own_partitions,
)
from support.group_members import first_process, group_reads, hold_with_records

from ackbench.experiments.ledger.trial_manifest import Keys
from ackbench.experiments.sweep.workload import COMMIT_BY_DELIVERY, Commit, Copiers
from ackbench.experiments.trial.clients.consumer.final_read import read_log
from ackbench.experiments.trial.clients.group.groups import ConsumerGroup
from ackbench.experiments.trial.clients.group.jobs import CopyTarget, GroupJob
from ackbench.experiments.trial.clients.group.member import ClientHangs, transactional_call
from ackbench.experiments.trial.clients.group.messages import Breakpoint
from ackbench.experiments.trial.clients.process.client_process import Call
from ackbench.experiments.trial.clients.settings.librdkafka import (
    consumer_settings,
    producer_settings,
)
from ackbench.infra.process.waiting import wait_until

TOKEN = 77
RECORDS = 400
FIND_COORDINATOR = 10
COORDINATOR_NOT_AVAILABLE = 15
ENDS = {0: RECORDS // 2, 1: RECORDS // 2}
PATIENT_S = 30.0
IDS = {"within": {"transactional.id": "copies"}}


@pytest.fixture
def brokers() -> Iterator[MockBrokers]:
    """Start one broker with an empty topic of two partitions and an output topic."""
    with MockBrokers(1) as made:
        made.create_topic("input", 2)
        made.create_topic("output", 2)
        yield made


@pytest.fixture
def job(brokers: MockBrokers, tmp_path: Path) -> Callable[[Commit, int], GroupJob]:
    """Return a function that creates the job of a group of copiers."""

    def make(commit: Commit, copiers: int) -> GroupJob:
        producer = producer_settings({"enable.idempotence": "true", **IDS.get(commit, {})})
        return GroupJob(
            group="copiers",
            load=Copiers(
                copiers=copiers,
                delivery=next(name for name, when in COMMIT_BY_DELIVERY.items() if when == commit),
                commit_every_records=100,
            ),
            bootstrap_servers=brokers.bootstrap_servers,
            topic="input",
            partitions=2,
            settings=consumer_settings(LONG_SESSION),
            token=TOKEN,
            folder=tmp_path,
            output=CopyTarget(
                topic="output",
                partitions=2,
                settings=producer,
                record_size_bytes=60,
                keys=Keys(count=3),
            ),
        )

    return make


def copied(brokers: MockBrokers, ends: dict[int, int]) -> Counter[tuple[int, int, int]]:
    """Return how often the output has each partition, producer and seq; all records are intact.

    The mock stores no CRC with the batches of a transaction.
    """
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


@pytest.mark.further("after")
@pytest.mark.parametrize("commit", ["before", "after"])
def test_copiers_copy_each_record_once_and_commit_all(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit
) -> None:
    """A copy goes to the partition of the same number and its record counts as processed.

    Records are written once both own a partition.
    """
    with ConsumerGroup.running(job(commit, 2)) as group:
        group.wait_ready()
        wait_for_own_partitions(group, 2)
        brokers.write("input", 2, RECORDS, TOKEN)
        result = group.finish(ENDS, PATIENT_S)
    assert result is not None
    assert (result.at_end, result.committed) == (True, ENDS)
    assert copied(brokers, ENDS) == Counter({(seq % 2, 1, seq): 1 for seq in range(RECORDS)})
    assert sorted(group_reads(group)["seq"].to_pylist()) == list(range(RECORDS))
    assert {member.name for member in group.members} == {"copier 1", "copier 2"}


def test_with_transactions_each_record_is_copied_and_stored_once(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob]
) -> None:
    """The mock does not keep offsets of transactions, so committed offsets are not checked."""
    brokers.write("input", 2, RECORDS, TOKEN)
    with ConsumerGroup.running(job("within", 1)) as group:
        group.wait_ready()
        wait_until(
            lambda: group_reads(group).num_rows == RECORDS,
            awaiting="all records to be stored",
            timeout_s=PATIENT_S,
        )
        first_process(group).finish()
    assert copied(brokers, _ends(brokers)) == Counter(
        {(seq % 2, 1, seq): 1 for seq in range(RECORDS)}
    )
    assert sorted(group_reads(group)["seq"].to_pylist()) == list(range(RECORDS))


@pytest.mark.further
@pytest.mark.parametrize(
    ("commit", "point"), [("before", Breakpoint.AFTER_COMMIT), ("after", Breakpoint.BEFORE_COMMIT)]
)
def test_a_copier_killed_between_copy_and_commit_misses_or_repeats_pending_records(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], commit: Commit, point: Breakpoint
) -> None:
    """At-most-once misses them, at-least-once repeats them: counted in the output topic."""
    impatient = job(commit, 1).model_copy(update={"settings": consumer_settings(SHORT_SESSION)})
    with ConsumerGroup.running(impatient) as group:
        held = hold_with_records(
            first_process(group), point, lambda: brokers.write("input", 2, RECORDS, TOKEN)
        )
        first_process(group).kill()
        first_process(group).restart()
        assert group.finish(ENDS, PATIENT_S) is not None
    missed, repeated = (held.records, 0) if commit == "before" else (0, held.records)
    times = copied(brokers, _ends(brokers))
    assert held.records > 0
    assert (len(times), sum(times.values())) == (RECORDS - missed, RECORDS - missed + repeated)


def _ends(brokers: MockBrokers) -> dict[int, int]:
    consumer = Consumer(
        {"bootstrap.servers": brokers.bootstrap_servers, "group.id": "offsets", "log_level": 0}
    )
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition("output", number))[1]
            for number in (0, 1)
        }
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("settings", "longest_s"),
    [
        ({"delivery.timeout.ms": "2000"}, 7),
        (
            {
                "delivery.timeout.ms": "2000",
                "transactional.id": "copies",
                "transaction.timeout.ms": "3000",
            },
            31,
        ),
    ],
)
def test_a_copier_has_as_long_to_end_as_the_time_outs_of_its_producer(
    job: Callable[[Commit, int], GroupJob], settings: dict[str, str], longest_s: float
) -> None:
    """Its copies are delivered, and their transaction is committed or aborted."""
    output = job("after", 1).output
    assert output is not None
    assert output.model_copy(update={"settings": settings}).longest_batch_s == longest_s


@pytest.mark.further
def test_a_copier_whose_client_does_not_return_is_said_to_hang_and_is_killed(
    brokers: MockBrokers, job: Callable[[Commit, int], GroupJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for the group's coordinator three times, and then waits for ever.

    https://github.com/confluentinc/librdkafka/issues/5456: the time-out is not looked at.
    """
    exact = job("within", 1)
    assert exact.output is not None
    short = dict.fromkeys(
        ("delivery.timeout.ms", "transaction.timeout.ms", "socket.timeout.ms"), "1000"
    )
    output = exact.output.model_copy(update={"settings": {**exact.output.settings, **short}})
    monkeypatch.setattr("ackbench.experiments.trial.clients.group.jobs.MARGIN_S", 0.0)
    monkeypatch.setattr("ackbench.experiments.trial.clients.group.member._LEAVE_TIMEOUT_S", 9.0)
    with ConsumerGroup.running(exact.model_copy(update={"output": output})) as group:
        copier = first_process(group)
        hold_with_records(
            copier, Breakpoint.BEFORE_COMMIT, lambda: brokers.write("input", 2, RECORDS, TOKEN)
        )
        brokers.fail_next_requests(FIND_COORDINATOR, *[COORDINATOR_NOT_AVAILABLE] * 1000)
        copier.release()
        with pytest.raises(ClientHangs) as hangs:
            copier.finish()
        assert not copier.is_alive()
    assert str(hangs.value) == (
        "copier 1.0: send_offsets_to_transaction() had not returned 13 s after its shutdown was "
        "requested; the call's time-out is 1 s"
    )


COMMIT = (("transactions.py", "_call"), ("transactions.py", "commit_transaction"))
RETRIED = (("transactions.py", "retry"), ("copier.py", "commit"))
IN_LIBRARY = (("transactions.py", "send"),)


@pytest.mark.parametrize(
    ("places", "call"),
    [
        (COMMIT, "commit_transaction"),
        ((*COMMIT, *RETRIED), "commit_transaction"),
        ((*IN_LIBRARY, *COMMIT, *RETRIED), "commit_transaction"),
        (RETRIED, None),
        (COMMIT[:1], None),
        ((), None),
    ],
)
def test_only_a_call_of_the_transactional_api_is_the_clients(
    places: tuple[tuple[str, str], ...], call: str | None
) -> None:
    """A copier's own wait between two calls is not; the call is named, and not who repeats it."""
    calls = [Call(file, 1, function) for file, function in places]
    assert transactional_call(calls) == call
