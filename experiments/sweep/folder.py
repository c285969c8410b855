"""A sweep is a folder, and the folder is the truth: where its parts lie and what they say of its progress."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from experiments.errors import LedgerError, UnknownName
from experiments.ledger.record import Frozen, TrialRecord, read_record
from experiments.ledger.schema import LEDGER_VERSION
from experiments.sweep.plan import Plan
from infra.machine.files import replace_file

PARTIAL, FAILED = ".partial", ".failed"


class SweepActivity(Frozen):
    """What the sweep is doing now; whoever runs it writes this, whoever watches reads it."""

    stage: str
    """`provision`, `trial`, `measure`, `report`, `track`, `destroy`, `done` or `failed`."""
    trial_id: str | None = None
    what: str = ""
    since_ns: int


@dataclass(frozen=True)
class SweepFolder:
    """Paths and states of one sweep; making one touches nothing."""

    root: Path

    @property
    def sweep_id(self) -> str:
        """The folder's name."""
        return self.root.name

    @property
    def experiment_yaml(self) -> Path:
        """The experiment as resolved."""
        return self.root / "experiment.yaml"

    @property
    def results(self) -> Path:
        """What Spark made of the ledgers."""
        return self.root / "results"

    @property
    def report(self) -> Path:
        """The page."""
        return self.root / "report.html"

    @property
    def until(self) -> Path:
        """How trials were added until intervals were narrow enough (`experiments.commands.run_until.RepeatHistory`); there only where that was asked for."""
        return self.root / "until.json"

    @property
    def stopped(self) -> Path:
        """Why no trial is begun any more (text); there only until somebody goes on with the sweep."""
        return self.root / "stopped.txt"

    def plan(self) -> Plan:
        """Return the plan.

        Raises:
            UnknownName: there is no such sweep.
            LedgerError: its plan is cut short, or of another version.
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
                f"{path} is no plan of this version, or cut short: {error.errors()[0]['msg']}"
            ) from error

    @staticmethod
    def _require_version(path: Path, content: bytes) -> None:
        """Refuse a plan of another version of the ledger; one that is no JSON at all is left to the parser."""
        with suppress(ValueError):
            found = json.loads(content)
            version = (
                found.get("ledger_version", "3 or older")
                if isinstance(found, dict) and "sweep_id" in found
                else LEDGER_VERSION
            )
            if version != LEDGER_VERSION:
                raise LedgerError(
                    f"{path} is of ledger version {version}, and this program reads version {LEDGER_VERSION}: run the sweep again"
                )

    def write_plan(self, plan: Plan) -> None:
        """Make the folder and put the plan into it."""
        (self.root / "trials").mkdir(parents=True, exist_ok=True)
        replace_file(self.root / "plan.json", plan.model_dump_json(indent=1))

    def keep(self, path: Path, record: Frozen) -> None:
        """Write a record into the folder, so that a reader sees the old one or the new one."""
        replace_file(path, record.model_dump_json(indent=1))

    def trial(self, trial_id: str) -> Path:
        """Where a whole trial lies; it exists only when the trial is sealed or void."""
        return self.root / "trials" / trial_id

    def partial(self, trial_id: str) -> Path:
        """Where a trial is being written."""
        return self.root / "trials" / (trial_id + PARTIAL)

    def failed(self, trial_id: str) -> Path:
        """Where the remains and the reason (`reason.txt`) of a trial lie that the harness failed."""
        return self.root / "trials" / (trial_id + FAILED)

    def whole_trials(self) -> Iterator[TrialRecord]:
        """All sealed and void trials, in the order they ran."""
        folders = [
            p
            for p in (self.root / "trials").glob("*/trial.json")
            if p.parent.suffix not in (PARTIAL, FAILED)
        ]
        yield from sorted((read_record(p.parent) for p in folders), key=lambda record: record.order)

    def pending(self) -> tuple[str, ...]:
        """The ids of the planned trials that are not whole, in the plan's order."""
        return tuple(t.trial_id for t in self.plan().trials if not self.trial(t.trial_id).exists())

    def say(self, stage: str, what: str = "", trial_id: str | None = None) -> None:
        """Tell whoever watches what is being done."""
        replace_file(
            self.root / "progress.json",
            SweepActivity(
                stage=stage, trial_id=trial_id, what=what, since_ns=time.time_ns()
            ).model_dump_json(),
        )

    def doing(self) -> SweepActivity | None:
        """What was said last; `None` before anything was."""
        try:
            return SweepActivity.model_validate_json((self.root / "progress.json").read_bytes())
        except FileNotFoundError:
            return None
