"""Rules of relays for chosen requests, or for the responses to them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.addresses import RequestHead, read_head
from ackbench.infra.kafka.frames import SIZE_BYTES, read_correlation_id
from ackbench.infra.kafka.messages import API_KEYS
from ackbench.infra.kafka.wire import ResponseReader
from ackbench.infra.network.impairment import ImpairmentCounts, MetRequest
from ackbench.infra.network.next_transaction import NextTransaction
from ackbench.infra.network.relay import Connection, Relay, watch_all
from ackbench.infra.network.rule_actions import ACTIONS, NEXT_TRANSACTION, MetFrame, RequestRule
from ackbench.infra.network.treatment import FrameTreatment

MOST_SHOWN: Final = 5
"""So many of the requests that a rule met are evidence, with the number of all."""
_HEAD_BYTES: Final = 8


@dataclass
class RequestRuleMechanism:
    """Implements `ImpairmentMechanism` for `RequestRule`, on the relays of all nodes."""

    rule: RequestRule
    relays: tuple[Relay, ...]
    monotonic_ns: Callable[[], int] = time.monotonic_ns
    _unanswered: dict[tuple[Connection, int], tuple[RequestHead, str]] = field(
        default_factory=dict, init=False
    )
    """The requests whose responses the rule is about, by connection and correlation id."""
    _matching: int = field(default=0, init=False)
    _acted: int = field(default=0, init=False)
    _begun: int = field(default=0, init=False)
    """The number of actions begun that count when a node has answered; then `_acted` has them."""
    _not_acted_on: Counter[str] = field(default_factory=Counter, init=False)
    """The number of those that met the rule and were forwarded unchanged, by the reason."""
    _resets: int = field(default=0, init=False)
    _met: list[MetRequest] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Seed the rule's chance."""
        self._random = Random(self.rule.seed)  # noqa: S311 - which requests are met is no secret
        ends_there = self.rule.until == NEXT_TRANSACTION
        self._next_transaction = NextTransaction() if ends_there else None
        self._api_key, self._action = API_KEYS[self.rule.api], ACTIONS[self.rule.action]

    def apply(self) -> None:
        """Begin to watch the frames of all relays.

        Raises:
            ImpairmentConflict: another fault acts on a relay; none is watched then.
        """
        watch_all(self.relays, self)

    def counts(self) -> tuple[ImpairmentCounts, ...]:
        """Return what the rule acted on so far."""
        what = f"{self.rule.api} {self.rule.side} {self._action.did}"
        return (
            ImpairmentCounts(
                0,
                what,
                connections=self._resets,
                requests=self._acted,
                met=tuple(self._met),
                ended=(
                    "the rule ended when the next transaction had a stored record"
                    if self._has_ended
                    else ""
                ),
                not_acted_on=tuple(
                    f"{count} ({reason})" for reason, count in self._not_acted_on.most_common()
                ),
            ),
        )

    def remove(self) -> tuple[ImpairmentCounts, ...]:
        """Forward bytes as they come; deliver what is held, reset connections with what is not."""
        self._resets += sum([relay.end_watching() for relay in self.relays])
        return self.counts()

    def treat_request(self, connection: Connection, frame: bytes) -> FrameTreatment:
        """Act on a request of the rule's API, or remember it until its response comes."""
        if self._next_transaction is not None and self._acted:
            self._next_transaction.saw_request(connection, frame)
        try:
            head = read_head(frame)
        except HarnessError:
            return FrameTreatment(frame)
        if head.api_key != self._api_key:
            return FrameTreatment(frame)
        client_id = _client_id(frame)
        self._note_next(head, client_id)
        if self.rule.side == "responses":
            self._unanswered[connection, head.correlation_id] = head, client_id
            return FrameTreatment(frame)
        return self._treat(connection, frame, head, client_id)

    def treat_response(self, connection: Connection, frame: bytes) -> FrameTreatment:
        """Act on the response to a request of the rule's API."""
        if self._next_transaction is not None and self._acted:
            self._next_transaction.saw_response(connection, frame)
        correlation_id = read_correlation_id(frame)
        if correlation_id is None:
            return FrameTreatment(frame)
        request = self._unanswered.pop((connection, correlation_id), None)
        return self._treat(connection, frame, *request) if request else FrameTreatment(frame)

    def _treat(
        self, connection: Connection, frame: bytes, head: RequestHead, client_id: str
    ) -> FrameTreatment:
        if not self._is_met():
            return FrameTreatment(frame)
        met = MetRequest(
            connection.relay.node_id,
            self.rule.api,
            head.version,
            head.correlation_id,
            client_id,
            self.monotonic_ns(),
        )
        treated = self._action.treat(
            MetFrame(
                self.rule,
                frame,
                head,
                lambda after_s: connection.relay.repeat(frame, after_s, lambda: self._note(met)),
                tuple((relay.node_id, *relay.listen_address) for relay in self.relays),
                (connection.client if self.rule.side == "requests" else connection.node).limit,
            )
        )
        if isinstance(treated, str):
            self._not_acted_on[treated] += 1
            return FrameTreatment(frame)
        if self._action.counts_when_answered:
            self._begun += 1
        else:
            self._note(met)
        self._resets += treated.treatment == "reset"
        return treated

    def _note(self, met: MetRequest) -> None:
        self._acted += 1
        if len(self._met) < MOST_SHOWN:
            self._met.append(met)

    @property
    def _has_ended(self) -> bool:
        return self._next_transaction is not None and self._next_transaction.has_record

    def _note_next(self, head: RequestHead, client_id: str) -> None:
        """Note what a client of a request that was met sends next."""
        for place, met in enumerate(self._met):
            if met.next_id is None and met.client_id == client_id:
                self._met[place] = replace(
                    met, next_id=head.correlation_id, next_ns=self.monotonic_ns()
                )

    def _is_met(self) -> bool:
        """Return whether the rule acts on the next request or response that is its API's."""
        self._matching += 1
        if self._has_ended or self._matching < self.rule.on_call:
            return False
        if self.rule.times is not None and max(self._acted, self._begun) >= self.rule.times:
            return False
        return self.rule.probability >= 1 or self._random.random() < self.rule.probability


def _client_id(frame: bytes) -> str:
    reader = ResponseReader(frame[SIZE_BYTES + _HEAD_BYTES :])
    try:
        return reader.string() or ""
    except HarnessError:
        return ""
