"""Comparison of a trial with its sweep's plan: `plan.json` and `trial.json` say the same.

Trial ids are the same in every sweep of an experiment. So a folder that was copied from another
sweep has the right name, and only its content shows where it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ackbench.experiments.ledger.digests import InvalidLedger, read_bounded, without_digest
from ackbench.experiments.ledger.documents import why_unreadable
from ackbench.experiments.ledger.moved import lift_cluster, lift_fault
from ackbench.experiments.ledger.trial_manifest import (
    TRIAL_MANIFEST,
    Cell,
    Frozen,
    Label,
    Role,
    Scalar,
    TrialManifest,
)

if TYPE_CHECKING:
    import pyarrow.fs as pafs

PLAN: Final = "plan.json"

Composition = Literal["&", ">>"]
JAVA: Final = "java"
"""The kind of a client, and how its version begins in a manifest."""
UNKNOWN_VERSION: Final = "unknown"
"""The version in the manifest of a Java client whose log did not name it."""
_LIBRDKAFKA: Final = "librdkafka"
_ABSENT: Final = "absent"
EQUAL: Final = (
    "experiment",
    "label",
    "role",
    "repeat",
    "order",
    "seed",
    "token",
    "replication_factor",
    "partitions",
)
"""The fields that a plan and a manifest have in the same form."""


class FaultRequest(Frozen):
    """One fault with its parameters, or several faults, in parallel or in sequence."""

    kind: str
    """The fault's name; for several, their notation (`trial.faults.composition.notation`)."""
    parameters: dict[str, Scalar] = Field(default_factory=dict)
    """Parameters of a single fault, as `experiments.trial.faults` names them; empty for several."""
    joined: Composition | None = None
    """`&`: the parts run in parallel; `>>`: each part begins after the heal of the one before."""
    parts: tuple[FaultRequest, ...] = ()
    """Two or more faults; empty for a single fault."""

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, fault: Any) -> Any:
        return lift_fault(fault)

    def leaves(self) -> tuple[FaultRequest, ...]:
        """Return the single faults, in the order of the notation."""
        return (
            tuple(leaf for part in self.parts for leaf in part.leaves()) if self.parts else (self,)
        )

    def with_leaves(self, changed: Callable[[FaultRequest], FaultRequest]) -> FaultRequest:
        """Return the request with a function applied to each single fault."""
        return (
            self.model_copy(
                update={"parts": tuple(part.with_leaves(changed) for part in self.parts)}
            )
            if self.parts
            else changed(self)
        )

    def all_parameters(self) -> dict[str, Scalar]:
        """Return the parameters of all faults.

        For several faults, a parameter is prefixed with the fault's place and name, as in
        `2.leader-pause.at_s`.
        """
        if not self.parts:
            return self.parameters
        return {
            f"{place}.{leaf.kind}.{name}": value
            for place, leaf in enumerate(self.leaves(), 1)
            for name, value in leaf.parameters.items()
        }


def recorded_client(kind: str, version: str) -> str:
    """Return how a manifest names a client: librdkafka by its version alone."""
    return version if kind == _LIBRDKAFKA else f"{kind} {version}"


def recorded_kind(client: str) -> str:
    """Return the kind of a client that a manifest names."""
    return client.partition(" ")[0] if " " in client else _LIBRDKAFKA


class _Part(BaseModel):
    """Some fields of a part of `plan.json`; `None`: the plan does not say, as an older one may."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class _PlannedAccess(_Part):
    java_client_version: str | None = None


class _PlannedCluster(_Part):
    kafka_version: str | None = None
    external: _PlannedAccess | None = None

    @model_validator(mode="before")
    @classmethod
    def _lift(cls, need: Any) -> Any:
        return lift_cluster(need)

    @property
    def version_of_java_clients(self) -> str | None:
        return (self.external and self.external.java_client_version) or self.kafka_version


class _PlannedLoad(_Part):
    rate_records_per_s: float | None = None
    record_size_bytes: int | None = None
    duration_s: float | None = None


class PlannedTrial(_Part):
    """The values of a trial that plan and manifest both have."""

    sweep_id: str | None = None
    trial_id: str
    experiment: str | None = None
    cell: Cell | None = None
    label: Label | None = None
    role: Role | None = None
    repeat: int | None = None
    order: int | None = None
    seed: int | None = None
    token: int | None = None
    client: str | None = None
    client_version: str | None = None
    cluster: _PlannedCluster = _PlannedCluster()
    replication_factor: int | None = None
    partitions: int | None = None
    topic: dict[str, str] | None = None
    workload: _PlannedLoad = _PlannedLoad()
    fault: FaultRequest | None = None

    def differences(self, manifest: TrialManifest) -> dict[str, tuple[object, object]]:
        """Return what plan and manifest say differently, by name: first the plan's value."""
        of_kafka = self.cluster.version_of_java_clients
        kind = recorded_kind(manifest.client)
        java, recorded_version = kind == JAVA, manifest.client.removeprefix(f"{kind} ")
        compared: dict[str, tuple[object, object]] = {
            name: (getattr(self, name), getattr(manifest, name)) for name in EQUAL
        }
        compared |= {name: (value, getattr(manifest, name)) for name, value in self.workload}
        compared |= {
            "kafka_version": (self.cluster.kafka_version, manifest.kafka_version),
            "client": (self.client, kind),
            "fault": (self.fault and self.fault.kind, manifest.fault.kind),
            **_by_name("cell", self.cell, manifest.cell),
            **_by_name("topic", self.topic, manifest.topic_settings),
            **_by_name(
                "fault",
                self.fault.all_parameters() if self.fault else None,
                manifest.fault.parameters,
            ),
        }
        planned_version = self.client_version or (of_kafka if java else None)
        if kind == self.client and recorded_version != UNKNOWN_VERSION:
            compared["client version"] = (planned_version, recorded_version)
        return {
            name: (planned, found)
            for name, (planned, found) in compared.items()
            if planned is not None and planned != found
        }


