"""Resolve the jars of a Kafka version with jgo, a resolver of Maven's repositories, and fetch them.

A process of its own, because the packages below jgo read which certificates to trust from the
environment of their process, and because a download that hangs can then be ended.
"""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ackbench.infra.kafka.versions import uses_log4j2

if TYPE_CHECKING:
    from jgo.maven import Dependency

_KAFKA: Final = ("org.apache.kafka:kafka_2.13:{}", "org.apache.kafka:kafka-tools:{}")
"""The roots: a broker, and its command-line tools."""
_LEFT_OUT: Final = (("org.apache.kafka", "connect-runtime"), ("org.slf4j", "slf4j-log4j12"))
"""Only for the tools of Kafka Connect, with a web server behind it; and a module that has moved.

Maven and Ivy follow the latter to `slf4j-reload4j`, which is the binding of these versions.
"""
_LOG4J2: Final = (
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",  # not log4j-slf4j2-impl
    "org.apache.logging.log4j:log4j-core:2.25.4",
    "org.apache.logging.log4j:log4j-api:2.25.4",
)
_LOG4J: Final = ("org.slf4j:slf4j-reload4j:1.7.36",)
"""Kafka logs through slf4j 1.7 and leaves the binding to its distribution."""
_USED: Final = (None, "compile", "runtime")
"""Scopes of what is needed to run."""
_AT_ONCE: Final = 8
"""Downloads."""
_ANSWER_TIMEOUT_S: Final = 30


def resolve(version: str, repository: Path) -> dict[str, Dependency]:
    """Return what the version needs, by `artifact-version.jar`.

    The binding of the log is resolved apart: jgo takes what it manages for the versions of all. Of
    two versions of a module the later one is used.

    Args:
        version: of Kafka.
        repository: a folder for what is fetched.

    Raises:
        Exception: whatever jgo raises if something is missing or cannot be fetched.
    """
    from jgo.maven import MavenContext, compare_versions

    context = MavenContext(repo_cache=repository, timeout=_ANSWER_TIMEOUT_S)
    excluded = [context.project(*one) for one in _LEFT_OUT]
    needed: dict[tuple[str, str, str], Dependency] = {}
    binding = _LOG4J2 if uses_log4j2(version) else _LOG4J
    for coordinates in ([one.format(version) for one in _KAFKA], binding):
        roots = [context.create_dependency(one, exclusions=excluded) for one in coordinates]
        inputs, others = context.resolver.resolve(roots)
        for dependency in (*inputs, *others):
            if dependency.scope in _USED:
                key = (dependency.groupId, dependency.artifactId, dependency.classifier)
                other = needed.get(key)
                if other is None or compare_versions(other.version, dependency.version) < 0:
                    needed[key] = dependency
    return {one.artifact.filename: one for one in needed.values()}


def fetch(version: str, folder: Path, repository: Path) -> None:
    """Fetch the jars into a new folder.

    Raises:
        Exception: as `resolve`.
    """
    jars = resolve(version, repository)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        paths = list(pool.map(lambda one: one.artifact.resolve(), jars.values()))
    folder.mkdir()
    for name, path in zip(jars, paths, strict=True):
        shutil.move(path, folder / name)


def main(version: str, folder: str, repository: str) -> None:
    """Fetch the jars; the last line of standard error says why it failed."""
    try:
        fetch(version, Path(folder), Path(repository))
    except Exception as error:  # noqa: BLE001 - jgo has no base of its errors
        sys.exit(f"{type(error).__name__}: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main(*sys.argv[1:])
