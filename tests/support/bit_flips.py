"""Single flipped bits in stored files, and which of them a check does not notice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ackbench.experiments.ledger.digests import InvalidLedger
from ackbench.experiments.ledger.result_tables import RESULTS
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.rows import read_table
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.spark_jobs.io.ledgers import open_ledgers
from ackbench.spark_jobs.io.units import split
from ackbench.spark_jobs.pipeline import verify_and_measure


@dataclass(frozen=True)
class BitFlip:
    """One bit of one file."""

    file: Path
    position: int
    """The byte's place in the file, from 0 on."""
    bit: int
    """From 0, the lowest, to 7."""


def bit_flips(folder: Path, per_file: int, seed: int) -> Iterator[BitFlip]:
    """Yield flips at random places of every file below a folder that is not empty.

    Args:
        folder: for example of a trial, or the results of a sweep.
        per_file: how many flips each file gets.
        seed: the same seed gives the same places.
    """
    chosen = random.Random(seed)  # noqa: S311 - reproducible, not secret
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        size = file.stat().st_size
        for _ in range(per_file if size else 0):
            yield BitFlip(file, chosen.randrange(size), chosen.randrange(8))


@contextmanager
def applied(flip: BitFlip) -> Iterator[None]:
    """Flip the bit within the context; afterwards the file is as it was."""
    content = flip.file.read_bytes()
    changed = bytearray(content)
    changed[flip.position] ^= 1 << flip.bit
    flip.file.write_bytes(changed)
    try:
        yield
    finally:
        flip.file.write_bytes(content)


def unnoticed_flips(
    folder: Path, per_file: int, seed: int, check: Callable[[], str | None]
) -> list[tuple[BitFlip, str | None]]:
    """Return the flips whose file a check does not name, with what it says instead.

    Args:
        folder: the files to flip bits of.
        per_file: how many flips each file gets.
        seed: of the places.
        check: returns the message of an error; `None`: it finds nothing.
    """
    unnoticed = []
    for flip in bit_flips(folder, per_file, seed):
        with applied(flip):
            message = check()
        if message is None or flip.file.name not in message:
            unnoticed.append((flip, message))
    return unnoticed


def damage_found_by_measure(sweep: Path) -> str | None:
    """Return the error with which `ackbench measure` refuses a sweep; `None`: it measures it.

    This is what the job's driver and its tasks do, in this process and without Spark.
    """
    try:
        ledgers = open_ledgers(str(sweep))
    except InvalidLedger as error:
        return str(error)
    for unit in split(ledgers.trials):
        _, measured = verify_and_measure(ledgers.location, unit)
        if isinstance(measured, InvalidLedger):
            return str(measured)
    return None


def damage_found_by_show(sweep: Path) -> str | None:
    """Return the error of the commands that read plan, trials and all tables of the results."""
    try:
        folder = SweepFolder(sweep)
        results = read_results(folder)
        for name in RESULTS:
            read_table(folder, name, results.manifest)
    except LedgerError as error:
        return str(error)
    return None
