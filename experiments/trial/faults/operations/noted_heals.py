"""Run the user's own programs, and note on disk which of them still has to heal a cluster.

The note is written before the injection, so that the heal can be run after ackbench was killed: by
`ackbench clean`, or when the sweep is resumed.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.documents import why_unreadable, with_version, without_version
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.messages.phrases import one_line, shorten
from ackbench.experiments.sweep.documents import read_document
from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.process.log_tail import last_line

HEALS: Final = "heals"
"""The folder of noted heals, in the folder of ackbench for the cluster."""
_OUTPUT_CHARACTERS: Final = 200


class CommandFailed(HarnessError):
    """A command did not start, did not end in time, or had another exit code than 0."""


class NotedHeal(Frozen):
    """A heal that may still have to be run."""

    fault: str
    command: tuple[str, ...]
    """Its words, with all variables resolved."""
    timeout_s: float


def run_command(part: str, words: Sequence[str], timeout_s: float) -> str:
    """Run a command without a shell and return the last line of its output.

    It gets a session of its own, so that Ctrl-C does not interrupt a heal.

    Raises:
        CommandFailed: it did not start, did not end in time (and was killed), or failed; one line.
    """
    text = shorten(shlex.join(words), _OUTPUT_CHARACTERS)
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(f"{part} `{text}` did not start: {error.strerror}") from error
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise CommandFailed(f"{part} `{text}` did not end within {timeout_s:g} s") from error
    last = shorten(one_line(last_line(output.decode(errors="replace"))), _OUTPUT_CHARACTERS)
    if process.returncode != 0:
        raise CommandFailed(f"{part} `{text}` ended with {process.returncode}: {last}")
    return last


def note_heal(folder: Path, heal: NotedHeal) -> Path:
    """Note a heal on disk before the injection and return the note; `run_noted_heal` deletes it.

    Args:
        folder: of ackbench for the cluster.
        heal: what to run.
    """
    (folder / HEALS).mkdir(parents=True, exist_ok=True)
    note = folder / HEALS / f"{heal.fault}.json"
    replace_file(note, with_version(heal.model_dump_json(indent=1)))
    return note


def run_noted_heal(note: Path) -> str:
    """Run a noted heal, delete the note, and return a line that says so.

    Raises:
        CommandFailed: it failed, or the note is damaged; the note stays, and the message has the
            remedy.
    """
    content = b""
    try:
        content = read_document(note)
        heal = NotedHeal.model_validate_json(without_version(content))
    except (OSError, LedgerError, ValidationError) as error:
        damaged = "is damaged: heal the cluster by hand, and then delete the file"
        raise CommandFailed(f"{note} {why_unreadable(content, damaged)}") from error
    try:
        output = run_command("heal", heal.command, heal.timeout_s)
    except CommandFailed as error:
        raise CommandFailed(
            f"{error}; the cluster may still be broken: `ackbench clean` tries again, or heal it "
            f"by hand and delete {note}"
        ) from error
    note.unlink()
    return f"healed {heal.fault}: `{shorten(shlex.join(heal.command))}`: {output}"


def noted_heals(folder: Path) -> list[Path]:
    """Return the heals that may still have to be run, in the folder of a cluster."""
    return sorted((folder / HEALS).glob("*.json"))
