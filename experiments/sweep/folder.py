"""The folder of a sweep: paths of its files, its plan, its trials and its current activity.

The folder is the only state of a sweep. Results, report and tracking are computed from it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from experiments.errors import LedgerError, UnknownName
from experiments.ledger.record import Frozen, TrialRecord, read_record
from experiments.ledger.schema import LEDGER_VERSION
from experiments.sweep.plan import Plan
from infra.machine.files import replace_file

if TYPE_CHECKING:
    from experiments.ledger.location import Location

PARTIAL, FAILED = ".partial", ".failed"


class SweepActivity(Frozen):
    """What a sweep is doing now: written by the process that runs it, read by all others."""

    stage: str
    """`provision`, `trial`, `measure`, `report`, `track`, `destroy`, `done` or `failed`."""
    trial_id: str | None = None
    what: str = ""
    """The activity in words; empty: the stage says enough."""
    since_ns: int


@dataclass(frozen=True)
class SweepFolder:
    """Handle to the folder of one sweep. Creating a handle creates no files."""

    root: Path
    origin: Location | None = field(default=None, compare=False)
    """Where the ledgers are, if the folder is a copy of a published sweep without them."""

    @property
    def argument(self) -> str:
        """How a command names the sweep: by its id, or the URI that it was read from."""
        return self.origin.uri if self.origin else self.sweep_id

    @property
    def ledgers(self) -> Location:
        """Where the folders of the trials are, with all of their files."""
        from experiments.ledger.location import open_location

        return self.origin or open_location(str(self.root))

    @property
    def sweep_id(self) -> str:
        """The sweep's id, which is the folder's name."""
        return self.root.name

    @property
    def experiment_yaml(self) -> Path:
        """The experiment with every default and override, as YAML."""
        return self.root / "experiment.yaml"

    @property
    def results(self) -> Path:
        """Folder of the results that Spark computes from the ledgers."""
        return self.root / "results"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.root / "report.html"

    @property
    def repeat_history(self) -> Path:
        """How repeats were added until the intervals were narrow enough.

        A `experiments.commands.run_until.RepeatHistory`; exists only if that was requested.
        """
        return self.root / "until.json"

    @property
    def stop_reason(self) -> Path:
        """Why no further trial is started (text); exists until the sweep is resumed."""
        return self.root / "stopped.txt"

    @property
    def store(self) -> Path:
        """Which URI the sweep is published to (`experiments.sweep.published.SweepStore`).

        Exists only if one was named.
        """
        return self.root / "store.json"

    @property
    def unpublished(self) -> Path:
        """Why the last upload to the store failed (text); exists until everything is published."""
        return self.root / "unpublished.txt"

    def plan(self) -> Plan:
        """Return the plan.

        Raises:
            UnknownName: there is no such sweep.
            LedgerError: the plan is truncated, or of another ledger version.
        """
        path = self.root / "plan.json"
        try:
            content = path.read_bytes()
            self._require_version(path, content)
            return Plan.model_validate_json(content)
        except FileNotFoundError as error:
            raise UnknownName(
                f"no sweep at {self.root}: `ackbench show` lists the newest"
            ) from error
        except ValidationError as error:
            raise LedgerError(
                f"{path} is truncated or not a plan: {error.errors()[0]['msg']}"
            ) from error

    @staticmethod
    def _require_version(path: Path, content: bytes) -> None:
        """Raise `LedgerError` if the plan has another ledger version.

        Content that is not JSON is left to the parser.
        """
        with suppress(ValueError):
            data = json.loads(content)
            version = (
                data.get("ledger_version", "3 or older")
                if isinstance(data, dict) and "sweep_id" in data
                else LEDGER_VERSION
            )
            if version != LEDGER_VERSION:
                raise LedgerError(
                    f"{path} has ledger version {version}; this program reads version "
                    f"{LEDGER_VERSION}: run the sweep again"
                )

    def write_plan(self, plan: Plan) -> None:
        """Create the folder and write the plan into it."""
        (self.root / "trials").mkdir(parents=True, exist_ok=True)
        replace_file(self.root / "plan.json", plan.model_dump_json(indent=1))

    def write_record(self, path: Path, record: Frozen) -> None:
        """Replace a record atomically: a reader sees either the old or the new one."""
        replace_file(path, record.model_dump_json(indent=1))

    def trial(self, trial_id: str) -> Path:
        """Return the folder of a complete trial; it exists once the trial is sealed or void."""
        return self.root / "trials" / trial_id

    def partial(self, trial_id: str) -> Path:
        """Return the folder of a running trial."""
        return self.root / "trials" / (trial_id + PARTIAL)

    def failed(self, trial_id: str) -> Path:
        """Return the folder of a failed trial: what it wrote, and the reason (`reason.txt`)."""
        return self.root / "trials" / (trial_id + FAILED)

    def complete_trials(self) -> Iterator[TrialRecord]:
        """Yield the sealed and void trials, in the order in which they ran."""
        folders = [
            p
            for p in (self.root / "trials").glob("*/trial.json")
            if p.parent.suffix not in (PARTIAL, FAILED)
        ]
        yield from sorted((read_record(p.parent) for p in folders), key=lambda record: record.order)

    def pending(self) -> tuple[str, ...]:
        """Return the ids of the planned trials that are not complete, in the plan's order."""
        return tuple(t.trial_id for t in self.plan().trials if not self.trial(t.trial_id).exists())

    def report_activity(self, stage: str, what: str = "", trial_id: str | None = None) -> None:
        """Write what the sweep is doing now; see `SweepActivity`."""
        replace_file(
            self.root / "progress.json",
            SweepActivity(
                stage=stage, trial_id=trial_id, what=what, since_ns=time.time_ns()
            ).model_dump_json(),
        )

    def activity(self) -> SweepActivity | None:
        """Return what was reported last; `None` if nothing was."""
        try:
            return SweepActivity.model_validate_json((self.root / "progress.json").read_bytes())
        except FileNotFoundError:
            return None
