"""What settings guarantee, and the smallest change: known truths about Kafka."""

from __future__ import annotations

import pytest
from support.golden_files import Says

from ackbench.experiments.results.checkup.changes import Change, ChangeSearch, apply_changes
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.results.checkup.diagnosis import diagnose
from ackbench.experiments.results.checkup.shown_by import command_that_shows
from ackbench.experiments.results.checkup.text import as_document, report_lines, wrapped
from ackbench.experiments.trial.faults import FAULTS
from ackbench.experiments.verdicts.guarantees import Guarantee
from ackbench.experiments.verdicts.guarantees.atomicity import ATOMICITY
from ackbench.experiments.verdicts.guarantees.availability import AVAILABILITY
from ackbench.experiments.verdicts.guarantees.duplicates import NO_DUPLICATES
from ackbench.experiments.verdicts.guarantees.loss import NO_ACKED_LOSS
from ackbench.experiments.verdicts.guarantees.missed_records import NO_MISSED_RECORDS
from ackbench.experiments.verdicts.guarantees.order import ORDER

SAFE = Configuration(
    replication_factor=3,
    producer={"acks": "all", "enable.idempotence": "true"},
    topic={"min.insync.replicas": "2"},
)
LOSS = NO_ACKED_LOSS


def first_changes(configuration: Configuration, guarantee: Guarantee) -> list[str]:
    """Return the changes that a search proposes, in order."""
    search = ChangeSearch(diagnose(configuration))
    return [str(change) for one in search.improvements(guarantee) for change in one.changes]


def test_acks_all_with_two_in_sync_replicas_keeps_records_when_the_leader_crashes() -> None:
    """The settings that every guide recommends; power loss of all replicas is another matter."""
    guaranteed = diagnose(SAFE).guaranteed(LOSS)

    assert {"none", "leader-crash", "leader-crash-behind", "leader-power-loss"} <= guaranteed
    assert not {"all-power-loss", "unclean-election", "topic-recreated"} & guaranteed


@pytest.mark.parametrize(
    ("update", "fault"),
    [
        ({"producer": {"acks": "1", "enable.idempotence": "false"}}, "leader-crash"),
        ({"topic": {"min.insync.replicas": "1"}}, "leader-crash"),
        ({"topic": {"min.insync.replicas": "2", "cleanup.policy": "compact"}}, "none"),
        (
            {"topic": {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}},
            "leader-crash",
        ),
    ],
)
def test_each_weaker_setting_loses_the_guarantee(update: dict[str, object], fault: str) -> None:
    """Each on its own."""
    assert fault not in diagnose(SAFE.model_copy(update=update)).guaranteed(LOSS)


def test_the_defaults_of_kafka_guarantee_no_duplicates_and_order() -> None:
    """Java's producer is idempotent by default since 3.0 (KIP-679)."""
    diagnosis = diagnose(Configuration(replication_factor=3))

    for guarantee in (NO_DUPLICATES, ORDER):
        assert diagnosis.guaranteed(guarantee) == {fault for fault, _ in diagnosis.of(guarantee)}


def test_faults_that_a_topic_cannot_have_are_left_out() -> None:
    """A topic with one replica has no ISR that shrinks."""
    faults = {one.fault for one in diagnose(Configuration()).faults}

    assert "leader-crash" in faults
    assert "isr-shrunk-leader-crash" not in faults
    assert faults <= FAULTS.keys()


@pytest.mark.parametrize(
    ("configuration", "guarantee", "changes"),
    [
        (Configuration(replication_factor=3), LOSS, ["topic min.insync.replicas=2"]),
        (
            Configuration(
                replication_factor=3, producer={"acks": "1", "enable.idempotence": "false"}
            ),
            LOSS,
            ["producer acks=all", "topic min.insync.replicas=2"],
        ),
        (
            Configuration(
                replication_factor=3, producer={"acks": "1", "enable.idempotence": "false"}
            ),
            NO_DUPLICATES,
            ["producer acks=all", "producer enable.idempotence=true"],
        ),
    ],
)
def test_the_smallest_change_is_the_one_that_guides_recommend(
    configuration: Configuration, guarantee: Guarantee, changes: list[str]
) -> None:
    """One setting where one is enough, several where only together they help."""
    assert first_changes(configuration, guarantee)[: len(changes)] == changes


def test_a_change_says_what_it_costs() -> None:
    """Two in-sync replicas cannot be had while two of three brokers are down."""
    search = ChangeSearch(diagnose(Configuration(replication_factor=3)))
    first = next(search.improvements(LOSS))

    assert (AVAILABILITY, "majority-crash") in first.lost


