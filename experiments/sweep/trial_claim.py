"""Which process runs a trial: at most one at a time, on whichever host.

A claim is a file in `claims/` of the sweep: of its folder, or of its store if several hosts run its
trials. Not every store can create a file only if there is none. So a process writes a claim with a
name of its own and then lists the claims. It has the trial if its claim is the only one. Of two
processes each has written before it lists, so at least one of them sees the other. This needs
listings that show every completed write: folders, S3, Google Cloud Storage and Azure have them.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Container, Iterator, Sequence
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.errors import StorageError, TrialFailed
from ackbench.experiments.ledger.documents import why_unreadable, with_version, without_version
from ackbench.experiments.ledger.location import Location
from ackbench.experiments.ledger.record import Frozen
from ackbench.experiments.sweep.published import storage_errors
from ackbench.infra.errors import InputError, WaitTimeout
from ackbench.infra.machine.identity import MachineIdentity
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.waiting import wait_until

CLAIMS: Final = "claims"
"""The folder of the claims, below the sweep."""
_WITHDRAW_S: Final = 10.0
"""How long the preferred one of two processes waits until the other one has withdrawn."""
_POLL_S: Final = 0.2
_SUFFIX: Final = ".json"
_ALONE, _WITHDRAWS = "it is the only claim", "another claim goes first"
_DAG_RUN: Final = ("AIRFLOW_CTX_DAG_ID", "AIRFLOW_CTX_DAG_RUN_ID")
_TASK: Final = "AIRFLOW_CTX_TASK_ID"
_TRY_NUMBER: Final = "AIRFLOW_CTX_TRY_NUMBER"
"""Variables that Airflow sets in the process of a task."""
TASK_INDEX: Final = "ACKBENCH_TASK_INDEX"
"""A variable of the same kind, which the mapped tasks set: which of them the process is."""


class TrialClaim(Frozen):
    """The process that runs a trial."""

    trial_id: str
    token: str
    """Random: no two claims have the same name."""
    machine: MachineIdentity
    """Host, boot and pid namespace."""
    process: ProcessIdentity
    dag_run: str | None
    """The DAG run whose task it is; `None`: a command runs the trial."""
    task: str | None = None
    """The task of that run, with its index: `trial[3]`."""
    try_number: int = 1
    """Which try of that task it is."""

    @classmethod
    def own(cls, trial_id: str) -> TrialClaim:
        """Return a claim of this process."""
        return cls(
            trial_id=trial_id,
            token=secrets.token_hex(8),
            machine=MachineIdentity.own(),
            process=ProcessIdentity.own(),
            dag_run=own_dag_run(),
            task=_own_task(),
            try_number=_own_try_number(),
        )

    @property
    def name(self) -> str:
        """The claim's file, relative to the sweep."""
        return f"{CLAIMS}/{self.trial_id}.{self.token}{_SUFFIX}"

    def is_held(self) -> bool:
        """Return whether its process is known to live; of another host that is not known."""
        return self.machine.is_own and self.process.is_alive()

    def has_ended(self) -> bool:
        """Return whether its process is known to have ended; of another host that is not known."""
        ended_here = self.machine.is_own and not self.process.is_alive()
        return ended_here or self.machine.has_restarted

    def is_of_earlier_try(self) -> bool:
        """Return whether this process is a later try of the task that claimed the trial.

        Airflow starts a try once it knows that the one before has ended, on whichever host.
        """
        same = self.dag_run == own_dag_run() and self.task == _own_task()
        return bool(same and self.task) and self.try_number < _own_try_number()

    def describe(self) -> str:
        """Return who claims the trial, for messages."""
        where = "" if self.machine.is_own else f" {self.machine.describe()}"
        run = f" (Airflow's run {self.dag_run})" if self.dag_run else ""
        return f"process {self.process.pid}{where}{run}"


class TrialClaimed(InputError):
    """Another process has claimed a trial; the message names both."""

    def __init__(self, claim: TrialClaim, remedy: str) -> None:
        self.claim = claim
        super().__init__(f"trial {claim.trial_id} is claimed by {claim.describe()}: {remedy}")


class ClaimLost(TrialFailed):
    """A claim was released while its trial ran, so another process may have run the trial too."""


def own_dag_run() -> str | None:
    """Return `<dag id>/<run id>` of the task that this process is; `None`: it is no task."""
    names = [os.environ.get(name) for name in _DAG_RUN]
    return "/".join(map(str, names)) if all(names) else None


def is_cleared_task() -> bool:
    """Return whether this process is a task that a person has cleared in Airflow.

    Only of tasks without retries.
    """
    return _own_try_number() > 1


def _own_task() -> str | None:
    task, index = os.environ.get(_TASK), os.environ.get(TASK_INDEX)
    return f"{task}[{index}]" if task and index else None


def _own_try_number() -> int:
    return int(os.environ.get(_TRY_NUMBER) or 1)


def take_claim(sweep: Location, trial_id: str) -> TrialClaim | None:
    """Claim a trial for this process.

    Args:
        sweep: where the sweep's claims are.
        trial_id: the trial.

    Returns:
        The claim; `None`: another process has the trial, or has had it when it was killed.

    Raises:
        StorageError: the claims cannot be read or written.
    """
    claim = TrialClaim.own(trial_id)
    with storage_errors():
        if _others(sweep, claim):
            return None
        sweep.write(claim.name, with_version(claim.model_dump_json()).encode())
        try:
            if _becomes_only(sweep, claim):
                return claim
        except BaseException:
            sweep.delete(claim.name)
            raise
        sweep.delete(claim.name)
        return None


