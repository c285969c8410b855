"""The use of an external cluster by a sweep: noted before the first topic is created there.

The note stays until everything of the sweep is deleted from the cluster. So `ackbench clean` finds
what a killed run left there, also if the sweep itself was deleted.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.documents import why_unreadable, with_version, without_version
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.sweep.documents import read_document
from ackbench.experiments.sweep.plan import ExternalAccess, external_prefix
from ackbench.experiments.trial.faults.operations.noted_heals import noted_heals, run_noted_heal
from ackbench.infra.errors import AckbenchError, HarnessError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

_NOTE: Final = "use.json"
_LOG: Final = logging.getLogger(__name__)


class ExternalUse(Frozen):
    """A sweep that may have topics and groups in an external cluster."""

    sweep_id: str
    servers: str
    security: dict[str, str]
    """librdkafka's properties; a secret is the name of an environment variable, as in `$NAME`."""


def note_use(home: Home, sweep_id: str, access: ExternalAccess) -> None:
    """Note that the sweep is about to create topics in the cluster."""
    path = _note(home, sweep_id)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        use = ExternalUse(sweep_id=sweep_id, servers=access.addresses, security=access.security)
        replace_file(path, with_version(use.model_dump_json(indent=1)))


def noted_uses(home: Home) -> list[str]:
    """Return the ids of the sweeps of this home that may have topics in an external cluster."""
    return sorted(path.parent.name for path in home.external.glob(f"*/{_NOTE}"))


def end_use(home: Home, sweep_id: str) -> str:
    """Heal the cluster if that is still due, delete the sweep's topics and groups, then the note.

    Returns:
        A line that says what was done; empty if there was nothing to do.

    Raises:
        HarnessError: the note is damaged, a heal failed, a variable of the security properties is
            not set, or Kafka refused or did not answer. The message has the remedy; the note stays.
    """
    use = _read(_note(home, sweep_id))
    healed = [run_noted_heal(note) for note in noted_heals(_folder(home, sweep_id))]
    try:
        deleted = _delete_everything_of(use)
    except AckbenchError as error:
        raise HarnessError(
            f"topics and groups of {sweep_id} may be left in external cluster {use.servers}: "
            f"{error}; `ackbench clean` tries again"
        ) from error
    shutil.rmtree(_folder(home, sweep_id))
    names = f"deleted from external cluster {use.servers}: {format_list(deleted)}"
    return "; ".join([*healed, *([names] if deleted else [])])


def end_noted_use(home: Home, sweep_id: str) -> HarnessError | None:
    """End the use of a sweep, if it has one; return why something of it may be left."""
    if not _note(home, sweep_id).is_file():
        return None
    try:
        if done := end_use(home, sweep_id):
            _LOG.info("%s", done)
    except HarnessError as error:
        return error
    return None


def _read(note: Path) -> ExternalUse:
    content = b""
    try:
        content = read_document(note)
        return ExternalUse.model_validate_json(without_version(content))
    except (OSError, LedgerError, ValidationError) as error:
        damaged = (
            "is damaged: delete the topics and groups of external clusters that begin "
            f"with {external_prefix(note.parent.name)} by hand, and then its folder"
        )
        raise HarnessError(f"{note} {why_unreadable(content, damaged)}") from error


def _delete_everything_of(use: ExternalUse) -> Sequence[str]:
    from ackbench.experiments.trial.clients.librdkafka.leftovers import delete_leftovers
    from ackbench.experiments.trial.clients.settings.security import register_security

    register_security(use.servers, use.security)
    prefix = external_prefix(use.sweep_id)
    left = delete_leftovers(use.servers, prefix)
    if left.refused:
        reasons = "; ".join(left.refused.values())
        raise HarnessError(f"{format_count(len(left.refused), 'name')} {prefix}*: {reasons}")
    if left.not_listed:
        raise HarnessError(f"groups {prefix}*: {'; '.join(left.not_listed)}")
    return left.deleted


def finish_heals(home: Home, sweep_id: str) -> None:
    """Run the heals that an earlier, killed attempt of the sweep left to be run.

    Raises:
        HarnessError: a heal failed; the message has the remedy. No fault may be injected before.
    """
    for note in noted_heals(_folder(home, sweep_id)):
        _LOG.warning("%s", run_noted_heal(note))


def _folder(home: Home, sweep_id: str) -> Path:
    return home.external / sweep_id


def _note(home: Home, sweep_id: str) -> Path:
    return _folder(home, sweep_id) / _NOTE
