"""Faults of chosen requests: relays hold, delay, drop, reset, repeat or answer them.

Or they change the responses.

Which errors a broker sends, and what they mean: https://kafka.apache.org/protocol#protocol_error_codes.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.messages.phrases import did_you_mean, format_list
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind
from ackbench.experiments.trial.faults.core.context import OBSERVED_PARTITION
from ackbench.experiments.trial.faults.core.effects import (
    FaultEffects,
    Topology,
    no_group_reason,
    no_transactions_reason,
)
from ackbench.experiments.trial.faults.network.impairment import ImpairmentParameters, impair
from ackbench.experiments.trial.faults.network.relay import FAMILY, NETWORK
from ackbench.infra.network.rule_actions import ACTIONS, NEXT_TRANSACTION, RequestRule, RuleAction
from ackbench.infra.network.treatment import Direction

KIND: Final = "requests"
NODES_KIND: Final = "node-requests"
UNDER_TEST: Final = "under-test"
"""Stands for the name of the topic under test, which is another one in each trial."""
_OF_TRANSACTIONS: Final = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"}
)
_OF_COPIERS: Final = frozenset({"AddOffsetsToTxn", "TxnOffsetCommit"})
"""The requests of a producer that commits the offsets of a group in its transactions."""
_NO_COPIERS: Final = (
    "api is {api}, which only copiers with copy.delivery exactly-once send; allowed: such a copy"
)
_OF_MEMBERS: Final = frozenset(
    {
        *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
        "ConsumerGroupHeartbeat",
    }
)
_TO_CONTROLLERS: Final = frozenset(
    {
        *("AllocateProducerIds", "AlterPartition", "AssignReplicasToDirs"),
        *("BrokerHeartbeat", "BrokerRegistration", "ControllerRegistration"),
        *("BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "Vote"),
    }
)
_TO_BROKERS: Final = frozenset({"OffsetForLeaderEpoch", "WriteTxnMarkers"})
_OF_NODES: Final = _TO_CONTROLLERS | {"WriteTxnMarkers"}
"""What only brokers and controllers send, to controllers or to brokers: the `listeners` of Kafka's
own message schemas (`clients/src/main/resources/common/message`)."""
_METADATA_EVENTS: Final = ("leader", "isr", "controller")
"""Kinds of events of the metadata poller that can end a rule: those of the observed partition."""
_MOST_S: Final = 3600
_OF_ACTIONS: Final = sorted(
    {name for kind in ACTIONS.values() for name in (*kind.needs, *kind.takes)}
)
"""The parameters that only some actions have."""
_AFTER_APPEND: Final = frozenset(
    {"NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
)
"""The errors with which a leader answers a Produce request although it has appended the batch.

