"""A producer that dies, and another process that goes on: idempotence is of one producer's session (KIP-98)."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from experiments.faults.core import FaultContext, FaultKind, FaultMissed, FaultParameters
from experiments.faults.core.effects import FaultEffects, Topology
from experiments.ledger.record import FaultEvidence

FAMILY: Final = "clients"


class ProducerKilledParameters(FaultParameters):
    """A producer's process ends, and another one takes over."""

    restart_after_s: float = Field(
        default=1.0,
        gt=0,
        le=3600,
        description="from the kill to the start of the next process, seconds",
    )
    resend: bool = Field(
        default=True,
        description="whether the next process sends again what was sent and never acknowledged, as one with an outbox does",
    )

    def heals_at_s(self) -> float:
        """Return when the next process is started."""
        return self.at_s + self.restart_after_s

    def impossible_reason(self, shape: Topology) -> str | None:
        """What a producer of Kafka's own programs had sent dies with it; a transaction that it had open is another case."""
        if shape.client != "librdkafka":
            return f"client is {shape.client}; allowed: librdkafka, of whose records a killed producer leaves a ledger"
        return (
            "workload.transaction_records is not 0; allowed: a producer without transactions"
            if shape.transactional
            else None
        )


def kill_producer(context: FaultContext, parameters: ProducerKilledParameters) -> FaultEvidence:
    """Kill producer 0 in mid-load, and let another process go on with its ledger; it bit when its process was gone and records were left to send."""
    context.until(parameters.at_s)
    producer = context.clients.first_producer() if context.clients else None
    if producer is None:
        raise FaultMissed("there is no producer that could be started again")
    if not producer.lives():
        raise FaultMissed("producer 0 had ended already")
    with context.striking() as healing:
        healing.callback(lambda: producer.start_again(resend=parameters.resend))
        context.note("fault_kill", "SIGKILL, producer 0")
        producer.kill()
        context.note("fault_effective", f"producer 0, process {producer.pid}, is gone")
        accepted, unsettled = producer.progress().accepted, producer.unsettled_records()
        context.saw(
            f"producer 0 (process {producer.pid}) was killed {context.since_load_began_s():.2f} s into the load and was gone"
        )
        context.saw(
            f"{unsettled} of the {accepted} records that it had handed over were neither acknowledged nor refused"
        )
        context.lasting(parameters.restart_after_s)
    context.note("client_restart", f"producer 0, process {producer.pid}, began")
    took_over = f"process {producer.pid} went on {context.since_begin_s():.2f} s after the fault began, as another session"
    context.saw(
        f"{took_over}, and sent {f'{unsettled} records again' if parameters.resend else 'nothing again'}"
    )
    return FaultEvidence(
        kind="producer-killed",
        took_effect=accepted < producer.job.records,
        evidence=tuple(context.facts),
    )


def _nature_of_producer(
    kind: str, parameters: ProducerKilledParameters, _shape: Topology
) -> FaultEffects:
    lasts_ms = parameters.restart_after_s * 1000
    return FaultEffects(
        kind=kind,
        restarts_producer=True,
        resends_unacknowledged=parameters.resend,
        heals_after_ms=lasts_ms,
        heals_within_ms=lasts_ms,
    )


KINDS: Final = (
    FaultKind(
        "producer-killed",
        FAMILY,
        "a producer dies, and another process goes on with what it had to send",
        ProducerKilledParameters,
        kill_producer,
        _nature_of_producer,
        supports_external_cluster=True,
    ),
)
