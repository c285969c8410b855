"""The home folder, which holds all files that are written.

`ACKBENCH_HOME` names it; by default it is the clone's `.ackbench/`, or without a clone the folder
`ackbench` of the user's data (XDG Base Directory Specification).
"""

from __future__ import annotations

import os
import pwd
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

from ackbench.infra.errors import MachineError
from ackbench.infra.machine.paths import user_path

REPOSITORY = Path(__file__).resolve().parents[2]
"""The folder that holds `dags` and `infra`: a clone, or the package `ackbench` of site-packages."""
CLONE: Final = REPOSITORY if (REPOSITORY / "requirements" / "lock.txt").is_file() else None
"""The clone of the project that this code runs from; `None`: it is installed from a wheel."""


def _installing(extra: str) -> str:
    """Return the command that installs what an extra has, from where this package came from."""
    return "make setup" if CLONE else f"pip install 'ackbench[{extra}]{_source()}'"


def _source() -> str:
    """Return the rest of a requirement on the same file; empty: it is of a registry (PEP 610)."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        origin = json.loads(distribution("ackbench").read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return ""
    return f" @ {origin['url']}" if "url" in origin else ""


INSTALL: Final = _installing("run")
INSTALL_READ: Final = _installing("read")
INSTALL_CLUSTER: Final = _installing("cluster")
"""The remedies for a package that is missing or damaged, of sweeps and of brokers."""
MAX_ROOT_BYTES: Final = 2000
"""The longest path of a home: Linux allows 4,096 bytes, and Airflow's logs are deep below it."""
_FOLDERS: Final = (
    "sweeps",
    "tours",
    "clusters",
    "cache",
    "published",
    "airflow",
    "mlflow",
    "logs",
    "runs",
    "external",
    "index",
    "live",
)
_REMEDY: Final = "set ACKBENCH_HOME to a writable folder"
PRIVATE_FOLDER: Final = 0o700
"""Permission bits of every folder in the home."""
_OTHERS: Final = 0o077
SET_UP_FILE: Final = "set-up.json"
"""Which version of ackbench has set up a home."""
PLAN_KEY: Final = "plan.key"
"""The key with which a home marks the plans that it has made."""
_CONTENT: Final = {*_FOLDERS, "machine.lock", "up.json", "up.lock", SET_UP_FILE, PLAN_KEY}
"""Names in a home; a folder that has content and none of these is not one."""


