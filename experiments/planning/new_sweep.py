"""A sweep before it runs: planned, found possible on this machine, and written into its folder."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from experiments.clients.settings.security import connection_settings, register_security
from experiments.errors import ExperimentError, LedgerError, UnknownName
from experiments.faults.composition.composite import require_fault_capabilities
from experiments.messages.phrases import did_you_mean, format_value
from experiments.planning.capacity import needs_of
from experiments.planning.experiment import Experiment
from experiments.planning.overrides import Overrides, versions_asked_for
from experiments.planning.planner import load, override, plan
from experiments.planning.properties.extraction import ensure_version_known
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan
from infra.cluster.setup import ensure_kafka_ready
from infra.errors import InputError
from infra.kafka.jars import unverified_checksums
from infra.kafka.spec import ClusterSpec
from infra.machine.home import Home
from infra.machine.resources import require, this_machine

Say = Callable[[str], None]
_SWEEP_ID = re.compile(r"^(?P<experiment>.+)-(?P<at>\d{8}T\d{6})-[0-9a-f]{4}$")


def new_sweep(
    home: Home, name_or_file: str, overrides: Overrides | None = None, say: Say | None = None
) -> SweepFolder:
    """Plan a sweep and write its folder: `experiment.yaml` as resolved, and `plan.json`. Nothing is started.

    Args:
        home: where the sweep will lie.
        name_or_file: an experiment of the catalogue, or a file.
        overrides: what is to be other than the experiment has it.
        say: tells a person what takes long, and has jars and start-up caches made now; `None`: they are made when they are first needed.

    Raises:
        InputError: the experiment, a wish or this machine does not allow it; one line.
        HarnessError: a program of Kafka's could not be run.
    """
    home.ensure_writable()
    overrides = overrides or Overrides()
    asked = load(name_or_file)
    with _said_of(name_or_file):
        for version in (
            *versions_asked_for(asked),
            *map(str, overrides.axes.get("kafka.version", ())),
        ):
            ensure_version_known(home, version, say or _say_nothing)
    experiment = override(asked, overrides)
    planned = planned_as(experiment, new_sweep_id(experiment.name), source=name_or_file)
    if experiment.cluster == "external":
        planned = reached(experiment, planned, source=name_or_file)
    check_machine(planned, home)
    if say:
        make_ready(planned, home, say)
    return _written(home, experiment, planned)


def planned_as(experiment: Experiment, sweep_id: str, source: str) -> Plan:
    """Return the plan; what is wrong with it is said with the name of the file or experiment.

    Raises:
        ExperimentError: as `experiments.planning.plan`, with the source in front.
    """
    with _said_of(source):
        return plan(experiment, sweep_id)


def reached(experiment: Experiment, planned: Plan, source: str) -> Plan:
    """Return the plan for an external cluster as it is found: with its brokers, and what they are set to.

    Raises:
        InputError: it cannot be reached, or does not take us; with librdkafka's own reason.
        ExperimentError: the experiment does not fit to its brokers.
    """
    from infra.cluster.external import reach

    with _said_of(source):
        need = planned.trials[0].cluster
        register_security(str(need.external), need.security)
        found = reach(connection_settings(str(need.external)))
    planned = planned_as(
        experiment.model_copy(update={"nodes": len(found.brokers)}), planned.sweep_id, source
    )
    clusters = (
        trial.cluster.model_copy(update={"broker": dict(found.settings)})
        for trial in planned.trials
    )
    trials = tuple(
        trial.model_copy(update={"cluster": cluster})
        for trial, cluster in zip(planned.trials, clusters, strict=True)
    )
    return planned.model_copy(update={"trials": trials})


def check_machine(planned: Plan, home: Home) -> None:
    """See that this machine has the memory and the disk, and the means of every fault.

    Raises:
        MachineError: it has not.
    """
    for fault in {trial.fault.kind: trial.fault for trial in planned.trials}.values():
        require_fault_capabilities(fault)
    needs = needs_of(planned)
    require(
        this_machine(home.root),
        memory_bytes=needs.memory_bytes,
        disk_bytes=needs.disk_bytes,
        purpose=f"a sweep of {len(planned.trials)} trials",
    )


def make_ready(planned: Plan, home: Home, say: Say) -> None:
    """Have the jars and the start-up caches of the kinds of cluster that a plan's trials need, set-up's own apart; costs nothing where they are there.

    Raises:
        MachineError: jars cannot be had from here.
        HarnessError: a program of Kafka's could not be run.
    """
    for need in {
        trial.cluster.model_dump_json(): trial.cluster for trial in planned.trials
    }.values():
        if not need.external and (need.kafka_version, need.coordination) != (
            ClusterSpec.kafka_version,
            ClusterSpec.coordination,
        ):
            ensure_kafka_ready(home.cache, need.spec(), say)


def _say_nothing(_text: str) -> None:
    return


def new_sweep_id(experiment: str) -> str:
    """Return `<experiment>-<UTC yyyymmddThhmmss>-<4 hex>`: sorts by time, and two of one second differ."""
    return f"{experiment}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def sweeps(home: Home) -> tuple[SweepFolder, ...]:
    """Return all sweeps, the newest first."""
    found = [path.parent for path in home.sweeps.glob("*/plan.json")]
    return tuple(SweepFolder(path) for path in sorted(found, key=_made_at, reverse=True))


def find_sweep(home: Home, named: str | None) -> SweepFolder:
    """Return the sweep of that name or folder, or an experiment's newest; the newest of all when none is named.

    Raises:
        UnknownName: there is none.
    """
    known = sweeps(home)
    if named is None:
        if not known:
            raise UnknownName(f"no sweep in {home.sweeps} yet: begin with `ackbench run quick`")
        return known[0]
    if "/" in named and (Path(named) / "plan.json").is_file():
        return SweepFolder(Path(named).resolve())
    for sweep in known:
        if named in {sweep.sweep_id, _experiment_of(sweep)}:
            return sweep
    raise UnknownName(
        f"unknown sweep {named}{did_you_mean(named, [sweep.sweep_id for sweep in known])} (in {home.sweeps})"
    )


def own_sweep(home: Home, sweep_id: str) -> SweepFolder:
    """Return the sweep of that id below this home, for a command that deletes: no other folder, no link, and nothing but a valid sweep.

    Args:
        home: whose sweep it is.
        sweep_id: the whole id; neither a path nor an experiment's name.

    Raises:
        UnknownName: this home has no such sweep.
        LedgerError: its plan is cut short, of another version, or another sweep's.
    """
    if sweep_id not in {sweep.sweep_id for sweep in sweeps(home)}:
        raise UnknownName(
            f"no sweep has the id {format_value(sweep_id)} below {home.sweeps}: `ackbench show` names the newest"
        )
    sweep = SweepFolder(home.sweeps / sweep_id)
    if sweep.root.is_symlink():
        raise UnknownName(f"{sweep.root} is a link: nothing is deleted through it")
    if sweep.plan().sweep_id != sweep_id:
        raise LedgerError(
            f"{sweep.root / 'plan.json'} is the plan of sweep {sweep.plan().sweep_id}: delete the folder by hand if it is not needed"
        )
    return sweep


def _written(home: Home, experiment: Experiment, planned: Plan) -> SweepFolder:
    sweep = SweepFolder(home.sweeps / planned.sweep_id)
    sweep.root.mkdir(parents=True)
    sweep.experiment_yaml.write_text(experiment.to_yaml(), encoding="utf-8")
    sweep.write_plan(planned)
    for version in {
        trial.cluster.kafka_version for trial in planned.trials if not trial.cluster.external
    }:
        unverified = unverified_checksums(home.cache, version)
        if unverified:
            shutil.copyfile(unverified, sweep.root / f"kafka-{version}.unverified.sha256")
    return sweep


def _experiment_of(sweep: SweepFolder) -> str | None:
    found = _SWEEP_ID.match(sweep.sweep_id)
    return found["experiment"] if found else None


def _made_at(folder: Path) -> tuple[str, float]:
    found = _SWEEP_ID.match(folder.name)
    made_s = (folder / "plan.json").stat().st_mtime
    return (
        found["at"] if found else f"{datetime.fromtimestamp(made_s, UTC):%Y%m%dT%H%M%S}"
    ), made_s


@contextmanager
def _said_of(source: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise ExperimentError(f"{source}: {error}") from error
