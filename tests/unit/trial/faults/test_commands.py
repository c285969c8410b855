"""Faults by command: what is run, what shows an effect, and a heal that cannot be forgotten."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fakes.cluster import MemoryCluster
from support.golden_files import Says

from ackbench.experiments.ledger.trial_manifest import FaultEvidence, Scalar
from ackbench.experiments.sweep.documents import MOST_BYTES
from ackbench.experiments.trial.events.clock import now_ns
from ackbench.experiments.trial.events.journal import Event, Journal
from ackbench.experiments.trial.faults import FAULTS, FaultContext
from ackbench.experiments.trial.faults.core.effects import Topology
from ackbench.experiments.trial.faults.core.kind import TrialObservations
from ackbench.experiments.trial.faults.operations.commands import (
    COMMAND,
    LIKE,
    CommandParameters,
    confirm_effect,
    describe_change,
    inject_and_heal,
    observed_change,
    resolve,
)
from ackbench.experiments.trial.faults.operations.noted_heals import (
    CommandFailed,
    NotedHeal,
    note_heal,
    noted_heals,
    run_command,
    run_noted_heal,
)
from ackbench.infra.errors import WaitTimeout
from ackbench.infra.kafka.spec import ClusterState, NodeStatus, PartitionState

TOPOLOGY = Topology(nodes=3, partitions=1, replication_factor=3)
PYTHON = sys.executable
DAMAGES: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "large": lambda path: path.write_bytes(b" " * (MOST_BYTES + 1)),
    "nested deeply": lambda path: path.write_text("[" * 100_000),
}


def python(code: str) -> tuple[str, ...]:
    """Return the command that runs Python code."""
    return (PYTHON, "-c", code)


def state(
    leader: int | None, isr: tuple[int, ...], brokers: tuple[int, ...] = (1, 2, 3)
) -> ClusterState:
    """Return a cluster with one partition."""
    partition = PartitionState(topic="t", partition=0, leader=leader, replicas=(1, 2, 3), isr=isr)
    return ClusterState(
        brokers=brokers, controller=None, controller_epoch=None, partitions=(partition,)
    )


def test_a_word_is_one_argument_whatever_it_contains(says: Says) -> None:
    """No shell reads it."""
    code = "import sys; print(sys.argv[1:])"

    says(run_command("inject", (*python(code), "a b; $(ls) | x", "*"), 10))


def test_variables_are_resolved_within_a_word() -> None:
    """A dollar sign is written twice."""
    variables = {"LEADER": "2", "FOLLOWERS": "1,3", "NODE_HOST": "kafka-2", "PARTITION": "0"}

    assert resolve("inject", ("ssh", "root@$NODE_HOST", "kill-${LEADER}", "$$HOME"), variables) == (
        "ssh",
        "root@kafka-2",
        "kill-2",
        "$HOME",
    )


@dataclass
class NamedBrokers(MemoryCluster):
    """A cluster whose metadata name all brokers by one host."""

    host: str = "kafka-2"

    def status(self) -> tuple[NodeStatus, ...]:
        """Return each node's state, with the host."""
        return tuple(replace(node, host=self.host) for node in super().status())


def inject(cluster: MemoryCluster, **commands: tuple[str, ...]) -> FaultEvidence:
    """Run a fault by command on a cluster at once."""
    context = FaultContext(cluster, cluster.topic, now_ns(), Journal(), client_timeout_s=1)
    parameters = CommandParameters.model_validate(
        {"name": "mine", "at_s": 0.001, "lasts_s": 0.01, "patience_s": 0, **commands}
    )
    return inject_and_heal(context, parameters)


HOSTILE = (
    "-oProxyCommand=touch x",
    "--",
    "a b",
    "a;b",
    "$(ls)",
    "a\nb",
    "../a",
    "a/b",
    "user@a",
    "[::1]",
    "fe80::1%$(ls)",
    "a..b",
    "a-",
    "kafka_2",
    "a" * 64,
    ".".join(["a" * 60] * 5),
    "",
)


