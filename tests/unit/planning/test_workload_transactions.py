"""Transactions in an experiment: settings of the producer and of the added controls."""

from ackbench.experiments.ledger.trial_manifest import Role
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.workload import Transactions


def planned(transactions: dict[str, int] | None) -> Plan:
    """Return the plan of a small experiment with a crash."""
    axes = {"acks": ["all"], "enable.idempotence": [True], "fault": ["leader-crash"]}
    data = {
        "name": "t",
        "title": "t",
        "question": "q?",
        "axes": axes,
        "workload": {"duration_s": 20},
        "transactions": transactions,
    }
    return plan(parse_experiment(data, "t.yaml"), "sweep")


def test_a_transactional_producer_has_an_id_and_a_timeout_in_the_plan() -> None:
    """A producer without transactions has neither."""
    cell, plain = (
        next(trial for trial in planned(transactions).trials if trial.role is Role.CELL)
        for transactions in ({"records": 100}, None)
    )
    assert (cell.producer["transactional.id"], cell.producer["transaction.timeout.ms"]) == (
        "ackbench",
        "60000",
    )
    assert not {"transactional.id", "transaction.timeout.ms"} & plain.producer.keys()


def test_the_control_has_transactions_and_the_positive_control_has_none() -> None:
    """The positive control has acks=1, which transactions do not allow."""
    records = {
        trial.role: trial.workload.transactions and trial.workload.transactions.records
        for trial in planned({"records": 100, "abort_every": 3}).trials
    }
    assert records == {Role.CELL: 100, Role.CONTROL: 100, Role.POSITIVE_CONTROL: None}


def test_aborts_are_of_transactions() -> None:
    """Without a number of records, there are transactions of the usual one."""
    loads = {trial.role: trial.workload for trial in planned({"abort_every": 3}).trials}
    assert loads[Role.CELL].transactions == Transactions(records=500, abort_every=3)


def test_a_comparison_without_transactions_has_one_cell_for_all_their_settings() -> None:
    """0 records: no transactions. The control without a fault is such a cell, the other one too."""
    axes = {
        "acks": ["all"],
        "enable.idempotence": [True],
        "fault": ["none"],
        "transactions.records": [0, 100],
        "transactions.abort_every": [0, 4],
    }
    data = {"name": "t", "title": "t", "question": "q?", "axes": axes}
    made = plan(parse_experiment(data, "t.yaml"), "sweep")
    found = {
        (trial.cell["transactions.records"], trial.cell["transactions.abort_every"])
        for trial in made.trials
    }
    assert found == {(0, None), (100, 0), (100, 4)}
    (positive,) = [trial for trial in made.trials if trial.role is Role.POSITIVE_CONTROL]
    assert positive.workload.transactions is None


def test_transactions_without_idempotence_are_refused_by_the_client() -> None:
    """The refused cell has librdkafka's message."""
    axes = {"acks": ["all"], "enable.idempotence": [False], "fault": ["none"]}
    experiment = parse_experiment(
        {
            "name": "t",
            "title": "t",
            "question": "q?",
            "axes": axes,
            "transactions": {"records": 9},
            "controls": False,
        },
        "t.yaml",
    )
    (refused,) = plan(experiment, "sweep").refused
    assert "transactional.id" in refused.reason