It is not the leader any more when the followers have it, or they do not have it in time, or not
enough of them do (`ReplicaManager.appendRecords`, `DelayedProduce`).
"""


class RequestsParameters(ImpairmentParameters):
    """Relays act on some requests of one API, or on the responses to them."""

    api: str = Field(default="Produce", description="the API's name in Kafka's protocol")
    side: Direction = Field(
        default="responses", description="what the relays act on: requests, or their responses"
    )
    action: RuleAction = Field(
        default="drop",
        description="hold (until the heal), delay, drop (with what follows on the connection, which"
        " is reset at the heal), reset (the connection), error (in responses), repeat (a"
        " request, on a connection of its own), slow (their connections), rewrite (fields of"
        " responses), or respond (with an error, and the broker never gets the request)",
    )
    error: str = Field(
        default="", description="the error to put into responses, by its name in Kafka's protocol"
    )
    rewrite: str = Field(
        default="",
        max_length=300,
        description="fields of responses and their new values: throttle_time_ms:500;"
        "topics.partitions.leader_epoch:by-1;topics:removed",
    )
    delay_ms: float = Field(
        default=0,
        ge=0,
        le=600_000,
        description="how long a delayed one is held, or when it is repeated",
    )
    bytes_per_s: int = Field(
        default=0, ge=0, le=10**9, description="how much of a slow connection is read"
    )
    topic: str = Field(
        default="",
        max_length=249,
        description="the topic whose fields are changed; under-test: that of the trial; empty: all",
    )
    partition: int = Field(
        default=-1, ge=-1, le=1000, description="the partition whose fields are changed; -1: all"
    )
    on_call: int = Field(
        default=1, ge=1, le=1_000_000, description="the first of them that is acted on"
    )
    times: int = Field(
        default=1, ge=0, le=1_000_000, description="how many are acted on at most; 0: all"
    )
    until: str = Field(
        default="",
        description="what ends the rule before lasts_s: leader, isr, controller (an event of the"
        " metadata), next-transaction (has a stored record), or seconds after the first request"
        " that it met",
    )
    probability: float = Field(
        default=1, gt=0, le=1, description="with which each of them is acted on"
    )
    seed: int = Field(default=1, ge=0, le=2**31 - 1, description="of that chance")

    @model_validator(mode="before")
    @classmethod
    def _infer_action_and_side(cls, given: object) -> object:
        """Take the first action that needs a given parameter; the side, if an action has one."""
        if not isinstance(given, dict):
            return given
        inferred = dict(given)
        needing = (
            name for name, kind in ACTIONS.items() if any(given.get(one) for one in kind.needs)
        )
        if "action" not in given and (action := next(needing, None)):
            inferred["action"] = action
        kind = ACTIONS.get(inferred.get("action", ""))
        if "side" not in given and kind is not None and len(kind.sides) == 1:
            inferred["side"] = kind.sides[0]
        return inferred

    @model_validator(mode="after")
    def _require_known_names(self) -> Self:
        # The tables of names take a second to import, which a rule by default does without.
        if "api" in self.model_fields_set:
            from ackbench.infra.kafka.messages import API_KEYS

            if self.api not in API_KEYS:
                meant = did_you_mean(self.api, API_KEYS)
                raise ValueError(f"api is {self.api}; allowed: an API of Kafka{meant}")
        if self.error:
            from ackbench.infra.kafka.messages import ERRORS

            if self.error not in ERRORS:
                meant = did_you_mean(self.error, ERRORS)
                raise ValueError(f"error is {self.error}; allowed: an error of Kafka{meant}")
        if self.rewrite:
            from ackbench.infra.errors import HarnessError
            from ackbench.infra.kafka.field_changes import check_changes

            try:
                check_changes(self.api, self.rewrite)
            except HarnessError as error:
                raise ValueError(f"rewrite: {error}") from error
        if self.action == "respond":
            from ackbench.infra.kafka.answers import ANSWERED

            if self.api not in ANSWERED:
                allowed = format_list(sorted(ANSWERED), "or")
                raise ValueError(f"action is respond and api is {self.api}; allowed: {allowed}")
        return self

    @field_validator("until", mode="before")
    @classmethod
    def _seconds_as_text(cls, given: object) -> object:
        """Take a number for seconds."""
        is_number = isinstance(given, int | float) and not isinstance(given, bool)
        return f"{given:g}" if is_number else given

    @field_validator("until")
    @classmethod
    def _require_known_end(cls, until: str) -> str:
        if until in {"", NEXT_TRANSACTION, *_METADATA_EVENTS} or 0 < seconds_of(until) <= _MOST_S:
            return until
        ends = (NEXT_TRANSACTION, *_METADATA_EVENTS)
        meant = did_you_mean(until, ends)
        raise ValueError(f"until is {until}; allowed: seconds, or an event{meant}")

    @model_validator(mode="after")
    def _require_what_the_action_needs(self) -> Self:
        kind = ACTIONS[self.action]
        if self.side not in kind.sides:
            raise ValueError(
                f"action is {self.action} and side is {self.side}; allowed: {kind.sides[0]}"
            )
        for name in _OF_ACTIONS:
            is_set = getattr(self, name) != type(self).model_fields[name].default
            if name in kind.needs and not is_set:
                raise ValueError(f"{name} is missing, which action {self.action} needs")
            if is_set and name not in {*kind.needs, *kind.takes}:
                having = [
                    one for one, other in ACTIONS.items() if name in {*other.needs, *other.takes}
                ]
                raise ValueError(
                    f"{name} is {getattr(self, name)} and action is {self.action}; "
                    f"allowed: {name} with action {format_list(having, 'or')}"
                )
        return self

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse requests that no client of the load sends."""
        if self.api in _OF_NODES:
            return (
                f"api is {self.api}, which no client sends; allowed: {NODES_KIND}(api={self.api})"
            )
        copies_in_transactions = topology.copy_workload and topology.commits == "within"
        if self.api in _OF_COPIERS:
            return None if copies_in_transactions else _NO_COPIERS.format(api=self.api)
        if self.api in _OF_TRANSACTIONS - {"InitProducerId"} and not copies_in_transactions:
            return no_transactions_reason(topology)
        if self.api in _OF_MEMBERS:
            return no_group_reason(topology)
        return None


