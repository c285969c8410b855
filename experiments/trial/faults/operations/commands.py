"""A fault by command: the user's own programs inject it into an external cluster, and heal it.

The commands are lists of words, and no shell reads them: `[ssh, --, $NODE_HOST, sudo, systemctl,
kill, -s, KILL, kafka]`. What they do to Kafka is witnessed by ackbench itself, in the cluster's
metadata and the clients' logs; a command without an effect makes the trial void. The heal is noted
on disk before the injection (`noted_heals`).

The values of the variables come from the cluster, which may be hostile. So each is a host name, an
address or a number, or no command runs.
"""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from string import Template
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic_core import from_json

from ackbench.experiments.ledger.trial_manifest import FaultEvidence
from ackbench.experiments.messages.phrases import format_list, format_value, shorten
from ackbench.experiments.trial.faults.core import FaultContext, FaultKind, FaultParameters
from ackbench.experiments.trial.faults.core.effects import FaultEffects, Topology
from ackbench.experiments.trial.faults.core.kind import (
    Seconds,
    SecondsOrNone,
    TrialObservations,
    extend_evidence,
)
from ackbench.experiments.trial.faults.operations.noted_heals import (
    CommandFailed,
    NotedHeal,
    note_heal,
    run_command,
    run_noted_heal,
)
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.spec import ClusterState, PartitionState

EffectsOfKind = Callable[[str, Topology], FaultEffects]
"""From the name of a fault to its effects."""
FAMILY: Final = "commands"
COMMAND: Final = "command"
"""The kind of a fault by command, in the section `faults` of an experiment."""
SWEPT_PARAMETERS: Final = ("at_s", "lasts_s", "patience_s")
"""Its parameters that an axis may sweep."""
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST_NAME: Final = re.compile(rf"(?=.{{1,253}}\.?\Z){_LABEL}(?:\.{_LABEL})*\.?")
"""RFC 1123, section 2.1; a dot at the end says that the name is complete (RFC 1034)."""
_NUMBER: Final = re.compile(r"[0-9]+")
_NUMBERS: Final = re.compile(r"(?:[0-9]+(?:,[0-9]+)*)?")


def is_host(text: str) -> bool:
    """Return whether a text is a host name or an address, so that no program takes it for more."""
    if _HOST_NAME.fullmatch(text):
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # the zone of an IPv6 address may be any text


VARIABLES: Final[Mapping[str, tuple[Callable[[str], object], str]]] = {
    "LEADER": (_NUMBER.fullmatch, "a number"),
    "FOLLOWERS": (_NUMBERS.fullmatch, "numbers with commas between them"),
    "NODE_HOST": (is_host, "a host name (RFC 1123) or an address (IPv4, IPv6)"),
    "PARTITION": (_NUMBER.fullmatch, "a number"),
}
"""The variables of commands, each with the check of its value and what the check allows.

The leader's node id, its followers' ids, the leader's host, and the number of the partition.
"""
LIKE: Final = tuple(
    f"{target}-{action}"
    for target in ("controller", "follower", "leader")
    for action in ("crash", "pause", "stop")
)
"""Faults of the catalogue that a command may claim to be like."""
_PROBE_S: Final = 0.5
"""The time for a broker to answer while the effect of an injection is awaited."""


def _parse_words(value: object) -> object:
    """Return the words of a command that was written as JSON, as plans hold it."""
    return tuple(from_json(value)) if isinstance(value, str) and value.startswith("[") else value


_QUIET_TIMEOUTS: Final = 2
"""Request timeouts that a producer has to have worked without any, so that one is a sign."""
Command = Annotated[
    tuple[str, ...],
    BeforeValidator(_parse_words),
    PlainSerializer(lambda words: json.dumps(list(words)), return_type=str),
    Field(min_length=1),
]


class CommandParameters(FaultParameters):
    """Commands that inject a fault, heal it and prove it."""

    name: str = Field(
        default="",
        pattern=r"^(?:[A-Za-z0-9][A-Za-z0-9._-]{0,99})?$",
        description="the name of the fault in the experiment, which is part of the name of a file",
    )
    inject: Command | None = Field(default=None, description="the command that causes the fault")
    heal: Command | None = Field(default=None, description="the command that ends it")
    proof: Command | None = Field(
        default=None,
        description="a command whose exit code is 0 once the fault is there; without it, what"
        " ackbench observes is the only proof",
    )
    like: str | None = Field(
        default=None,
        description="the fault of the catalogue that it is like, from whose effects the guarantees"
        " are derived; without it, no guarantee is derived",
    )
    lasts_s: Seconds = Field(
        default=4.0, description="from the injection to the heal at the earliest, s"
    )
    patience_s: SecondsOrNone = Field(
        default=10.0, description="how much longer the heal waits while no effect was observed, s"
    )
    heal_timeout_s: Seconds = Field(default=60.0, description="how long each command may take, s")

    def heals_at_s(self) -> float:
        """Return when the cluster is healed, if the fault has had an effect by then."""
        return self.at_s + self.lasts_s

    def impossible_reason(self, topology: Topology) -> str | None:
        """Refuse a fault without inject or heal, and words that name unknown variables."""
        del topology
        for part, words in self.commands().items():
            unknown = unknown_variables(words)
            if unknown:
                allowed = format_list([f"${name}" for name in VARIABLES])
                return f"{part} has {unknown[0]}; allowed: {allowed}, and $$ for a dollar sign"
            if named_variables(words[:1]):
                return f"{part} runs {words[0]}; allowed: the name of a program as the first word"
        missing = [part for part in ("inject", "heal") if part not in self.commands()]
        if missing:
            return (
                f"{missing[0]} is missing; allowed: a list of words, such as [ssh, --, $NODE_HOST]"
            )
        if self.like is not None and self.like not in LIKE:
            return f"like is {self.like}; allowed: {', '.join(LIKE)}"
        return None

    def commands(self) -> dict[str, tuple[str, ...]]:
        """Return the words of each command that is given, by its part."""
        parts = {"inject": self.inject, "heal": self.heal, "proof": self.proof}
        return {part: words for part, words in parts.items() if words}


