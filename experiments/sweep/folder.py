"""The folder of a sweep: paths of its files, its plan, its trials and its current activity.

The folder is the only state of a sweep. Results, report and tracking are computed from it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import from_json

from ackbench.experiments.ledger.digests import InvalidLedger, with_digest, without_digest
from ackbench.experiments.ledger.documents import why_unreadable, with_version
from ackbench.experiments.ledger.planned import PLAN, PlannedTrials, parse_planned, read_planned
from ackbench.experiments.ledger.terms import LEDGER_VERSION, READABLE_VERSIONS, other_version
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST, Frozen, TrialManifest
from ackbench.experiments.messages.errors import LedgerError, UnknownName
from ackbench.experiments.sweep.documents import read_document, read_note, read_trial_manifest
from ackbench.experiments.sweep.plan import Plan, TrialSpec
from ackbench.infra.machine.files import replace_file

if TYPE_CHECKING:
    from ackbench.experiments.ledger.location import Location

EXPERIMENT, MACHINE = "experiment.yaml", "machine.json"
PARTIAL, FAILED = ".partial", ".failed"
DAG_RUN = "dag-run.txt"
"""The DAG run that has planned the sweep (text)."""
SEVERAL_HOSTS = "several-hosts.json"
"""A file that is published with the plan: the locks of the trials are in the store."""
REASON = "reason.txt"
"""Why a trial failed (text): the file in its folder."""


class SweepActivity(Frozen):
    """What a sweep is doing now: written by the process that runs it, read by all others."""

    stage: str
    """One of `progress.STAGES`."""
    trial_id: str | None = None
    what: str = ""
    """The activity in words; empty: the stage says enough."""
    since_ns: int

    @property
    def age_s(self) -> float:
        """How long ago it was reported, in seconds; 0 after the clock was set back."""
        return max(time.time_ns() - self.since_ns, 0) / 1e9


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
        from ackbench.experiments.ledger.location import open_location

        return self.origin or open_location(str(self.root))

    @property
    def sweep_id(self) -> str:
        """The sweep's id, which is the folder's name."""
        return self.root.name

    @property
    def experiment_yaml(self) -> Path:
        """The experiment with every default and override, as YAML."""
        return self.root / EXPERIMENT

    @property
    def results(self) -> Path:
        """Folder of the results that Spark computes from the ledgers."""
        return self.root / "results"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.root / "report.html"

    @property
    def tracked(self) -> Path:
        """The ids of the sweep in MLflow; exists once it was tracked."""
        return self.root / "mlflow.json"

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

    @property
    def unnotified(self) -> Path:
        """Why an alert could not be delivered (text); exists until one is."""
        return self.root / "unnotified.txt"

    def machine(self) -> Mapping[str, Any]:
        """Return the properties of the machine that ran the trials; empty: they are not recorded.

        Raises:
            LedgerError: the file is altered or truncated, or cannot be read.
        """
        path = self.root / MACHINE
        try:
            document, _ = without_digest(read_document(path))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise LedgerError(f"{path} {error}: restore it from a copy, or delete it") from error
        try:
            machine = from_json(document)
        except ValueError as error:
            raise LedgerError(f"{path} is damaged: restore it from a copy, or delete it") from error
        return machine if isinstance(machine, dict) else {}

    def plan(self) -> Plan:
        """Return the plan.

        Raises:
            UnknownName: there is no such sweep.
            LedgerError: the plan is truncated, altered, or of another ledger version.
        """
        return parse_plan(self._stored_plan(), str(self.root / PLAN))

    def _stored_plan(self) -> bytes:
        try:
            return read_document(self.root / PLAN)
        except FileNotFoundError as error:
            raise UnknownName(
                f"no sweep at {self.root}: `ackbench show` lists the newest"
            ) from error

    def write_plan(self, plan: Plan) -> None:
        """Create the folder and write the plan into it."""
        (self.root / "trials").mkdir(parents=True, exist_ok=True)
        current = plan.model_copy(update={"ledger_version": LEDGER_VERSION})
        replace_file(self.root / PLAN, with_digest(current.model_dump_json(indent=1)))

    def write_record(self, path: Path, record: Frozen) -> None:
        """Replace a record atomically: a reader sees either the old or the new one."""
        replace_file(path, with_version(record.model_dump_json(indent=1)))

    def trial(self, trial_id: str) -> Path:
        """Return the folder of a complete trial; it exists once the trial is sealed or void."""
        return self.root / "trials" / trial_id

    def partial(self, trial_id: str) -> Path:
        """Return the folder of a running trial."""
        return self.root / "trials" / (trial_id + PARTIAL)

    def failed(self, trial_id: str) -> Path:
        """Return the folder of a failed trial: what it wrote, and the reason (`REASON`)."""
        return self.root / "trials" / (trial_id + FAILED)

    def failure_reason(self, trial_id: str) -> str | None:
        """Return why a trial failed; `None`: nothing says so."""
        return read_note(self.failed(trial_id) / REASON)

    def planned(self) -> PlannedTrials:
        """Return what the plan says of the trials' manifests.

        Raises:
            LedgerError: the plan is truncated or altered.
        """
        import pyarrow.fs as pafs

        try:
            return read_planned(pafs.LocalFileSystem(), str(self.root))
        except InvalidLedger as error:
            raise LedgerError(f"{self.root}: {error}: restore it from a copy") from error

    def foreign_trials(self) -> Mapping[str, str]:
        """Return the sealed trials that are not the plan's, with the reasons.

        Raises:
            LedgerError: as `planned`.
        """
        return dict(_foreign(self.planned(), self._sealed_folders()))

    def why_foreign(self, trial_id: str) -> str | None:
        """Return why a sealed trial is not the plan's; `None`: it is, or there is none.

        Raises:
            LedgerError: as `planned`.
        """
        return dict(_foreign(self.planned(), [self.trial(trial_id)])).get(trial_id)

    def has_begun(self) -> bool:
        """Return whether this home has a trial of the sweep, of whatever state."""
        return any((self.root / "trials").glob("*"))

    def complete_ids(self) -> tuple[str, ...]:
        """Return the ids of the sealed and void trials, sorted; foreign ones do not count.

        Raises:
            LedgerError: as `planned`.
        """
        foreign = self.foreign_trials()
        return tuple(path.name for path in self._sealed_folders() if path.name not in foreign)

    def _sealed_folders(self) -> list[Path]:
        folders = (path.parent for path in (self.root / "trials").glob(f"*/{TRIAL_MANIFEST}"))
        return sorted(path for path in folders if path.suffix not in (PARTIAL, FAILED))

    def complete_trials(self, without: Collection[str] = ()) -> Iterator[TrialManifest]:
        """Yield the sealed and void trials, in the order in which they ran; no foreign ones.

        Args:
            without: the ids of trials to leave out.

        Raises:
            LedgerError: a `trial.json` is truncated or altered, or of another version; or as
                `planned`.
        """
        planned = self.planned()
        try:
            records = [
                read_trial_manifest(path)
                for path in self._sealed_folders()
                if path.name not in without
            ]
        except InvalidLedger as error:
            raise LedgerError(f"{self.sweep_id}: {error}; {self.unfit_remedy}") from error
        own = (record for record in records if planned.why_foreign(record) is None)
        yield from sorted(own, key=lambda record: record.order)

    @property
    def unfit_remedy(self) -> str:
        """What to do about a trial whose ledger cannot be measured, as a clause."""
        return (
            "restore the file from a copy, or leave the trial out: "
            f"ackbench measure {self.argument} --skip-unfit"
        )

    def pending(self) -> tuple[str, ...]:
        """Return the ids of the planned trials that are not complete, in the plan's order."""
        return tuple(trial.trial_id for trial in self.pending_trials())

    def pending_trials(self) -> tuple[TrialSpec, ...]:
        """Return the planned trials that are not complete, in the plan's order.

        The plan is read once.

        Raises:
            UnknownName: there is no such sweep.
            LedgerError: as `plan`.
        """
        stored = self._stored_plan()
        plan = parse_plan(stored, str(self.root / PLAN))
        foreign = dict(_foreign(parse_planned(stored), self._sealed_folders()))
        return tuple(
            trial
            for trial in plan.trials
            if trial.trial_id in foreign or not self.trial(trial.trial_id).is_dir()
        )

    def fail_sealed_trial(self, trial_id: str, reason: str) -> None:
        """Let a sealed trial count as failed; what failed before is deleted."""
        failed = self.failed(trial_id)
        shutil.rmtree(failed, ignore_errors=True)
        self.trial(trial_id).rename(failed)
        replace_file(failed / REASON, f"{reason}\n")

    def fail_foreign_trials(self) -> Mapping[str, str]:
        """Let the sealed trials that are not the plan's count as failed; return the reasons.

        Raises:
            LedgerError: as `planned`.
        """
        foreign = self.foreign_trials()
        for trial_id, reason in foreign.items():
            self.fail_sealed_trial(trial_id, reason)
        return foreign

    def report_activity(self, stage: str, what: str = "", trial_id: str | None = None) -> None:
        """Write what the sweep is doing now; see `SweepActivity`.

        That it cannot be written, because the disk is full for example, stops nothing.
        """
        activity = SweepActivity(stage=stage, trial_id=trial_id, what=what, since_ns=time.time_ns())
        with suppress(OSError):
            replace_file(self.root / "progress.json", activity.model_dump_json(), durable=False)

    def activity(self) -> SweepActivity | None:
        """Return what was reported last; `None` if nothing was, or a power failure damaged it."""
        try:
            return SweepActivity.model_validate_json(read_document(self.root / "progress.json"))
        except (FileNotFoundError, LedgerError, ValidationError):
            return None


