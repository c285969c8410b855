"""What is known of a version that we ship no file for: asked from its own jars once, and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable

from experiments.properties.known import kept_file, versions
from infra.home import Home
from infra.jars import are_kafka_jars_there, kafka_jars, unverified_list
from infra.versions import numbers_of


def ensure_version_known(home: Home, version: str, say: Callable[[str], None]) -> None:
    """Make the version one of `versions()`; costs nothing where it is.

    Args:
        home: in whose cache its jars and what they say are kept.
        version: Kafka's.
        say: tells a person what takes long, and that nobody verified the jars.

    Raises:
        InputError: that is no version, or one before 3.9.
        MachineError: its jars cannot be had from here.
    """
    if version in versions(home):
        return
    numbers_of(version)
    if not are_kafka_jars_there(home.cache, version):
        say(f"fetching the jars of Kafka {version} (once; about a minute)")
    kafka_jars(home.cache, version)
    say(f"Kafka {version} is none of the versions that we verified: its jars' digests were written to {unverified_list(home.cache, version)}")
    _keep(home, version)


def _keep(home: Home, version: str) -> None:
    from experiments.properties.extract import extracted

    path = kept_file(home, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(extracted(home.cache, version).model_dump_json(indent=1))
    partial.replace(path)
