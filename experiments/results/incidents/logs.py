"""All log files of an incident, read in one pass each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from ackbench.experiments.results.incidents.lines import LogFile
from ackbench.experiments.results.incidents.sightings import (
    Kind,
    ReadLog,
    Sighting,
    node_named_in,
    of_node,
    role_named_in,
    sightings_of,
)

_STEP_S: Final = 0.5
_HEAD_BYTES: Final = 200_000
"""A log has a line with a moment within so many."""
_BOUND_LINES: Final = 500
"""A log that named no node in so many lines is a client's."""
_STATE: Final = frozenset(
    {Kind.VERSION, Kind.NEW_CONTROLLER, Kind.NEW_LEADER, Kind.ISR, Kind.DELETED_TOPIC}
)
"""What still holds when the window begins."""
MOST_SIGHTINGS: Final = 200_000
"""Of one file; later ones are left out, and it is said."""


@dataclass(frozen=True)
class Window:
    """The time in question; `None`: open."""

    begin_s: float | None = None
    end_s: float | None = None

    def has(self, at_s: float) -> bool:
        """Return whether a moment is in it."""
        return (self.begin_s is None or at_s >= self.begin_s) and not self.is_over(at_s)

    def is_over(self, at_s: float) -> bool:
        """Return whether a moment is after it."""
        return self.end_s is not None and at_s > self.end_s


def is_log(path: Path) -> bool:
    """Return whether a file has lines with moments: it is a log, and no configuration.

    Raises:
        InputError: it cannot be read, or is compressed; one line.
    """
    return next(LogFile(path).read(most_bytes=_HEAD_BYTES), None) is not None


def read_log(path: Path, window: Window, zone: timedelta = timedelta()) -> ReadLog:
    """Return what a log file says within a window.

    Args:
        path: the file.
        window: the time in question. Who led what before it is read too, and of the whole file
            what a node is and which settings it printed.
        zone: how far moments without a time zone are ahead of UTC.

    Raises:
        InputError: it cannot be read, or is no text; one line.
    """
    file = LogFile(path)
    node: int | None = None
    found: list[Sighting] = []
    moments: list[float] = []
    roles: set[str] = set()
    lines = file.read(zone)
    for line in lines:
        if node is None and line.number <= _BOUND_LINES:
            node = node_named_in(line.text)
        if len(roles) < 2 and (role := role_named_in(line.text)):  # noqa: PLR2004 - all there are
            roles.add(role)
        sighting = sightings_of(line, f"{file.name}:{line.number}", node)
        inside = window.has(line.at_s)
        if sighting and (inside or (sighting.kind in _STATE and not window.is_over(line.at_s))):
            found.append(sighting)
        if inside and (not moments or line.at_s - moments[-1] >= _STEP_S):
            moments.append(line.at_s)
        elif not inside and not window.is_over(line.at_s):
            moments[:] = [line.at_s]
        if len(found) >= MOST_SIGHTINGS:
            break
    lines.close()
    if node is not None:
        found = list(of_node(found, node))
    found.sort(key=lambda one: one.at_s)
    return ReadLog(file, node, tuple(found), tuple(sorted(moments)), frozenset(roles))


def read_logs(
    paths: Sequence[Path], window: Window, zone: timedelta = timedelta()
) -> tuple[ReadLog, ...]:
    """Return what each log file says."""
    return tuple(read_log(path, window, zone) for path in paths)