def _foreign(planned: PlannedTrials, folders: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the trials that are not the plan's, with the reasons; a damaged manifest has none."""
    for folder in folders:
        with suppress(InvalidLedger):
            if reason := planned.why_foreign(read_trial_manifest(folder)):
                yield folder.name, reason


def parse_plan(stored: bytes, source: str) -> Plan:
    """Return the plan in a document.

    Args:
        stored: the content of `plan.json`.
        source: its path or URI, for the message.

    Raises:
        LedgerError: as `SweepFolder.plan`.
    """
    try:
        content, has_digest = without_digest(stored)
        _require_version(source, stored, content, has_digest=has_digest)
        return Plan.model_validate_json(content)
    except ValidationError as error:
        invalid = f"is truncated or not a plan: {error.errors()[0]['msg']}"
        raise LedgerError(f"{source} {why_unreadable(stored, invalid)}") from error
    except ValueError as error:
        raise LedgerError(f"{source} {error}: restore it from a copy") from error


def _require_version(source: str, stored: bytes, content: bytes, *, has_digest: bool) -> None:
    """Raise `LedgerError` if the plan has another ledger version, or not the digest of its own.

    Content that is no plan is left to the parser.
    """
    try:
        data = from_json(content)
    except ValueError:
        return
    if not isinstance(data, dict) or "sweep_id" not in data:
        return
    version = data.get("ledger_version", "3 or older")
    if version not in READABLE_VERSIONS:
        raise LedgerError(f"{source} {why_unreadable(stored, other_version(version))}")
    if version == LEDGER_VERSION and not has_digest:
        raise LedgerError(
            f"{source} was altered: it does not end with its SHA-256; restore it from a copy"
        )