def unknown_variables(words: Sequence[str]) -> list[str]:
    """Return what looks like a variable in a command and is none; pure."""
    known = dict.fromkeys(VARIABLES, "")
    unknown = []
    for word in words:
        try:
            Template(word).substitute(known)
        except KeyError as error:
            unknown.append(f"${error.args[0]}")
        except ValueError:
            unknown.append(word)
    return unknown


def named_variables(words: Sequence[str]) -> set[str]:
    """Return the variables that words name; pure."""
    return {name for word in words for name in Template(word).get_identifiers()}


def refused_value(words: Sequence[str], variables: Mapping[str, str]) -> str | None:
    """Return why words may not have the values of a cluster, as a clause; `None`: they may; pure.

    Args:
        words: of a command.
        variables: values by the names of the variables; those that are not known are not checked.
    """
    for name in sorted(named_variables(words) & variables.keys()):
        check, allowed = VARIABLES[name]
        if not check(variables[name]):
            return (
                f"the cluster gives ${name} as {format_value(variables[name])}; allowed: {allowed}"
            )
    return None


def resolve(part: str, words: Sequence[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the words of a command with its variables replaced; pure.

    Args:
        part: which command it is, for the message.
        words: the words.
        variables: the values, which come from the cluster.

    Raises:
        CommandFailed: a value could be an option, or more than one word of a shell.
    """
    reason = refused_value(words, variables)
    if reason:
        raise CommandFailed(f"{part} refused: {reason}")
    return tuple(Template(word).substitute(variables) for word in words)


def describe_change(before: ClusterState, after: ClusterState) -> str | None:
    """Return the first change that shows a fault of a broker, as a sentence; pure.

    A broker that left, a partition whose leader changed or is gone, an ISR that shrank.
    """
    gone = [broker for broker in before.brokers if broker not in after.brokers]
    if gone:
        return f"broker {gone[0]} left the metadata"
    now = {(one.topic, one.partition): one for one in after.partitions}
    for then in before.partitions:
        one = now.get((then.topic, then.partition))
        if one is None:
            continue
        if one.leader != then.leader:
            leader = "none" if one.leader is None else f"node {one.leader}"
            return f"the leader of partition {one.partition} changed: node {then.leader}, {leader}"
        if len(one.isr) < len(then.isr):
            return f"the ISR of partition {one.partition} shrank: {list(then.isr)}, {list(one.isr)}"
    return None


def may_not_be_injected(names: Sequence[str], down: str) -> str:
    """Return why faults may not be injected into a cluster of which a part is down already; pure.

    Args:
        names: of the faults.
        down: what is down, as a sentence: the cluster's own fault comes before that of a test.
    """
    return (
        f"fault {format_list(names)} may not be injected: {down}; allowed: once all brokers run, "
        "or without an address that is no broker's any more"
    )


def observed_change(before: ClusterState, describe: Callable[[], ClusterState]) -> str | None:
    """Return the change that the metadata show now; `None`: there is none, or no broker answers.

    The broker that was asked may be the one that the command stopped: no answer is no evidence, and
    does not end the fault.
    """
    try:
        return describe_change(before, describe())
    except WaitTimeout:
        return None


def inject_and_heal(context: FaultContext, parameters: CommandParameters) -> FaultEvidence:
    """Run the command, watch for its effect, and run the heal in any case.

    The effect may also show in the clients' logs: `confirm_effect`.

    Raises:
        CommandFailed: a value of the cluster is refused, and nothing was run; or a command failed.
    """
    context.sleep_until(parameters.at_s)
    partition, before = context.partition_with_leader(), context.cluster_state()
    leader, variables = _leader_of(partition), _variables(context, partition)
    commands = {
        part: resolve(part, words, variables) for part, words in parameters.commands().items()
    }
    timeout_s = parameters.heal_timeout_s
    heal = NotedHeal(
        fault=f"{context.topic}.{context.label or parameters.name}",
        command=commands["heal"],
        timeout_s=timeout_s,
    )
    took_effect = True
    note = note_heal(context.cluster.folder, heal)
    with context.injected(leader) as heals:
        heals.callback(lambda: context.add_evidence(run_noted_heal(note)))
        output = run_command("inject", commands["inject"], timeout_s)
        context.note("fault_command", "the command has ended", leader)
        context.add_evidence(
            f"inject `{shorten(shlex.join(commands['inject']))}` at partition "
            f"{variables['PARTITION']}, leader {leader}: {output}"
        )
        context.wait_for_reaction(
            lambda: observed_change(
                before, lambda: context.cluster.describe([context.topic], _PROBE_S)
            ),
            parameters.lasts_s + parameters.patience_s,
            "the metadata did not change",
        )
        context.sleep_until_lasted(parameters.lasts_s)
        if "proof" in commands:
            took_effect = _prove(context, commands["proof"], timeout_s)
    return context.fault_evidence((leader,), took_effect=took_effect)


def _prove(context: FaultContext, words: Sequence[str], timeout_s: float) -> bool:
    try:
        context.add_evidence(f"proof: {run_command('proof', words, timeout_s)}")
    except CommandFailed as error:
        context.add_evidence(f"{error}")
        return False
    return True


def _leader_of(partition: PartitionState) -> int:
    if partition.leader is None:  # `partition_with_leader` waits for one
        raise AssertionError(partition)
    return partition.leader


def _variables(context: FaultContext, partition: PartitionState) -> dict[str, str]:
    leader = _leader_of(partition)
    hosts = {node.node_id: node.host for node in context.cluster.status()}
    followers = [str(node) for node in partition.replicas if node != leader]
    return {
        "LEADER": str(leader),
        "FOLLOWERS": ",".join(followers),
        "NODE_HOST": hosts.get(leader, ""),
        "PARTITION": str(partition.partition),
    }


def confirm_effect(evidence: FaultEvidence, observations: TrialObservations) -> FaultEvidence:
    """Return the evidence; no effect if neither metadata nor clients show one.

    The metadata poller notes changes of leader and ISR, and that no broker answers it; producers
    log requests that time out, and clients connections that break. On an overloaded cluster no
    answer comes in time without any fault. So what had also been seen before the injection is no
    sign of it; nor is a missing answer if the load had not yet run for long enough that one could
    have been missing before the injection. The poller's first answer is no change.
    """
    if any(event.resolution_ns is not None for event in observations.since("leader", "isr")):
        return evidence
    signs = {
        f"{observations.timed_out_requests():,} requests of producers timed out": (
            observations.timed_out_requests(),
            observations.timed_out_requests(before=True),
        ),
        "no broker answered the metadata poller": (
            observations.since("metadata_unavailable"),
            observations.before("metadata_unavailable"),
        ),
    }
    needed_s = _QUIET_TIMEOUTS * observations.request_timeout_s
    seen = [sign for sign, (since, _) in signs.items() if since]
    if seen and (loaded_s := observations.loaded_before_s()) < needed_s:
        return extend_evidence(
            evidence,
            f"{format_list(seen)}, which shows no effect: the load had run for {loaded_s:.1f} s "
            "before the injection, too short to show time-outs without a fault (at_s of "
            f"{needed_s:g} is enough)",
            took_effect=False,
        )
    broken = observations.since("disconnected")
    signs[f"{len(broken):,} connections of clients were lost"] = (
        broken,
        observations.before("disconnected"),
    )
    for sign, (since, before) in signs.items():
        if since and not before:
            return extend_evidence(evidence, sign)
    but = " that it had not shown before the injection" if any(b for _, b in signs.values()) else ""
    return extend_evidence(
        evidence, f"neither the metadata nor a client's log shows an effect{but}", took_effect=False
    )


def _effects(
    effects_of: EffectsOfKind, parameters: CommandParameters, topology: Topology
) -> FaultEffects:
    """Return the effects of the fault that it is like, with its own times; else unknown ones."""
    longest_ms = (parameters.lasts_s + parameters.patience_s + parameters.heal_timeout_s) * 1000
    times: dict[str, Any] = {
        "heals_after_ms": parameters.lasts_s * 1000,
        "heals_within_ms": longest_ms,
    }
    if parameters.like is None:
        return FaultEffects(known=False, **times)
    effects = effects_of(parameters.like, topology)
    if effects.pause_ms:
        times["pause_ms"] = longest_ms
    return effects.model_copy(update=times)


def command_kind(effects_of: EffectsOfKind) -> FaultKind:
    """Return the kind of fault that the user's own commands cause.

    Args:
        effects_of: returns the effects of another kind, with its default parameters.
    """
    return FaultKind(
        COMMAND,
        FAMILY,
        "commands of your own inject a fault into an external cluster, and heal it",
        CommandParameters,
        inject_and_heal,
        partial(_effects, effects_of),
        may_exit="brokers",
        supports_external_cluster=True,
        confirm=confirm_effect,
    )