@pytest.mark.parametrize("host", HOSTILE)
@pytest.mark.parametrize("part", ["inject", "heal", "proof"])
def test_a_host_that_a_hostile_broker_names_is_no_option_of_a_command(
    tmp_path: Path, host: str, part: str
) -> None:
    """The value of `-oProxyCommand` is run by ssh: one line, and neither a command nor a note."""
    ran = tmp_path / "ran"
    write = python(f"open({str(ran)!r}, 'w')")
    commands = {"inject": write, "heal": write, "proof": write}
    commands[part] = (*write, "$NODE_HOST")

    with pytest.raises(CommandFailed) as refused:
        inject(NamedBrokers(tmp_path, host=host), **commands)

    assert str(refused.value).startswith(f"{part} refused: the cluster gives $NODE_HOST as ")
    assert "allowed: a host name (RFC 1123) or an address (IPv4, IPv6)" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not ran.exists()
    assert noted_heals(tmp_path) == []


@pytest.mark.parametrize(
    "host",
    ["kafka-2", "b-2.cluster.example.com", "kafka.example.", "10.0.0.7", "::1", "2001:db8::7"],
)
def test_a_host_name_or_an_address_is_given_to_a_command(tmp_path: Path, host: str) -> None:
    """As the metadata name it."""
    say = python("import sys; print(sys.argv[1:])")
    evidence = inject(
        NamedBrokers(tmp_path, host=host), inject=(*say, "--", "$NODE_HOST"), heal=("true",)
    )
    assert any(f"['--', '{host}']" in line for line in evidence.evidence)


def test_a_host_that_no_command_names_may_be_anything(tmp_path: Path) -> None:
    """Names with underscores are common in Compose."""
    evidence = inject(
        NamedBrokers(tmp_path, host="kafka_2"), inject=("true", "$LEADER"), heal=("true",)
    )
    assert any("inject `true 2`" in line for line in evidence.evidence)


@pytest.mark.parametrize(
    ("name", "value"),
    [("LEADER", "-1"), ("FOLLOWERS", "1,-3"), ("PARTITION", "-0"), ("LEADER", "٣")],
)
def test_a_negative_id_is_no_option_of_a_command(name: str, value: str) -> None:
    """Kafka's protocol has them: -1 is no broker."""
    variables = {"LEADER": "2", "FOLLOWERS": "1,3", "NODE_HOST": "kafka-2", "PARTITION": "0"}
    with pytest.raises(CommandFailed, match=rf"^inject refused: the cluster gives \${name} as"):
        resolve("inject", ("kill", f"${name}"), {**variables, name: value})


@given(st.text())
def test_no_value_of_a_cluster_begins_an_option_or_ends_a_shell_word(text: str) -> None:
    """Whatever it is: a word of a command may be read by a shell on the other side of ssh."""
    variables = dict.fromkeys(("LEADER", "FOLLOWERS", "NODE_HOST", "PARTITION"), text)
    for name in variables:
        try:
            (word,) = resolve("inject", (f"${{{name}}}",), variables)
        except CommandFailed:
            continue
        assert not word.startswith("-")
        assert not set(word) - set(
            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:-"
        )


def test_the_program_of_a_command_is_not_named_by_the_cluster(says: Says) -> None:
    """It could be any program of this machine."""
    reason = CommandParameters.model_validate(
        {"name": "mine", "at_s": 0.001, "inject": ["$NODE_HOST"], "heal": ["true"]}
    ).impossible_reason(TOPOLOGY)
    says(reason)


@pytest.mark.parametrize(
    ("command", "timeout_s", "message"),
    [
        (("no-such-program",), 60, "inject `no-such-program` did not start: No such file"),
        (python("print('denied'); exit(3)"), 60, "ended with 3: denied"),
        (python("import time; time.sleep(60)"), 0.5, "did not end within 0.5 s"),
    ],
    ids=["missing", "failing", "hanging"],
)
def test_a_command_that_fails_is_one_line(
    command: tuple[str, ...], timeout_s: float, message: str
) -> None:
    """A hanging one is killed."""
    with pytest.raises(CommandFailed) as failed:
        run_command("inject", command, timeout_s)

    assert message in str(failed.value)
    assert "\n" not in str(failed.value)


def test_a_hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    """A shell script's `ssh` would otherwise go on."""
    late = tmp_path / "late"
    child = f"import time; time.sleep(1.5); open({str(late)!r}, 'w')"
    code = f"import subprocess; subprocess.run([{PYTHON!r}, '-c', {child!r}])"

    with pytest.raises(CommandFailed):
        run_command("heal", python(code), 0.5)
    with pytest.raises(CommandFailed):  # outlasts the child
        run_command("heal", python("import time; time.sleep(60)"), 1.5)

    assert not late.exists()