class NodeRequestsParameters(RequestsParameters):
    """Relays act on some requests that brokers and controllers send to each other."""

    api: str = Field(default="Fetch", description="the API's name in Kafka's protocol")
    listener: Literal["replication", "controller"] = Field(
        default="replication",
        description="of the nodes that receive them: of brokers (Fetch of"
        " followers, WriteTxnMarkers) or of controllers (AlterPartition, heartbeats)",
    )

    @model_validator(mode="before")
    @classmethod
    def _infer_listener(cls, given: object) -> object:
        """Take the controllers' listener for what only controllers receive."""
        if isinstance(given, dict) and given.get("api") in _TO_CONTROLLERS:
            return {"listener": "controller", **given}
        return given

    @model_validator(mode="after")
    def _require_receivers(self) -> Self:
        foreign = _TO_BROKERS if self.listener == "controller" else _TO_CONTROLLERS
        if self.api in foreign:
            others = "brokers" if self.listener == "controller" else "controllers"
            raise ValueError(
                f"api is {self.api} and listener is {self.listener}; allowed: the other listener"
                f" (only {others} receive it)"
            )
        return self

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse a node that has no other, and controllers that are ZooKeeper's."""
        if topology.zookeepers and self.listener == "controller":
            return "the cluster uses ZooKeeper; allowed: listener replication"
        if topology.nodes + topology.dedicated_controllers == 1:
            return "a single node sends no requests to others; allowed: 2 nodes or more"
        if self.api == "WriteTxnMarkers":
            return no_transactions_reason(topology)
        return None


def act_on_requests(context: FaultContext, parameters: RequestsParameters) -> FaultEvidence:
    """Let the relays follow a rule for a while. It took effect if a request met the rule."""
    context.sleep_until(parameters.at_s)
    topic, topic_id = parameters.topic, None
    if topic == UNDER_TEST:
        topic, topic_id = context.topic, context.current_partition().topic_id
    rule = {
        **parameters.model_dump(exclude=set(ImpairmentParameters.model_fields)),
        "topic": topic,
        "topic_id": topic_id,
        "partition": None if parameters.partition < 0 else parameters.partition,
        "times": parameters.times or None,
    }
    end = partial(_end, context, parameters.until) if parameters.until else None
    return impair(context, parameters, [RequestRule(**rule)], end=end)


def seconds_of(until: str) -> float:
    """Return the seconds of an end; 0: it is an event, or no number."""
    try:
        seconds = float(until)
    except ValueError:
        return 0.0
    return seconds if math.isfinite(seconds) else 0.0


def _end(context: FaultContext, until: str) -> str | None:
    """Return the event that ends the rule, as a sentence; `None`: it has not happened yet."""
    counts = context.cluster.impairment_counts(context.name)
    if until == NEXT_TRANSACTION:
        return next((one.ended for one in counts if one.ended), None)
    if until in _METADATA_EVENTS:
        for event in context.journal.events(until):
            is_meant = event.partition in {None, OBSERVED_PARTITION}
            if is_meant and event.at_ns >= context.began_ns:
                return f"the rule ended with the event {until} ({event.detail})"
        return None
    first_ns = min((met.at_ns for one in counts for met in one.met), default=None)
    if first_ns is not None and time.monotonic_ns() - first_ns >= seconds_of(until) * 1e9:
        return f"the rule ended {until} s after the first request that it met"
    return None