@dataclass(frozen=True)
class Home:
    """Paths below the home folder. Creating a `Home` writes nothing."""

    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home that `ACKBENCH_HOME` names, or the default one. It need not exist yet.

        Raises:
            InputError: it is no folder, or cannot be read.
            MachineError: no home is named, there is no clone, and the user has no home folder.
        """
        named = os.environ.get("ACKBENCH_HOME")
        home = cls(user_path(named).resolve() if named else default_root(CLONE, os.environ))
        home.require_readable()
        return home

    @property
    def sweeps(self) -> Path:
        """One folder per sweep: the data from which everything else can be computed again."""
        return self.root / "sweeps"

    @property
    def tours(self) -> Path:
        """One folder per tour: which sweep answered which lesson, and the HTML page."""
        return self.root / "tours"

    @property
    def index(self) -> Path:
        """One summary per sweep, also of pruned ones; those of other sweeps are made again."""
        return self.root / "index"

    @property
    def clusters(self) -> Path:
        """One folder per cluster: handle, supervisor socket and log, node data and node logs."""
        return self.root / "clusters"

    @property
    def external(self) -> Path:
        """One folder per sweep that may have topics in an external cluster, or a heal to run."""
        return self.root / "external"

    @property
    def cache(self) -> Path:
        """Jars, JVM startup caches and compiled code; deleted content is made again by set-up.

        A link to another home's cache is followed: the JVM uses a start-up cache only with the
        paths that it was trained with.
        """
        return (self.root / "cache").resolve()

    @property
    def published(self) -> Path:
        """Copies of the small files of published sweeps; deleted content is fetched again."""
        return self.root / "published"

    @property
    def airflow(self) -> Path:
        """Airflow's home: its database, configuration and logs."""
        return self.root / "airflow"

    @property
    def mlflow(self) -> Path:
        """The embedded MLflow store: `mlflow.db` and `artifacts/`."""
        return self.root / "mlflow"

    @property
    def logs(self) -> Path:
        """The output of Airflow, Spark, librdkafka and MLflow, one folder per run."""
        return self.root / "logs"

    def service_log(self, service: str) -> Path:
        """Return the log of a service of `ackbench up`: `scheduler`, `mlflow`, ..."""
        return self.service_logs / f"{service}.log"

    @property
    def service_logs(self) -> Path:
        """The output of the services of `ackbench up`, one file each."""
        return self.logs / "up"

    def require_readable(self) -> None:
        """Check that the home is a folder that can be read, if it exists.

        Raises:
            MachineError: it is something else, cannot be read, or has a path that is too long.
        """
        size = len(os.fsencode(self.root))
        if size > MAX_ROOT_BYTES:
            raise MachineError(
                f"the path of the home folder has {size:,} bytes; allowed: at most "
                f"{MAX_ROOT_BYTES:,}: {_REMEDY}"
            )
        try:
            mode = self.root.stat().st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            raise MachineError(
                f"the home folder {self.root} cannot be read ({error.strerror}): {_REMEDY}"
            ) from error
        if not stat.S_ISDIR(mode):
            raise MachineError(f"the home folder {self.root} is no folder: {_REMEDY}")
        self._require_access(os.R_OK | os.X_OK, "cannot be read")

    def ensure_writable(self) -> None:
        """Create the home where it is missing, and check that it is private and can be written.

        A home that others may enter was made by an earlier version, or its mode was changed: it
        and all in it become the owner's alone.

        Raises:
            MachineError: it cannot be created or written, is another user's, or is a folder with
                other content.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
            status, names = self.root.stat(), {path.name for path in self.root.iterdir()}
        except OSError as error:
            raise MachineError(
                f"cannot create the home folder {self.root} ({error.strerror}): {_REMEDY}"
            ) from error
        if names and not names & _CONTENT:
            raise MachineError(
                f"{self.root} is not a home of ackbench, as it has other content "
                f"({min(names)}): set ACKBENCH_HOME to a new or empty folder"
            )
        if status.st_uid != os.geteuid():
            _report_owner(self.root, status.st_uid)
        elif status.st_mode & _OTHERS:
            _make_private(self.root)
        self._require_access(os.R_OK | os.W_OK | os.X_OK, "is not writable")

    def _require_access(self, mode: int, refusal: str) -> None:
        """Check the home and the folders in it that exist; a file in a folder's place is refused.

        Raises:
            MachineError: this user has no such access to one of them, or it is no folder.
        """
        for folder in (self.root, *(self.root / name for name in _FOLDERS)):
            if folder.exists() and not folder.is_dir():
                raise MachineError(f"{folder} is no folder: move it away, or {_REMEDY}")
            if folder.exists() and not os.access(folder, mode):
                raise MachineError(f"the home folder {folder} {refusal}: {_REMEDY}")


class HomeMoved(MachineError):
    """The folder of a home that is in use was moved, or deleted."""

    def __init__(self, home: Home, moved: Home) -> None:
        self.moved = moved
        """The home under its new name."""
        super().__init__(
            f"the home folder {home.root} was moved to {moved.root} while it was in use: move it "
            "back, or set ACKBENCH_HOME to its new name"
        )


class HeldHome:
    """A home while a process uses it: notices that its folder was moved, or deleted.

    The descriptor follows the folder to its new name, which procfs then shows (proc_pid_fd(5)).
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._descriptor = os.open(home.root, os.O_PATH | os.O_DIRECTORY)

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def require_unmoved(self) -> None:
        """Check that the folder has the name that processes were started with.

        Raises:
            HomeMoved: it has another name, or was deleted.
        """
        held = os.fstat(self._descriptor)
        with suppress(OSError):
            if os.path.samestat(self._home.root.stat(), held):
                return
        raise HomeMoved(self._home, Home(Path(f"/proc/self/fd/{self._descriptor}").readlink()))


def default_root(clone: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the home of those who name none: the clone's own, or one in the user's data folder.

    Args:
        clone: the clone that this code runs from; `None`: it is installed from a wheel.
        environment: has `XDG_DATA_HOME`; a relative path in it does not count, by XDG's
            specification.

    Raises:
        MachineError: there is no clone, and the user has no home folder.
    """
    if clone:
        return clone / ".ackbench"
    data = environment.get("XDG_DATA_HOME", "")
    if data.startswith("/"):
        return Path(data, "ackbench").resolve()
    try:
        return Path.home().resolve() / ".local" / "share" / "ackbench"
    except RuntimeError:
        raise MachineError(
            f"user {os.geteuid()} has no home folder, and XDG_DATA_HOME is not set: {_REMEDY}"
        ) from None


def keep_files_private() -> None:
    """Let what this process and its children create be the owner's alone, whatever the umask.

    Each program of ackbench calls this first. A umask is inherited, also by JVMs.
    """
    os.umask(_OTHERS)


@cache
def _report_owner(root: Path, owner: int) -> None:
    """Refuse the home of another user, who controls what is run from it; warn root, once."""
    text = (
        f"the home folder {root} belongs to {_user_name(owner)}, not to {_user_name(os.geteuid())}"
    )
    remedy = "set ACKBENCH_HOME to a folder of your own"
    if os.geteuid() != 0:
        raise MachineError(f"{text}: {remedy}")
    sys.stderr.write(f"warning: {text}, who can change what is run from it: {remedy}\n")


def _user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:
        return f"user {user_id}"


def _make_private(root: Path) -> None:
    """Remove the permissions of all others from a folder, which comes first, and all in it.

    Links are not followed. What another process removes meanwhile is skipped.
    """
    folders = [root]
    while folders:
        folder = folders.pop()
        with suppress(OSError):
            folder.chmod(folder.stat().st_mode & PRIVATE_FOLDER)
            for entry in os.scandir(folder):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif not entry.is_symlink():
                    Path(entry.path).chmod(entry.stat().st_mode & PRIVATE_FOLDER)
