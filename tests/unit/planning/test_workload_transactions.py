"""Transactions in an experiment: settings of the producer and of the added controls."""

import pytest

from ackbench.experiments.errors import ExperimentError
from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan


def planned(**workload: int) -> Plan:
    """Return the plan of a small experiment with a crash."""
    axes = {"acks": ["all"], "enable.idempotence": [True], "fault": ["leader-crash"]}
    load = {"duration_s": 20, **workload}
    return plan(
        parse_experiment(
            {"name": "t", "title": "t", "question": "q?", "axes": axes, "workload": load}, "t.yaml"
        ),
        "sweep",
    )


def test_a_transactional_producer_has_an_id_and_a_timeout_in_the_plan() -> None:
    """A producer without transactions has neither."""
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


def test_the_control_has_transactions_and_the_positive_control_has_none() -> None:
    """The positive control has acks=1, which transactions do not allow."""
    records = {
        trial.role: trial.workload.transaction_records
        for trial in planned(transaction_records=100, abort_every=3).trials
    }
    assert records == {Role.CELL: 100, Role.CONTROL: 100, Role.POSITIVE_CONTROL: 0}


def test_aborts_without_transactions_are_refused() -> None:
    """The message names both keys and their values."""
    with pytest.raises(
        ExperimentError, match=r"workload\.abort_every is 3 and workload\.transaction_records is 0"
    ):
        planned(abort_every=3)


def test_transactions_without_idempotence_are_refused_by_the_client() -> None:
    """The refused cell has librdkafka's message."""
    axes = {"acks": ["all"], "enable.idempotence": [False], "fault": ["none"]}
    experiment = parse_experiment(
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
