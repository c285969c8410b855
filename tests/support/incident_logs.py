"""Logs of each kind of fault, as brokers wrote them: `python -m support.incident_logs HOME SWEEP`.

The sweep is that of `incident_kinds.yaml`, a trial for each kind of fault. Of its logs the archive
has what was written around each trial, with the lines before it that say which node is what.
"""

from __future__ import annotations

import io
import json
import lzma
import re
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.archives import unpack_archive

from ackbench.experiments.results.incidents.lines import LogFile
from ackbench.experiments.results.incidents.logs import Window
from ackbench.experiments.results.incidents.sightings import (
    Kind,
    node_named_in,
    role_named_in,
    sightings_of,
)

ARCHIVE: Final = Path(__file__).with_name("incident_logs.tar.xz")
BEFORE_S: Final = 1.0
"""The time in question begins so long before the load."""
_CONTEXT_S: Final = 10.0
_AFTER_S: Final = 2.0
_KEPT_SETTINGS: Final = "leader-crash"
"""The one kind whose logs keep the settings that brokers print when they start."""


@dataclass(frozen=True)
class StoredIncident:
    """The logs of one trial."""

    fault: str
    topic: str
    window: Window
    folder: Path

    @property
    def logs(self) -> list[Path]:
        """One file for each node."""
        return sorted(self.folder.glob("*.log"))


def unpack(folder: Path) -> tuple[StoredIncident, ...]:
    """Unpack the archive into a folder and return what it has, by fault."""
    unpack_archive(ARCHIVE, folder)
    found = []
    for file in sorted(folder.glob("*/trial.json")):
        trial = json.loads(file.read_text())
        window = Window(trial["begin_s"], trial["end_s"])
        found.append(StoredIncident(trial["fault"], trial["topic"], window, file.parent))
    return tuple(found)


def store(home: Path, sweep: str) -> None:
    """Write the archive from the logs of a sweep."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for record in sorted((home / "sweeps" / sweep).glob("trials/*/trial.json")):
            trial = json.loads(record.read_text())
            for name, text in _files(home, sweep, trial).items():
                data = text.encode()
                entry = tarfile.TarInfo(f"{trial['cell']['fault']}/{name}")
                entry.size, entry.mode = len(data), 0o600
                tar.addfile(entry, io.BytesIO(data))
    ARCHIVE.write_bytes(lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def _files(home: Path, sweep: str, trial: dict[str, object]) -> dict[str, str]:
    phases, cell = trial["phases"], trial["cell"]
    assert isinstance(phases, dict)
    assert isinstance(cell, dict)
    begin_s, end_s = phases["load_begin_ns"] / 1e9, phases["healthy_ns"] / 1e9
    topic, fault = f"trial-{trial['trial_id']}", str(cell["fault"])
    for cluster in sorted((home / "clusters").glob(f"{sweep}.*")):
        logs = sorted(cluster.glob("nodes/*/node.log"))
        parts = {
            f"{log.parent.name}.log": "\n".join(
                _part(log, begin_s, end_s, with_settings=fault == _KEPT_SETTINGS)
            )
            .replace(str(cluster), "/var/lib/kafka")
            .replace(str(home), "/opt/kafka")
            for log in logs
        }
        if any(topic in part for part in parts.values()):
            about = {
                "fault": fault,
                "topic": topic,
                "begin_s": begin_s - BEFORE_S,
                "end_s": end_s + _AFTER_S,
            }
            return {"trial.json": json.dumps(about), **parts}
    raise LookupError(f"no cluster has logs of {topic}")


def _part(log: Path, begin_s: float, end_s: float, *, with_settings: bool) -> Iterator[str]:
    """Yield the lines around a trial, and before them which node is what."""
    moments = {line.number: line.at_s for line in LogFile(log).read()}
    at_s, named, roles = 0.0, False, set[str | None]()
    for number, line in enumerate(log.read_text(errors="replace").splitlines(), 1):
        at_s = moments.get(number, at_s)
        is_setting = line.startswith("\t") and "broker.session.timeout.ms" not in line
        if re.match(r"\[\d+\.\d+s\]", line) or (is_setting and not with_settings):
            continue
        if begin_s - _CONTEXT_S <= at_s <= end_s + _AFTER_S:
            yield line
        elif at_s < begin_s and _is_context(line, log, at_s, named=named, roles=roles):
            named, roles = True, {*roles, role_named_in(line)}
            yield line


def _is_context(line: str, log: Path, at_s: float, *, named: bool, roles: set[str | None]) -> bool:
    from ackbench.experiments.results.incidents.lines import LogLine

    found = sightings_of(LogLine(at_s, 1, line), log.name, None)
    return (
        (not named and node_named_in(line) is not None)
        or role_named_in(line) not in {*roles, None}
        or (found is not None and found.kind in {Kind.NEW_CONTROLLER, Kind.VERSION})
        or "KafkaConfig values:" in line
        or line.startswith("\tbroker.session.timeout.ms")
    )


if __name__ == "__main__":
    store(Path(sys.argv[1]), sys.argv[2])