def _by_name(
    what: str, planned: Mapping[str, Scalar] | None, found: Mapping[str, Scalar]
) -> dict[str, tuple[object, object]]:
    """Return the values of two mappings by name; nothing if the plan has none."""
    return {
        f"{what}.{name}": (_value(planned, name), _value(found, name))
        for name in (() if planned is None else dict.fromkeys([*planned, *found]))
    }


def _value(values: Mapping[str, Scalar] | None, name: str) -> Scalar:
    value = (values or {}).get(name, _ABSENT)
    return "null" if value is None else value


class _Planned(_Part):
    sweep_id: str
    trials: tuple[PlannedTrial, ...]


@dataclass(frozen=True)
class PlannedTrials:
    """The trials that a sweep planned."""

    sweep_id: str
    trials: Mapping[str, PlannedTrial] | None
    """By trial id; `None`: the folder has no plan, as that of the self-test's copies."""

    def why_foreign(self, manifest: TrialManifest) -> str | None:
        """Return why a trial is not the plan's, in one line with its file; `None`: it is."""
        file = f"trial {manifest.trial_id}: {TRIAL_MANIFEST}"
        planned = None if self.trials is None else self.trials.get(manifest.trial_id)
        sweep_id = planned.sweep_id if planned and planned.sweep_id else self.sweep_id
        if manifest.sweep_id != sweep_id:
            return f"{file} is of sweep {manifest.sweep_id}: it was copied from there"
        if self.trials is None:
            return None
        if planned is None:
            return f"{file} is of no trial that {PLAN} has"
        differences = planned.differences(manifest)
        if not differences:
            return None
        found = ", ".join(f"{name} {value}" for name, (_, value) in differences.items())
        expected = ", ".join(f"{name} {value}" for name, (value, _) in differences.items())
        return " ".join(f"{file} has {found}; {PLAN} has {expected}: it is another trial".split())

    def require(self, manifest: TrialManifest) -> None:
        """Check that a trial is the plan's.

        Raises:
            InvalidLedger: it is not; the message is that of `why_foreign`.
        """
        if reason := self.why_foreign(manifest):
            raise InvalidLedger(reason)


def read_planned(files: pafs.FileSystem, root: str) -> PlannedTrials:
    """Return the trials that the plan in a sweep's folder has.

    Args:
        files: the file system of the sweep.
        root: the sweep's folder, whose name is its id.

    Raises:
        InvalidLedger: the plan was altered or truncated, or is no file of a plan's size.
    """
    try:
        content = read_bounded(files, f"{root}/{PLAN}")
    except FileNotFoundError:
        return PlannedTrials(root.rsplit("/", 1)[-1], None)
    except OSError as error:
        raise InvalidLedger(f"{PLAN} cannot be read: {error}") from error
    return parse_planned(content)


def parse_planned(content: bytes) -> PlannedTrials:
    """Return the trials that the content of a `plan.json` has.

    Raises:
        InvalidLedger: it was altered or truncated.
    """
    try:
        document, _ = without_digest(content)
        plan = _Planned.model_validate_json(document)
    except ValidationError as error:
        raise InvalidLedger(
            f"{PLAN} {why_unreadable(content, 'is truncated or not a plan')}"
        ) from error
    except ValueError as error:
        raise InvalidLedger(f"{PLAN} {error}") from error
    return PlannedTrials(plan.sweep_id, {trial.trial_id: trial for trial in plan.trials})
