"""Ahead-of-time caches of JVM programs: classes parsed, linked and profiled by an earlier run (JEP 483, 514, 515).

A cache is bound to the JVM, the class path and some flags; a JVM that finds another one goes on without it, and slowly. So the
file's name holds a digest of all three: where any of them changes, the file that is looked for does not exist, and is made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.errors import WaitTimeout
from infra.jvm.runtime import java_home, supports_startup_caches
from infra.machine.files import exclusive_lock
from infra.process.waiting import wait_until

_DUMP_TIMEOUT_S: Final = 180.0


@dataclass(frozen=True)
class StartupCache:
    """One program's cache: how to make it, and how to use it."""

    name: str
    file: Path
    supported: bool
    """Whether the JVM makes such caches; where it does not, there are no options and nothing is ever made."""

    @property
    def fresh(self) -> bool:
        """Whether there is nothing to do: it was made for this JVM, class path and flags, or cannot be."""
        return not self.supported or self.file.is_file()

    @property
    def options(self) -> tuple[str, ...]:
        """JVM options that use it; none while it is not there. Where the JVM finds it unfit, it starts without (AOTMode=auto)."""
        return (f"-XX:AOTCache={self.file}",) if self.supported and self.file.is_file() else ()

    @contextmanager
    def training(self, dump_timeout_s: float = _DUMP_TIMEOUT_S) -> Iterator[tuple[str, ...]]:
        """Give the JVM options of a run to learn from, and keep what it learned.

        Within the context, run the program with them once and have it end cleanly (SIGTERM, or its own end): only then is the
        cache written. Caches of the same name for another JVM, class path or flags are removed.

        Args:
            dump_timeout_s: how long the JVM may take over writing, from the end of the context on.

        Raises:
            WaitTimeout: no cache was written.
        """
        partial = self.file.with_name(f".{self.file.name}.partial")
        with exclusive_lock(self.file.with_name(self.name)):
            for remains in (partial, _recording(partial)):
                remains.unlink(missing_ok=True)
            yield (f"-XX:AOTCacheOutput={partial}",) if self.supported else ()
            if self.supported:
                self._keep(partial, dump_timeout_s)

    def _keep(self, partial: Path, dump_timeout_s: float) -> None:
        """The JVM records into a file beside it and removes that once the cache is whole (JEP 514)."""
        awaiting = f"the start-up cache of {self.name}"
        wait_until(
            lambda: partial.is_file() and not _recording(partial).exists(),
            awaiting=awaiting,
            timeout_s=dump_timeout_s,
        )
        if partial.stat().st_size == 0:
            raise WaitTimeout(f"{awaiting} was written empty")
        for former in self.file.parent.glob(f"{self.name}-*.aot"):
            former.unlink()
        partial.replace(self.file)


def startup_cache(
    cache: Path, name: str, class_path: Iterable[Path], options: Sequence[str]
) -> StartupCache:
    """Return the cache of a program, made or not; reads no more than the files' sizes and times.

    Args:
        cache: the home's cache folder.
        name: the program's, for the file.
        class_path: its jars, in order.
        options: its JVM options, all but those of the cache.
    """
    home = java_home()
    jvm = [home / "release", home / "lib" / "modules"]
    stamps = [_stamp(path) for path in (*jvm, *class_path)]
    key = hashlib.sha256("\0".join([str(home), *stamps, *options]).encode()).hexdigest()[:16]
    return StartupCache(
        name, cache / "startup" / f"{name}-{key}.aot", supports_startup_caches(home)
    )


def spark_startup_cache(cache: Path, java_options: Sequence[str]) -> StartupCache:
    """Return the start-up cache of a Spark driver.

    Its options go into `spark.driver.extraJavaOptions` through `option_text`, for its own path may hold spaces.

    Args:
        cache: the home's cache folder.
        java_options: the driver's JVM options, all but those of the cache.
    """
    import pyspark

    return startup_cache(
        cache, "spark", sorted(Path(pyspark.__file__).parent.glob("jars/*.jar")), java_options
    )


def quote_java_options(options: Iterable[str]) -> str:
    """Return JVM options as Spark's launcher parts them again (`CommandBuilderUtils.parseOptionString`)."""
    return " ".join(
        '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"' for option in options
    )


def _recording(partial: Path) -> Path:
    return partial.with_name(partial.name + ".config")


def _stamp(path: Path) -> str:
    """What the JVM itself holds a cache against: a file's place, size and time."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return f"{path} is missing"
    return f"{path} {found.st_size} {found.st_mtime_ns}"
