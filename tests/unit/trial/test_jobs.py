"""The names of what a trial makes in a cluster."""

from __future__ import annotations

from pathlib import Path

from support.builders.records import a_spec

from ackbench.experiments.sweep.plan import ClusterNeed, ExternalAccess, TrialSpec, external_prefix
from ackbench.experiments.sweep.workload import Copiers, Transactions
from ackbench.experiments.trial.jobs import TrialNames, group_jobs, producer_jobs

ONE, OTHER = "quick-20260101T000000-abcd", "quick-20260101T000000-ffff"


def external_spec(sweep_id: str) -> TrialSpec:
    """Return a trial in an external cluster, with transactions and a group that copies."""
    return a_spec(
        sweep_id=sweep_id,
        cluster=ClusterNeed(
            kafka_version="unknown", external=ExternalAccess(addresses="kafka:9092")
        ),
        producer={"acks": "all", "enable.idempotence": "true", "transactional.id": "mine"},
        workload=a_spec().workload.model_copy(
            update={"transactions": Transactions(records=10), "copies": Copiers()}
        ),
    )


def names_of(spec: TrialSpec) -> set[str]:
    """Return the names of topics, groups and clients, and of transactions without their prefix."""
    names = TrialNames.of(spec)
    groups = group_jobs(spec, names, "kafka:9092", 1, Path())
    producers = producer_jobs(spec, names, "kafka:9092", 1, Path())
    return {
        *names.topics,
        names.warm_up,
        *(job.group for job in groups),
        *(job.settings["client.id"] + "-" for job in producers),
        *(name.removeprefix("mine-") for name in names.transactional_ids),
    }


def test_every_name_in_an_external_cluster_begins_with_the_sweeps_prefix() -> None:
    """So that the sweep finds what it made, and only that."""
    names = names_of(external_spec(ONE))

    assert len(names) >= 5
    assert all(name.startswith(external_prefix(ONE)) for name in names)


def test_two_sweeps_of_one_experiment_do_not_meet_in_an_external_cluster() -> None:
    """They have the same trial ids."""
    assert not names_of(external_spec(ONE)) & names_of(external_spec(OTHER))


def test_names_in_an_own_cluster_are_the_same_in_a_repeated_sweep() -> None:
    """Kafka chooses the coordinators of groups and transactions by their names."""
    assert TrialNames.of(a_spec(sweep_id=ONE)) == TrialNames.of(a_spec(sweep_id=OTHER))


def debug_of(spec: TrialSpec) -> str:
    """Return the debug contexts of a trial's producers."""
    (job,) = producer_jobs(spec, TrialNames.of(spec), "kafka:9092", 1, Path())
    return job.settings["debug"]


def test_an_idempotent_producer_logs_why_it_bumps_its_epoch() -> None:
    """With transactions it would log a dozen lines for each; a setting of the experiment stays."""
    idempotent = {**a_spec().producer, "debug": "topic", "enable.idempotence": "true"}
    in_transactions = a_spec().workload.model_copy(
        update={"transactions": Transactions(records=10)}
    )

    assert debug_of(a_spec(producer=idempotent)) == "topic,eos"
    assert debug_of(a_spec(producer={**idempotent, "enable.idempotence": "false"})) == "topic"
    assert debug_of(a_spec(producer={**idempotent, "debug": "all"})) == "all"
    assert (
        debug_of(
            a_spec(producer={**idempotent, "transactional.id": "mine"}, workload=in_transactions)
        )
        == "topic"
    )
