"""A producer that crashes, and another process that sends the rest of its records.

Idempotence covers one producer session only (KIP-98).
"""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.sweep.client_kinds import traits_of
from ackbench.experiments.trial.faults.clients.interruptions import ClientCrashParameters
from ackbench.experiments.trial.faults.core import EFFECTIVE, FaultContext, FaultKind, FaultMissed
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology

FAMILY: Final = "clients"


class ProducerKilledParameters(ClientCrashParameters):
    """A producer process crashes, and another one takes over."""

    resend: bool = Field(
        default=True,
        description="whether the next process sends again what was sent and not acknowledged,"
        " as an application with an outbox does",
    )

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse transactions, and producers whose attempts are lost with their process.

        A producer that crashes in a transaction is another fault.
        """
        if not traits_of(topology.client).attempts_survive:
            return (
                f"client is {topology.client}; allowed: librdkafka, whose ledger of attempts"
                " survives the producer process"
            )
        if topology.transactional:
            return "transactions.records is not 0; allowed: a producer without transactions"
        return None


def crash_producer(context: FaultContext, parameters: ProducerKilledParameters) -> FaultEvidence:
    """Crash producer 0 during the load, and let another process go on with its ledger.

    It took effect if there were records left to send.
    """
    context.sleep_until(parameters.at_s)
    producer = context.clients.first_producer() if context.clients else None
    if producer is None:
        raise FaultMissed("there was no producer that can be restarted")
    if not producer.is_alive():
        raise FaultMissed("producer 0 had ended already")
    with context.injected() as heals:
        heals.callback(lambda: producer.restart(resend=parameters.resend))
        context.note("fault_kill", "SIGKILL, producer 0")
        producer.crash()
        context.note(EFFECTIVE, f"producer 0, process {producer.pid}, has ended")
        accepted, unsettled = producer.progress().accepted, producer.unsettled_records()
        context.add_evidence(
            f"producer 0 (process {producer.pid}) crashed (SIGKILL)"
            f" {context.load_elapsed_s():.2f} s into the load"
        )
        context.add_evidence(
            f"{unsettled} of the {accepted} records that it had sent were neither acknowledged nor"
            " rejected"
        )
        context.sleep_until_lasted(parameters.restart_after_s)
    context.note("client_restart", f"producer 0, process {producer.pid}, started")
    resent = f"{unsettled} records again" if parameters.resend else "no record again"
    context.add_evidence(
        f"process {producer.pid} took over {context.elapsed_s():.2f} s after the fault began, with"
        f" a new producer session, and sent {resent}"
    )
    return context.fault_evidence(took_effect=accepted < producer.job.records)


def _effects(parameters: ProducerKilledParameters, _topology: Topology) -> FaultEffects:
    lasts_ms = parameters.restart_after_s * 1000
    return FaultEffects(
        restarts_producer=True,
        resends_unacknowledged=parameters.resend,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


KINDS: Final = (
    FaultKind(
        "producer-crash",
        FAMILY,
        "a producer crashes (SIGKILL), and another process sends the rest of its records",
        ProducerKilledParameters,
        crash_producer,
        _effects,
        supports_external_cluster=True,
    ),
)
