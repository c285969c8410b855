"""Start-up caches: ahead-of-time (AOT) caches of JVM programs (JEP 483, 514, 515).

A cache holds classes that an earlier run has parsed, linked and profiled. It is valid for one JVM,
class path and set of flags; otherwise the JVM ignores it and starts slowly. So the file's name
contains a digest of all three: if one of them changes, no file has the new name, and a new cache is
created.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.jvm.runtime import java_home, supports_startup_caches
from ackbench.infra.machine.files import exclusive_lock, move_into_place
from ackbench.infra.process.waiting import wait_until

_WRITE_TIMEOUT_S: Final = 180.0


@dataclass(frozen=True)
class StartupCache:
    """The start-up cache of one program, whether it exists or not."""

    name: str
    file: Path
    supported: bool
    """Whether the JVM can create such caches; if not, there are no options and no file."""

    @property
    def is_ready(self) -> bool:
        """Whether nothing is to be created: the file exists, or the JVM does not support caches."""
        return not self.supported or self.file.is_file()

    @property
    def options(self) -> tuple[str, ...]:
        """The JVM options that use the cache; none if it does not exist.

        A JVM that finds the cache invalid starts without it (AOTMode=auto).
        """
        return (f"-XX:AOTCache={self.file}",) if self.supported and self.file.is_file() else ()

    @contextmanager
    def training(self, write_timeout_s: float = _WRITE_TIMEOUT_S) -> Iterator[tuple[str, ...]]:
        """Yield the JVM options for a training run, and then install the cache that it wrote.

        Within the context, run the program once with these options, and let it exit cleanly (on
        its own or by SIGTERM), as the JVM writes the cache only then. Caches of the same program
        for other JVMs, class paths or flags are removed.

        Args:
            write_timeout_s: how long the JVM may take to write, from the end of the context.

        Raises:
            WaitTimeout: no cache was written.
        """
        partial = self.file.with_name(f".{self.file.name}.partial")
        with exclusive_lock(self.file.with_name(self.name)):
            for leftover in (partial, _recording(partial)):
                leftover.unlink(missing_ok=True)
            yield (f"-XX:AOTCacheOutput={partial}",) if self.supported else ()
            if self.supported:
                self._install(partial, write_timeout_s)

    def _install(self, partial: Path, write_timeout_s: float) -> None:
        """Wait until the cache is complete: the JVM then removes its recording (JEP 514)."""
        awaiting = f"the start-up cache of {self.name}"
        wait_until(
            lambda: partial.is_file() and not _recording(partial).exists(),
            awaiting=awaiting,
            timeout_s=write_timeout_s,
        )
        if partial.stat().st_size == 0:
            raise WaitTimeout(f"{awaiting} was written empty")
        for outdated in self.file.parent.glob(f"{self.name}-*.aot"):
            outdated.unlink()
        move_into_place(partial, self.file)


def startup_cache(
    cache: Path, name: str, class_path: Iterable[Path], options: Sequence[str]
) -> StartupCache:
    """Return the start-up cache of a program; reads only the sizes and times of its jars.

    Args:
        cache: the home's cache folder.
        name: of the program, for the file's name.
        class_path: its jars, in order.
        options: its JVM options, without those of the cache.
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

    Pass its options to `spark.driver.extraJavaOptions` through `quote_java_options`, because its
    path can contain spaces.

    Args:
        cache: the home's cache folder.
        java_options: the driver's JVM options, without those of the cache.
    """
    import pyspark

    jars = sorted(Path(pyspark.__file__).parent.glob("jars/*.jar"))
    return startup_cache(cache, "spark", jars, java_options)


def quote_java_options(options: Iterable[str]) -> str:
    """Return options as one text that Spark's launcher splits into the same options.

    The rules are those of `CommandBuilderUtils.parseOptionString`.
    """
    return " ".join(
        '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"' for option in options
    )


def _recording(partial: Path) -> Path:
    return partial.with_name(partial.name + ".config")


def _stamp(path: Path) -> str:
    """Return what the JVM validates a cache with: a file's path, size and modification time.

    The time is in entire seconds, as the JVM compares it: archives of container images keep no
    more, and an unpacked image would have no valid cache.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return f"{path} is missing"
    return f"{path} {status.st_size} {int(status.st_mtime)}"
