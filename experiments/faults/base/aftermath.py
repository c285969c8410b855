"""What is known of a fault once its trial is over: what the brokers and the clients themselves wrote down. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.clients.client_log import timed_out_requests
from experiments.journal import Event
from experiments.ledger.record import FaultEvidence


@dataclass(frozen=True)
class Aftermath:
    """What a fault's kind may ask to complete its evidence, or to see that it did not bite."""

    events: tuple[Event, ...]
    """All of the trial, by time: the fault's own, the watcher's, the brokers' and the clients'."""
    acks: str
    began_ns: int | None
    """When this fault struck first; `None`: it never did."""

    def since(self, *kinds: str) -> tuple[Event, ...]:
        """Return the events of these kinds since the fault began; none where it never did."""
        return tuple(event for event in self.events if event.kind in kinds and self.began_ns is not None and event.at_ns >= self.began_ns)

    def timed_out_requests(self) -> int:
        """How many requests the producers gave up waiting for since the fault began."""
        return sum(timed_out_requests(event) for event in self.since("timed_out") if event.detail.startswith("producer"))


def as_it_struck(evidence: FaultEvidence, _aftermath: Aftermath) -> FaultEvidence:
    """Add nothing: all there is to say was said when it struck."""
    return evidence


def with_timed_out_requests(evidence: FaultEvidence, aftermath: Aftermath) -> FaultEvidence:
    """Add what the producers' own logs say: with nobody kept waiting too long, the fault did not bite.

    With acks=0 there is no answer to wait for, and nothing can time out.
    """
    if aftermath.acks == "0":
        return _with(evidence, "acks=0 waits for no answer, so no request can time out")
    if aftermath.timed_out_requests() == 0:
        return _with(evidence, "no request timed out at the client").model_copy(update={"bit": False})
    return evidence


def _with(evidence: FaultEvidence, sentence: str) -> FaultEvidence:
    return evidence.model_copy(update={"evidence": (*evidence.evidence, sentence)})