def _effects(parameters: RequestsParameters, _topology: Topology) -> FaultEffects:
    """Return the effects: nodes are not affected."""
    lasts_ms = parameters.lasts_s * 1000
    is_produce = parameters.api == "Produce"
    tells_outcomes = is_produce or parameters.api in _OF_TRANSACTIONS
    late_ms = {"delay": parameters.delay_ms, "repeat": parameters.delay_ms + lasts_ms}
    held_ms = {"hold": lasts_ms, "slow": lasts_ms, **late_ms}.get(parameters.action, 0.0)
    is_late_request = parameters.side == "requests" and held_ms > 0
    return FaultEffects(
        known=_is_known(parameters),
        clients_cut_off=True,
        responses_lost=(
            tells_outcomes and parameters.side == "responses" and parameters.action != "rewrite"
        ),
        requests_held_ms=held_ms if is_produce and is_late_request else 0,
        delays_transactional_request=parameters.api in _OF_TRANSACTIONS and is_late_request,
        heals_after_ms=0 if parameters.until else lasts_ms,
        heals_within_ms=lasts_ms,
    )


def _is_known(parameters: RequestsParameters) -> bool:
    """Return whether a source says what a client does with what it gets.

    - `error`: of an error that a broker would not send in this state nobody says so.
    - `respond`: a broker that refuses a request with a retriable error has not carried it out, and
      the client sends it again (https://kafka.apache.org/protocol#protocol_error_codes); of other
      errors the client's state afterwards is its own matter.
    - `rewrite`: clients wait for `throttle_time_ms` (KIP-219), refresh metadata whose topics have
      retriable errors, and ignore an older leader epoch of a partition (KIP-320).
    """
    tells_outcomes = parameters.api in {"Produce", *_OF_TRANSACTIONS}
    match parameters.action:
        case "error" if tells_outcomes:
            return parameters.api == "Produce" and parameters.error in _AFTER_APPEND
        case "respond":
            from ackbench.infra.kafka.messages import is_retriable

            return not tells_outcomes or is_retriable(parameters.error)
        case "rewrite":
            from ackbench.infra.kafka.field_changes import parse_changes

            changes = parse_changes(parameters.rewrite)
            return all(
                str(one) == "throttle_time_ms"
                or (parameters.api == "Metadata" and _is_known_in_metadata(str(one), one.value))
                for one in changes
            )
        case _:
            return True


def _is_known_in_metadata(path: str, value: str) -> bool:
    from ackbench.infra.kafka.messages import is_retriable

    if path in {"topics.error_code", "topics.partitions.error_code"}:
        return is_retriable(value)
    return path == "topics.partitions.leader_epoch" and value.startswith("-")


def _node_effects(parameters: NodeRequestsParameters, topology: Topology) -> FaultEffects:
    """Return the effects: at the worst no node reaches another one, and each is fenced."""
    lasts_ms = parameters.lasts_s * 1000
    return FaultEffects(
        known=parameters.action not in {"error", "rewrite", "respond"},
        nodes_isolated=topology.nodes,
        may_affect_leader=True,
        heals_after_ms=0 if parameters.until else lasts_ms,
        heals_within_ms=lasts_ms,
    )


KINDS: Final = (
    FaultKind(
        KIND,
        FAMILY,
        "relays hold, delay, drop, reset or repeat chosen requests of the clients, or their"
        " responses, change these, or answer requests themselves",
        RequestsParameters,
        act_on_requests,
        _effects,
        network=NETWORK,
        supports_external_cluster=True,
    ),
    FaultKind(
        NODES_KIND,
        FAMILY,
        "relays hold, delay, drop, reset or repeat chosen requests of brokers and controllers to"
        " each other, or their responses, change these, or answer requests themselves",
        NodeRequestsParameters,
        act_on_requests,
        _node_effects,
        network="node-relays",
    ),
)
