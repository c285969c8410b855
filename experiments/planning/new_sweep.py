"""A new sweep: planned, checked against this machine, and written to its folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import format_count, one_line
from ackbench.experiments.planning.capacity import (
    UNIT_BYTES,
    largest_undivided,
    require_measurable,
    resource_needs,
)
from ackbench.experiments.planning.catalog.loading import experiment_file, load_experiment
from ackbench.experiments.planning.clients.requested import clients_of
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.external_cluster import as_reported, check_commands
from ackbench.experiments.planning.overrides import Overrides, apply_overrides
from ackbench.experiments.planning.planner import MAX_BROKERS, plan
from ackbench.experiments.planning.properties import known_versions, nearest_version
from ackbench.experiments.planning.properties.extraction import ensure_version_known
from ackbench.experiments.sweep.client_kinds import DEFAULT_CLIENT, traits_of
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import new_sweep_id
from ackbench.experiments.sweep.own_plans import mark_as_own
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.spark_master import is_on_cluster, named_master, tasks_at_once
from ackbench.experiments.trial.clients.adapters import built_command
from ackbench.experiments.trial.clients.librdkafka.versions import is_fetched, library_version
from ackbench.experiments.trial.clients.settings.security import (
    connection_settings,
    register_security,
)
from ackbench.experiments.trial.clients.settings.tokens import confluent_settings
from ackbench.experiments.trial.faults.composition.composite import require_fault_capabilities
from ackbench.experiments.verdicts.power import power_remarks
from ackbench.infra.cluster.setup import ensure_kafka_ready
from ackbench.infra.errors import InputError
from ackbench.infra.kafka.jars import has_cached_jars, kafka_jars, unverified_checksums
from ackbench.infra.kafka.spec import ClusterSpec
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.git import commit_with
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.resources import format_gib, require_resources, this_machine
from ackbench.infra.process.load_lock import hold_machine_lock_for_command

Notify = Callable[[str], None]
"""Shows the user one line: about something that takes long, or that the sweep cannot show."""
_MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_COMBINED: Final = (
    "This machine has not enough memory for dedicated controllers: each broker is also a "
    "controller (combined mode)."
)


@dataclass(frozen=True)
class PlannedSweep:
    """An experiment as it will run on this machine, and its plan; nothing is written."""

    experiment: Experiment
    plan: Plan
    remarks: tuple[str, ...]
    """What is chosen for this machine, or cannot be shown, one line each."""


def plan_new_sweep(
    home: Home,
    name_or_file: str,
    overrides: Overrides | None = None,
    notify: Notify | None = None,
    *,
    downloads: bool = True,
) -> PlannedSweep:
    """Plan a sweep and check that this machine can run it.

    Every value is checked before anything is downloaded.

    Args:
        home: where the sweep's folder would be created.
        name_or_file: an experiment of the catalogue, or a file.
        overrides: values that replace those of the experiment.
        notify: gets a line for each step that takes long.
        downloads: whether versions of Kafka and of librdkafka are downloaded whose properties are
            unknown; otherwise those of the nearest known version count, and a remark says so.

    Raises:
        InputError: the experiment or an override is wrong, or this machine lacks something; one
            line.
        HarnessError: a program of Kafka's failed.
    """
    home.ensure_writable()
    planned = _plan_sweep(home, name_or_file, overrides)
    versions = planned.experiment.kafka_versions()
    unknown = [version for version in versions if version not in known_versions(home)]
    clients = [
        client.version
        for client in clients_of(planned.experiment)
        if client.version
        and client.kind == DEFAULT_CLIENT
        and not is_fetched(home.cache, client.version)
    ]
    if not unknown and not clients:
        return planned
    if downloads:
        with _errors_with_source(name_or_file):
            for version in unknown:
                ensure_version_known(home, version, notify or _discard)
            for version in clients:
                (notify or _discard)(f"fetching librdkafka {version} (once; a few seconds)")
                library_version(home.cache, version)
        return _plan_sweep(home, name_or_file, overrides)
    remarks = (
        *(
            f"Kafka {version} is downloaded when the sweep is run; until then the properties of "
            f"{nearest_version(version)} count"
            for version in unknown
        ),
        *(
            f"librdkafka {version} is fetched when the sweep is run; until then the properties of "
            "the installed one count"
            for version in clients
        ),
    )
    return replace(planned, remarks=(*planned.remarks, *remarks))


def _plan_sweep(home: Home, name_or_file: str, overrides: Overrides | None) -> PlannedSweep:
    overrides = overrides or Overrides()
    experiment = load_experiment(name_or_file)
    if overrides.from_form:
        _refuse_programs(experiment, name_or_file)
    experiment = apply_overrides(experiment, overrides)
    may_have = None if experiment.cluster_traits.planned else MAX_BROKERS
    planned = plan_experiment(experiment, new_sweep_id(experiment.name), name_or_file, may_have)
    refuse_empty(planned, source=name_or_file)
    if not experiment.cluster_traits.planned:
        planned = _plan_on_external_cluster(experiment, planned, source=name_or_file)
    combined = (
        experiment.cluster_traits.started_here
        and experiment.controllers is None
        and not has_memory(planned, home)
    )
    if combined:
        experiment = experiment.model_copy(update={"controllers": 0})
        planned = plan_experiment(experiment, planned.sweep_id, source=name_or_file)
    check_machine(planned, home)
    remarks = (
        *([_COMBINED] if combined else []),
        *_min_insync_replicas_remarks(planned),
        *_executor_remarks(planned),
        *power_remarks(planned),
    )
    return PlannedSweep(experiment, planned, remarks)


def _refuse_programs(experiment: Experiment, source: str) -> None:
    """Refuse an experiment that loads code or runs commands: a form may start neither.

    Raises:
        ExperimentError: it does.
    """
    reasons = [f"faults.{name} runs commands" for name in experiment.commands()]
    if experiment.token_command:
        reasons.insert(0, "token_command runs a command")
    if experiment.allow_code:
        reasons.insert(0, "allow_code is true")
    reasons += [f"client {name} is a program" for name in experiment.programs()]
    if experiment.copies and experiment.copies.command:
        reasons.append("copy.command is a program")
    if reasons:
        raise ExperimentError(
            f"{source}: {reasons[0]} in an experiment from a form; "
            "allowed: with `ackbench run` on this machine, and unchanged by its own schedule"
        )


def new_sweep(
    home: Home, name_or_file: str, overrides: Overrides | None = None, notify: Notify | None = None
) -> SweepFolder:
    """Plan a sweep and write its folder: `experiment.yaml` as resolved, and `plan.json`.

    No cluster is started.

    Args:
        home: where the sweep's folder is created.
        name_or_file: an experiment of the catalogue, or a file.
        overrides: values that replace those of the experiment.
        notify: if given, jars and start-up caches are prepared now, with a line for each step
            that takes long; otherwise they are made when they are first needed. It also gets a
            line for what the sweep cannot show, with the cells or repeats that would.

    Raises:
        InputError: as `plan_new_sweep`.
        HarnessError: as `plan_new_sweep`.
    """
    planned = plan_new_sweep(home, name_or_file, overrides, notify)
    if notify:
        for remark in planned.remarks:
            notify(remark)
        prepare_kafka(planned.plan, home, notify)
    commit = commit_with(experiment_file(name_or_file))
    with_commit = planned.plan.model_copy(update={"experiment_commit": commit})
    return _write_folder(home, planned.experiment, with_commit)


def _executor_remarks(plan: Plan) -> Iterator[str]:
    """Yield a line if an executor elsewhere needs more memory than for a unit of other trials."""
    largest = largest_undivided(plan)
    if is_on_cluster() and largest and largest.memory_bytes > UNIT_BYTES:
        yield (
            f"a task on {named_master()} needs {format_gib(largest.memory_bytes)} outside the "
            f"JVM's heap ({largest.records:,} records with {largest.features}, "
            f"{largest.record_bytes} bytes each), which is not checked: allow for it there, with "
            "spark.executor.memoryOverhead"
        )


def _min_insync_replicas_remarks(plan: Plan) -> Iterator[str]:
    """Yield a line per pair of values of which the first is above the replication factor.

    Brokers count it as the replication factor (KAFKA-15583, from Kafka 3.7 on), so the cell tests
    another setting than the one that it names. Before 3.7 they refuse every record with acks=all
    (NOT_ENOUGH_REPLICAS).
    """
    labels: dict[tuple[int, int], set[str]] = {}
    for trial in plan.trials:
        text = trial.topic.get(_MIN_INSYNC_REPLICAS, "")
        if text.isdecimal() and int(text) > trial.replication_factor:
            values = (int(text), trial.replication_factor)
            labels.setdefault(values, set()).add(trial.label)
    for (minimum, factor), named in labels.items():
        yield (
            f"warning: {_MIN_INSYNC_REPLICAS}={minimum} is above replication.factor={factor} in "
            f"{format_count(len(named), 'cell')}: brokers count it as {factor} (Kafka 3.7 and "
            "later), or refuse every record with acks=all (before)"
        )


def refuse_empty(planned: Plan, source: str) -> None:
    """Refuse a plan without trials.

    Raises:
        ExperimentError: the clients refuse every cell; the message has their own words.
    """
    if planned.trials:
        return
    reasons = list(dict.fromkeys(one_line(cell.reason) for cell in planned.refused))
    raise ExperimentError(f"{source}: the client refuses every cell: {'; '.join(reasons)}")


def plan_experiment(
    experiment: Experiment, sweep_id: str, source: str, brokers: int | None = None
) -> Plan:
    """Return the plan of an experiment.

    Args:
        experiment: the experiment, with overrides applied.
        sweep_id: the id of the sweep.
        source: name of the experiment or its file, which starts every error message.
        brokers: how many an external cluster has, or may have before it is contacted.

    Raises:
        ExperimentError: as `experiments.planning.planner.plan`.
    """
    with _errors_with_source(source):
        return plan(experiment, sweep_id, brokers=brokers)


def _plan_on_external_cluster(experiment: Experiment, planned: Plan, source: str) -> Plan:
    """Return the plan with the number of brokers and the settings that the cluster reports.

    Raises:
        InputError: the cluster cannot be reached or refuses the client; with librdkafka's reason.
        ExperimentError: the experiment does not fit the cluster's brokers.
    """
    from ackbench.infra.cluster.external import probe_cluster, unavailable_parts

    with _errors_with_source(source):
        need = planned.trials[0].cluster
        servers = need.external.addresses if need.external else ""
        register_security(servers, need.security)
        connection = confluent_settings(connection_settings(servers))
        reported = probe_cluster(connection)
        check_commands(
            experiment,
            planned,
            reported.cluster_id,
            unavailable_parts(connection),
            [host for host, _ in reported.addresses.values()],
        )
    planned = plan_experiment(experiment, planned.sweep_id, source, len(reported.brokers))
    trials = tuple(
        trial.model_copy(update={"cluster": as_reported(trial.cluster, reported)})
        for trial in planned.trials
    )
    return planned.model_copy(update={"trials": trials})


def has_memory(planned: Plan, home: Home) -> bool:
    """Return whether this machine has the memory that a plan needs."""
    return resource_needs(planned).memory_bytes <= this_machine(home.root).memory_bytes


def check_machine(planned: Plan, home: Home) -> None:
    """Check that this machine has the memory, disk, open files and capabilities of a plan.

    Raises:
        MachineError: it does not.
    """
    for fault in {trial.fault.kind: trial.fault for trial in planned.trials}.values():
        require_fault_capabilities(fault)
    needs, machine = resource_needs(planned), this_machine(home.root)
    if not is_on_cluster():
        require_measurable(planned, machine, tasks_at_once(machine.cores))
    require_resources(
        machine,
        memory_bytes=needs.memory_bytes,
        disk_bytes=needs.disk_bytes,
        open_files=needs.open_files,
        purpose=f"a sweep of {len(planned.trials)} trials",
    )


def prepare_kafka(planned: Plan, home: Home, notify: Notify) -> None:
    """Prepare jars, start-up caches and clients of a plan, unless they are there.

    The default cluster is left out, as `ackbench setup` prepares it.

    Raises:
        MachineError: jars or libraries cannot be downloaded from here, or a program that building
            an adapter needs is missing.
        ClientLibraryError: a library in the cache is not the one that was fetched, or an adapter
            could not be built.
        HarnessError: a program of Kafka's failed.
    """
    default = (ClusterSpec.kafka_version, ClusterSpec.coordination)
    needs = {repr(trial.cluster): trial.cluster for trial in planned.trials}
    load = partial(hold_machine_lock_for_command, home, "set-up of Kafka", notify)
    for trial in planned.trials:
        if traits_of(trial.client).is_program:
            if not trial.client_command:
                built_command(home.cache, trial.client, trial.client_version, notify)
        elif not traits_of(trial.client).comes_with_kafka:
            if trial.client_version:
                library_version(home.cache, trial.client_version)
        elif trial.client_version or not trial.cluster.traits.planned:
            if not has_cached_jars(home.cache, trial.java_version):
                notify(f"fetching the jars of Kafka {trial.java_version} (once; about a minute)")
            kafka_jars(home.cache, trial.java_version)
    for need in needs.values():
        if need.traits.started_here and (need.kafka_version, need.coordination) != default:
            ensure_kafka_ready(home.cache, need.spec(), notify, load)


def _discard(_line: str) -> None:
    return


def _write_folder(home: Home, experiment: Experiment, planned: Plan) -> SweepFolder:
    sweep = SweepFolder(home.sweeps / planned.sweep_id)
    sweep.root.mkdir(parents=True)
    replace_file(sweep.experiment_yaml, experiment.to_yaml())
    sweep.write_plan(planned)
    mark_as_own(home, sweep)
    brokers = {
        trial.cluster.kafka_version for trial in planned.trials if trial.cluster.traits.started_here
    }
    clients = {
        trial.client_version
        for trial in planned.trials
        if trial.client_version and traits_of(trial.client).comes_with_kafka
    }
    for version in brokers | clients:
        checksums = unverified_checksums(home.cache, version)
        if checksums:
            shutil.copyfile(checksums, sweep.root / f"kafka-{version}.unverified.sha256")
    return sweep


@contextmanager
def _errors_with_source(source: str) -> Iterator[None]:
    """Start the message of every input error with the name of the experiment or its file."""
    try:
        yield
    except InputError as error:
        raise ExperimentError(f"{source}: {error}") from error
