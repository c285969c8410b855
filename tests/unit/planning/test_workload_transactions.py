"""Transactions in an experiment: what they ask of the producer, and of the cells that are added as controls."""

import pytest

from experiments.errors import ExperimentError
from experiments.ledger.record import Role
from experiments.planning.experiment import experiment_of
from experiments.planning.planner import plan
from experiments.sweep.plan import Plan


def planned(**workload: int) -> Plan:
    """The plan of a small experiment under a crash."""
    axes = {"acks": ["all"], "enable.idempotence": [True], "fault": ["leader-crash"]}
    load = {"duration_s": 20, **workload}
    return plan(
        experiment_of(
            {"name": "t", "title": "t", "question": "q?", "axes": axes, "workload": load}, "t.yaml"
        ),
        "sweep",
    )


def test_a_producer_with_transactions_gets_an_id_and_a_timeout_that_are_recorded() -> None:
    """One without has neither."""
    cell, plain = (
        next(
            trial
            for trial in planned(transaction_records=records).trials
            if trial.role is Role.CELL
        )
        for records in (100, 0)
    )
    assert (cell.producer["transactional.id"], cell.producer["transaction.timeout.ms"]) == (
        "ackbench",
        "60000",
    )
    assert not {"transactional.id", "transaction.timeout.ms"} & plain.producer.keys()


def test_the_control_has_the_transactions_and_the_positive_control_has_none() -> None:
    """What is acknowledged by one replica alone is no matter of transactions."""
    records = {
        trial.role: trial.workload.transaction_records
        for trial in planned(transaction_records=100, abort_every=3).trials
    }
    assert records == {Role.CELL: 100, Role.CONTROL: 100, Role.POSITIVE_CONTROL: 0}


def test_there_must_be_transactions_to_abort() -> None:
    """Said with both keys and their values."""
    with pytest.raises(
        ExperimentError, match=r"workload\.abort_every is 3 and workload\.transaction_records is 0"
    ):
        planned(abort_every=3)


def test_transactions_without_idempotence_are_refused_in_the_clients_words() -> None:
    """It is librdkafka that does not take them."""
    axes = {"acks": ["all"], "enable.idempotence": [False], "fault": ["none"]}
    experiment = experiment_of(
        {
            "name": "t",
            "title": "t",
            "question": "q?",
            "axes": axes,
            "workload": {"transaction_records": 9},
            "controls": False,
        },
        "t.yaml",
    )
    (refused,) = plan(experiment, "sweep").refused
    assert "transactional.id" in refused.reason