def test_a_heal_stays_noted_until_it_has_succeeded(tmp_path: Path) -> None:
    """Whoever finds the note can run it: after Ctrl-C, after kill -9, after a failure."""
    healed = tmp_path / "healed"
    code = f"open({str(healed)!r}).read(); print('up')"
    note = note_heal(tmp_path, NotedHeal(fault="mine", command=python(code), timeout_s=10))
    assert noted_heals(tmp_path) == [note]

    with pytest.raises(CommandFailed, match="`ackbench clean` tries again"):
        run_noted_heal(note)
    assert noted_heals(tmp_path) == [note]

    healed.touch()
    assert run_noted_heal(note).startswith("healed mine: ")
    assert noted_heals(tmp_path) == []


def test_a_damaged_note_is_not_taken_for_a_heal(tmp_path: Path) -> None:
    """Its cluster has to be looked at."""
    note = note_heal(tmp_path, NotedHeal(fault="mine", command=("true",), timeout_s=1))
    note.write_text("{")

    with pytest.raises(CommandFailed, match="heal the cluster by hand"):
        run_noted_heal(note)
    assert note.exists()


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_note_that_is_no_small_file_is_one_line(
    tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """It is neither waited for nor read without end."""
    note = note_heal(tmp_path, NotedHeal(fault="mine", command=("true",), timeout_s=1))
    note.unlink()
    damage(note)

    with pytest.raises(CommandFailed, match="heal the cluster by hand") as refused:
        run_noted_heal(note)
    assert "\n" not in str(refused.value)
    assert note.exists()


@pytest.mark.parametrize(
    ("after", "sentence"),
    [
        (state(1, (1, 2, 3)), None),
        (state(2, (2, 3)), "the leader of partition 0 changed: node 1, node 2"),
        (state(None, (1,)), "the leader of partition 0 changed: node 1, none"),
        (state(1, (1, 2)), "the ISR of partition 0 shrank: [1, 2, 3], [1, 2]"),
        (state(1, (1, 2, 3), brokers=(1, 2)), "broker 3 left the metadata"),
    ],
)
def test_a_change_of_the_metadata_shows_an_effect(
    after: ClusterState, sentence: str | None
) -> None:
    """Whatever the command says of itself."""
    assert describe_change(state(1, (1, 2, 3)), after) == sentence


def test_a_broker_that_does_not_answer_does_not_end_the_fault() -> None:
    """It may be the one that the command stopped; the poller sees the change a second later."""

    def describe() -> ClusterState:
        raise WaitTimeout("no answer")

    assert observed_change(state(1, (1, 2, 3)), describe) is None
    assert observed_change(state(1, (1, 2, 3)), lambda: state(2, (2, 3))) is not None


def evidence_with(*events: Event) -> FaultEvidence:
    """Return the evidence of a command after the trial's events."""
    evidence = FaultEvidence(kind=COMMAND, took_effect=True, evidence=("inject `true`",))
    return confirm_effect(
        evidence, TrialObservations(events, acks="all", began_ns=10, request_timeout_s=4e-9)
    )


LOAD_BEGIN = Event(1, "load_begin")
"""More than two request timeouts before the injection."""


def logged(at_ns: int, kind: str, client: str = "producer 0") -> Event:
    """Return an event in a client's log; of time-outs, one that names three requests."""
    return Event(at_ns, kind, detail=f"{client}: Timed out 3 in-flight, 0 retry-queued")


def changed(at_ns: int, kind: str) -> Event:
    """Return a change between two answers of the metadata poller."""
    return Event(at_ns, kind, resolution_ns=1)


@pytest.mark.parametrize("kind", ["metadata_unavailable", "disconnected", "timed_out"])
def test_an_event_after_the_injection_shows_an_effect(kind: str) -> None:
    """No answer to the metadata poller or a producer, or a connection that is lost."""
    assert evidence_with(LOAD_BEGIN, logged(11, kind)).took_effect


@pytest.mark.parametrize("kind", ["leader", "isr"])
def test_a_change_between_two_answers_shows_an_effect_and_a_first_answer_none(kind: str) -> None:
    """A first answer that came late, on a busy machine, is a state."""
    assert evidence_with(LOAD_BEGIN, changed(11, kind)).took_effect
    assert not evidence_with(LOAD_BEGIN, Event(11, kind)).took_effect


@pytest.mark.parametrize("kind", ["timed_out", "metadata_unavailable"])
@pytest.mark.parametrize("load_begin", [(), (Event(3, "load_begin"),)])
def test_missing_answers_soon_after_the_load_began_show_no_effect(
    load_begin: tuple[Event, ...], kind: str
) -> None:
    """Without any fault none could be missing before the injection, however busy the cluster is."""
    evidence = evidence_with(*load_begin, logged(11, kind))
    assert not evidence.took_effect
    assert "too short to show time-outs without a fault (at_s of 8e-09" in evidence.evidence[-1]
    assert evidence_with(*load_begin, logged(11, kind), changed(12, "isr")).took_effect


def test_requests_of_producers_that_time_out_are_counted_and_those_of_consumers_are_not(
    says: Says,
) -> None:
    """A consumer waits for records that nobody sends."""
    evidence = evidence_with(LOAD_BEGIN, logged(11, "timed_out"), logged(12, "timed_out"))
    says(evidence.evidence[-1])
    assert not evidence_with(LOAD_BEGIN, logged(11, "timed_out", "consumer 0")).took_effect


def test_a_command_that_changed_nothing_makes_the_trial_void() -> None:
    """Also if it ended with 0; what was before the injection does not count."""
    evidence = evidence_with(Event(9, "leader"), Event(11, "leader_learned"))

    assert not evidence.took_effect
    assert "shows an effect" in evidence.evidence[-1]


@pytest.mark.parametrize("kind", ["timed_out", "disconnected", "metadata_unavailable"])
def test_what_had_been_seen_before_the_injection_is_no_sign_of_it(kind: str) -> None:
    """On a busy machine requests time out without any fault."""
    evidence = evidence_with(LOAD_BEGIN, logged(9, kind), logged(11, kind))

    assert not evidence.took_effect
    assert "that it had not shown before the injection" in evidence.evidence[-1]
    assert evidence_with(logged(9, kind), logged(11, kind), changed(12, "leader")).took_effect


def test_a_command_that_is_like_a_fault_has_its_effects_and_its_own_times() -> None:
    """The guarantees are derived from them."""
    parameters: dict[str, Scalar] = {
        "name": "mine",
        "lasts_s": 5.0,
        "patience_s": 2.0,
        "heal_timeout_s": 30.0,
    }
    known = FAULTS["leader-crash"].effects_of({}, TOPOLOGY)
    like = FAULTS[COMMAND].effects_of({**parameters, "like": "leader-crash"}, TOPOLOGY)

    assert (like.nodes_down, like.may_affect_leader) == (known.nodes_down, known.may_affect_leader)
    assert (like.heals_after_ms, like.heals_within_ms) == (5_000, 37_000)
    assert not FAULTS[COMMAND].effects_of(parameters, TOPOLOGY).known


def test_every_fault_that_a_command_may_be_like_is_in_the_catalogue() -> None:
    """And has effects with these parameters left at their defaults."""
    for kind in LIKE:
        assert FAULTS[kind].effects_of({}, TOPOLOGY).known


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"inject": None}, "inject is missing"),
        ({"heal": None}, "heal is missing"),
        ({"inject": ("ssh", "$HOST")}, "inject has $HOST; allowed: $LEADER, $FOLLOWERS"),
        ({"proof": ("x", "$")}, "proof has $"),
        ({"like": "power-loss"}, "like is power-loss; allowed: controller-crash"),
    ],
)
def test_an_incomplete_command_is_refused_before_anything_starts(
    changes: dict[str, object], reason: str
) -> None:
    """With what is allowed."""
    given = {"inject": ("ssh", "$NODE_HOST"), "heal": ("ssh", "$NODE_HOST"), **changes}
    parameters = CommandParameters.model_validate(given)

    assert str(parameters.impossible_reason(TOPOLOGY)).startswith(reason)


def test_a_command_without_words_is_refused() -> None:
    """The message names the key."""
    with pytest.raises(ValueError, match="inject"):
        CommandParameters.model_validate({"inject": [], "heal": ["true"]})
