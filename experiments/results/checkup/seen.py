"""What stored sweeps saw with the same settings under the same fault.

Only the measuring job's table of trials is read, so that hundreds of sweeps take a second. A sweep
that cannot be read is left out: `ackbench show` names the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from pydantic import ValidationError

from ackbench.experiments.ledger.trial_manifest import Frozen, Status
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.planning.clients.rules import canonical_acks
from ackbench.experiments.results.checkup.configuration import Configuration
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.experiments.verdicts.guarantees import GUARANTEES, Guarantee, NamedGuarantee
from ackbench.infra.machine.home import INSTALL_READ, Home

MOST_SWEEPS: Final = 100
"""The newest ones that are read."""
_TOPIC: Final = ("min.insync.replicas", "unclean.leader.election.enable")
_DEFAULTS: Final = {"unclean.leader.election.enable": "false", "min.insync.replicas": "1"}


class SeenTrials(Frozen):
    """What stored trials of the same settings saw of one guarantee under one fault."""

    guarantee: NamedGuarantee
    fault: str
    trials: int
    violated: int
    """In how many of them."""
    sweeps: tuple[str, ...]
    """Their sweeps, the newest first."""


@dataclass(frozen=True)
class StoredTrial:
    """A sealed trial: its plan, and its row in the table of trials."""

    spec: TrialSpec
    row: Mapping[str, Any]


def stored_trials(home: Home, say: Callable[[str], None]) -> Iterator[StoredTrial]:
    """Yield the sealed trials of the newest sweeps of a home, the newest first.

    Args:
        home: the home.
        say: called with a line if there are sweeps that this installation cannot read.
    """
    sweeps = list_sweeps(home)[:MOST_SWEEPS]
    if not sweeps:
        return
    if find_spec("pyarrow") is None:
        say(
            f"warning: the sweeps of {home.root} are not compared: {INSTALL_READ} installs what "
            "reads them"
        )
        return
    from ackbench.experiments.results.rows import read_table

    for sweep in sweeps:
        try:
            specs = {spec.trial_id: spec for spec in sweep.plan().trials}
            rows = read_table(sweep, "trials").to_pylist()
            foreign = sweep.foreign_trials()
        except (LedgerError, ValidationError, OSError):
            continue
        for row in rows:
            if row["status"] == Status.SEALED and row["trial_id"] in specs.keys() - foreign.keys():
                yield StoredTrial(specs[row["trial_id"]], row)


def seen_trials(
    configuration: Configuration, trials: Iterable[StoredTrial]
) -> tuple[SeenTrials, ...]:
    """Return what trials with the same deciding settings saw, by guarantee and fault. Pure.

    The deciding settings are: client, acks, idempotence, requests in flight, replication factor,
    min.insync.replicas and unclean elections. Versions of Kafka are not compared.
    """
    wanted = _key(
        configuration.client,
        configuration.effective_producer(),
        configuration.effective_topic(),
        configuration.replicas,
    )
    columns = {one: one.trials_column for one in GUARANTEES if one.trials_column}
    found: defaultdict[tuple[Guarantee, str], list[tuple[str, bool]]] = defaultdict(list)
    for trial in trials:
        spec = trial.spec
        topic = {**_DEFAULTS, **spec.cluster.broker, **spec.topic}
        if _key(spec.client, spec.producer, topic, spec.replication_factor) != wanted:
            continue
        for guarantee, column in columns.items():
            if (count := trial.row[column]) is not None:
                found[guarantee, spec.fault.kind].append((spec.sweep_id, count > 0))
    return tuple(
        SeenTrials(
            guarantee=guarantee,
            fault=fault,
            trials=len(entries),
            violated=sum(violated for _, violated in entries),
            sweeps=tuple(dict.fromkeys(sweep for sweep, _ in entries)),
        )
        for (guarantee, fault), entries in found.items()
    )


def _key(
    client: str, producer: Mapping[str, str], topic: Mapping[str, str], replicas: int
) -> tuple[object, ...]:
    acks = canonical_acks(producer.get("acks", ""))
    # An idempotent producer keeps its order with up to five requests in flight, so their number
    # decides only without idempotence (KIP-679).
    in_flight = producer.get("max.in.flight.requests.per.connection")
    idempotent = producer.get("enable.idempotence")
    return (
        client,
        acks,
        idempotent,
        None if idempotent == "true" else in_flight == "1",
        *(topic.get(name, _DEFAULTS[name]) for name in _TOPIC),
        replicas,
    )
