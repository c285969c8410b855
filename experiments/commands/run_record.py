"""Who runs a sweep, kept on disk while it runs: how `ackbench clean` finds what outlived its run, and leaves alone what lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.home import Home
from infra.process import ProcessIdentity, is_alive


class RunRecord(BaseModel):
    """The command that watches, and the process that runs the DAG; a pid means something only with its start time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sweep_id: str
    watcher_pid: int
    watcher_start_ticks: int
    runner_pid: int
    runner_start_ticks: int

    @classmethod
    @contextmanager
    def kept(cls, home: Home, sweep_id: str, runner: ProcessIdentity) -> Iterator[Self]:
        """Keep the record for as long as the context lasts."""
        watcher = ProcessIdentity.own()
        record = cls(
            sweep_id=sweep_id,
            watcher_pid=watcher.pid,
            watcher_start_ticks=watcher.start_ticks,
            runner_pid=runner.pid,
            runner_start_ticks=runner.start_ticks,
        )
        path = _folder(home) / f"{sweep_id}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(record.model_dump_json())
        try:
            yield record
        finally:
            path.unlink(missing_ok=True)

    @property
    def runner(self) -> ProcessIdentity:
        """The process that runs the DAG."""
        return ProcessIdentity(self.runner_pid, self.runner_start_ticks)

    def is_watched(self) -> bool:
        """Whether the command that started the run still lives."""
        return is_alive(self.watcher_pid, self.watcher_start_ticks)


def run_records(home: Home) -> tuple[tuple[Path, RunRecord | None], ...]:
    """Return each record with its file; `None` for one that cannot be read, as a kill may leave it."""
    return tuple((path, _read(path)) for path in sorted(_folder(home).glob("*.json")))


def _read(path: Path) -> RunRecord | None:
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except ValidationError:
        return None


def _folder(home: Home) -> Path:
    return home.root / "runs"
