"""What transactions ask of a cell's settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from experiments.errors import ExperimentError
from experiments.plan import Workload

TRANSACTIONAL_ID: Final = "ackbench"
"""Each producer puts its trial's topic and its own number behind it."""
_OF_TRANSACTIONS: Final = frozenset({"transactional.id", "transaction.timeout.ms"})


def with_transactions(producer: Mapping[str, str], workload: Workload) -> dict[str, str]:
    """Return the producer's properties with the `transactional.id` that its transactions need; without transactions as they are.

    Raises:
        ExperimentError: transactions are to be aborted, and there are none.
    """
    if workload.abort_every and not workload.transaction_records:
        raise ExperimentError(f"workload.abort_every is {workload.abort_every} and workload.transaction_records is 0; allowed: transactions to abort")
    return {**producer, "transactional.id": TRANSACTIONAL_ID} if workload.transaction_records else dict(producer)


def without_transactions(producer: Mapping[str, str], workload: Workload) -> tuple[dict[str, str], Workload]:
    """Return the same producer and load, and nothing of it in transactions, nor copied in any."""
    plain = {name: value for name, value in producer.items() if name not in _OF_TRANSACTIONS}
    return plain, workload.model_copy(update={"transaction_records": 0, "abort_every": 0, "kind": "produce", "copiers": 0})