def test_no_change_is_proposed_that_the_producer_refuses() -> None:
    """Idempotence with acks=1."""
    weak = Configuration(producer={"acks": "1", "enable.idempotence": "false"})

    assert apply_changes(weak, [Change("producer", "enable.idempotence", "true")]) is None


def test_guarantees_of_groups_and_transactions_are_listed_where_there_are_some() -> None:
    """A consumer's file, and a transactional.id."""
    with_group = diagnose(SAFE.model_copy(update={"consumer": {}}))
    transactional = diagnose(
        SAFE.model_copy(update={"producer": {"transactional.id": "mine", "acks": "all"}})
    )

    assert NO_MISSED_RECORDS in with_group.guarantees
    assert ATOMICITY in transactional.guarantees
    assert not {NO_MISSED_RECORDS, ATOMICITY} & set(diagnose(SAFE).guarantees)


def test_the_text_names_defaults_reasons_sources_and_a_command(says: Says) -> None:
    """Within the width of the terminal, but for the command, which is copied."""
    diagnosis = diagnose(Configuration(replication_factor=3))
    lines = list(wrapped(report_lines(diagnosis, ChangeSearch(diagnosis)), 80))
    text = "\n".join(lines)

    assert "min.insync.replicas=1 (default)" in text
    assert "smallest change: topic min.insync.replicas=2" in text
    assert "[design_uncleanleader]" in text
    says(text)
    assert all(len(line) <= 80 for line in lines if "to see it" not in line)


def test_the_document_has_every_guarantee_under_every_fault() -> None:
    """With reason and source."""
    diagnosis = diagnose(SAFE)
    document = as_document(diagnosis, ChangeSearch(diagnosis))

    for guarantee in diagnosis.guarantees:
        faults = document["guarantees"][guarantee.name]["faults"]
        assert faults.keys() == {fault for fault, _ in diagnosis.of(guarantee)}
        assert all(one["reason"] and one["source"].startswith("http") for one in faults.values())


@pytest.mark.parametrize(
    ("changes", "guarantee", "words"),
    [
        (
            {"topic": {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}},
            LOSS,
            "fault=unclean-election --set acks=all",
        ),
        (
            {"topic": {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}},
            LOSS,
            "--set unclean.leader.election.enable=true",
        ),
        (
            {"producer": {"acks": "1", "enable.idempotence": "false"}},
            LOSS,
            "fault=leader-crash-behind --set acks=1",
        ),
        (
            {"producer": {"acks": "all", "enable.idempotence": "false"}},
            NO_DUPLICATES,
            "fault=leader-pause --set acks=all",
        ),
    ],
)
def test_the_proposed_sweep_has_the_weak_setting_and_a_fault_that_shows_it(
    changes: dict[str, object], guarantee: Guarantee, words: str
) -> None:
    """A leader that crashes with followers at its end loses nothing, whatever is guaranteed."""
    diagnosis = diagnose(SAFE.model_copy(update=changes))
    missing = [fault for fault, one in diagnosis.of(guarantee) if not one.guaranteed]
    command = command_that_shows(diagnosis.configuration, missing, guarantee)

    assert command is not None
    assert words in command


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("leader-crash", "run faults-process"),
        ("rolling-restart-hard", "run faults-rolling"),
        ("isr-shrunk-leader-crash", "--set unclean.leader.election.enable=false"),
    ],
)
def test_the_proposed_sweep_runs_the_fault_with_the_settings_of_one_cell(
    fault: str, words: str
) -> None:
    """`--set fault=` gives the fault to all axes: leader-crash also ran with a load of 75 s."""
    command = command_that_shows(SAFE, [fault], AVAILABILITY)

    assert command is not None
    assert words in command


def test_a_guarantee_that_no_fault_is_needed_to_break_is_not_said_to_hold(says: Says) -> None:
    """The words "not under none" would read as "always"."""
    weak = SAFE.model_copy(update={"producer": {"acks": "1", "enable.idempotence": "false"}})
    diagnosis = diagnose(weak)
    text = "\n".join(report_lines(diagnosis, ChangeSearch(diagnosis)))

    says(text)
    assert "under none:" not in text


def test_a_delivery_timeout_beyond_the_expiration_of_producer_ids_is_what_to_change() -> None:
    """As Kafka Streams has it: the brokers forget the producer after a day, it retries for 25."""
    producer = {"enable.idempotence": "true", "delivery.timeout.ms": "2147483647"}
    weak = Configuration(replication_factor=3, producer=producer)

    assert first_changes(weak, NO_DUPLICATES)[0] == "producer delivery.timeout.ms=120000"