def _becomes_only(sweep: Location, claim: TrialClaim) -> bool:
    """Return whether a claim that was written is the only one, or becomes it.

    Of processes that have written at the same time the one with the lowest token waits, and the
    others withdraw. It does not know whether another one already has the trial, hence the timeout.
    """

    def decided() -> str | None:
        others = _others(sweep, claim)
        if not others:
            return _ALONE
        return _WITHDRAWS if min(others) < claim.token else None

    try:
        decision = wait_until(
            decided,
            awaiting=f"the claim of trial {claim.trial_id}",
            timeout_s=_WITHDRAW_S,
            every_s=_POLL_S,
        )
    except WaitTimeout:
        return False
    return decision == _ALONE


def _others(sweep: Location, claim: TrialClaim) -> set[str]:
    """Return the tokens of the other claims of the same trial."""
    tokens = {token for trial_id, token in _listed(sweep) if trial_id == claim.trial_id}
    return tokens - {claim.token}


def _listed(sweep: Location) -> Iterator[tuple[str, str]]:
    """Yield trial and token of each claim, from the names of the files alone."""
    for name in sweep.at(CLAIMS).list_files():
        trial_id, _, token = name.removesuffix(_SUFFIX).rpartition(".")
        if name.endswith(_SUFFIX) and "/" not in name:
            yield trial_id, token


def require_claim(sweep: Location, claim: TrialClaim) -> None:
    """Check that nobody has released a claim of this process.

    Raises:
        ClaimLost: somebody has.
        StorageError: the claims cannot be read.
    """
    with storage_errors():
        if sweep.read(claim.name) is None:
            raise ClaimLost(
                f"trial {claim.trial_id}: its claim was released while it ran, so that another "
                "process may have run it: this ledger is not used"
            )


def release_claim(sweep: Location, claim: TrialClaim) -> None:
    """Release a claim of this process. Idempotent.

    Raises:
        StorageError: the claim cannot be deleted.
    """
    with storage_errors():
        sweep.delete(claim.name)


def read_claims(sweep: Location) -> Sequence[TrialClaim]:
    """Return the claims of a sweep, sorted by trial.

    Raises:
        StorageError: they cannot be read, or one is damaged; the message names it.
    """
    with storage_errors():
        found = {name: sweep.read(name) for name in claims_of(sweep)}
    claims = [
        _parsed(sweep, name, content) for name, content in found.items() if content is not None
    ]
    return sorted(claims, key=lambda claim: (claim.trial_id, claim.token))


def claims_of(sweep: Location) -> list[str]:
    """Return the files of the claims of a sweep, relative to it."""
    return [f"{CLAIMS}/{trial_id}.{token}{_SUFFIX}" for trial_id, token in _listed(sweep)]


def _parsed(sweep: Location, name: str, content: bytes) -> TrialClaim:
    """Return a claim; one of another name is damaged: its file would be deleted instead.

    Raises:
        StorageError: it is damaged.
    """
    damaged = "is damaged: delete it if no process runs the trial"
    try:
        claim = TrialClaim.model_validate_json(without_version(content))
    except ValidationError as error:
        raise StorageError(f"{name} in {sweep.uri} {why_unreadable(content, damaged)}") from error
    if claim.name != name:
        raise StorageError(f"{name} in {sweep.uri} {damaged}")
    return claim


def release_abandoned(sweep: Location) -> Sequence[TrialClaim]:
    """Release the claims of processes that are not known to live: a person resumes the sweep.

    A process of another host cannot be looked at. If it lives nevertheless, it finds that its claim
    is gone before it publishes its trial (`require_claim`).

    Returns:
        The released claims.

    Raises:
        TrialClaimed: the process of a claim lives; nothing was released.
        StorageError: the claims cannot be read or deleted.
    """
    claims = read_claims(sweep)
    for claim in claims:
        if claim.is_held():
            raise TrialClaimed(claim, "wait until it ends or stop it")
    with storage_errors():
        for claim in claims:
            sweep.delete(claim.name)
    return claims


def release_ended(sweep: Location, trial_ids: Container[str]) -> Sequence[TrialClaim]:
    """Release the claims of this DAG run whose processes are known to have ended.

    A person has cleared a task of the run, so its trials are to run again. Of a process on another
    host it is known if this process is a later try of the same task. If it lives nevertheless, it
    finds that its claim is gone before it publishes its trial (`require_claim`).

    Args:
        sweep: where the claims are.
        trial_ids: the trials whose claims may be released.

    Returns:
        The released claims.

    Raises:
        StorageError: the claims cannot be read or deleted.
    """
    own = own_dag_run()
    released = [
        claim
        for claim in read_claims(sweep)
        if own
        and claim.dag_run == own
        and claim.trial_id in trial_ids
        and (claim.has_ended() or claim.is_of_earlier_try())
    ]
    with storage_errors():
        for claim in released:
            sweep.delete(claim.name)
    return released
