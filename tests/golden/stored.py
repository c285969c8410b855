"""The stored sweeps: small ones of each kind that ran with real brokers, with their ledgers.

An archive has the folders of the sweeps as they were sealed, without their results: these are
measured where the archive is unpacked, so that the outputs depend on all code after the trials.
`failed` has a sweep whose trials failed, on an overloaded machine; it is not made again.
"""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Final

from support.archives import unpack_archive

from ackbench.experiments.results.selftest.ledger_copy import LedgerCopy
from ackbench.experiments.results.selftest.plants import PLANTS, PlantContext, undisturbed_records
from ackbench.experiments.sweep.expectations import Expectation, Relation
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home
from ackbench.spark_jobs.io.ledgers import InvalidLedger, open_ledgers
from ackbench.spark_jobs.io.units import split
from ackbench.spark_jobs.io.writer import ResultsWriter
from ackbench.spark_jobs.pipeline import (
    TrialTables,
    sweep_parts,
    tables_or_error,
    verify_and_measure,
)

ARCHIVES: Final = Path(__file__).with_name("sweeps")
KINDS: Final = tuple(sorted(path.name.partition(".")[0] for path in ARCHIVES.iterdir()))
STORE: Final = "store"
"""The folder, next to the home, of what several hosts have published."""
_PLANTED: Final = frozenset(
    {"lost", "duplicated", "reordered", "read-conflict", "missed", "corrupt"}
)
_EXPECTED: Final = (
    Expectation(measure="lost", relation=Relation.EQUAL, bound=0),
    Expectation(measure="acked", relation=Relation.AT_LEAST, bound=100),
    Expectation(
        measure="ack_p99_ms", relation=Relation.LESS, bound=60_000, where={"acks": ("all",)}
    ),
    Expectation(measure="recovered_before_heal", relation=Relation.EQUAL, bound=True),
)
_NOT_STORED: Final = frozenset(
    {"results", "report.html", "index.html", "mlflow.json", "planned-here.txt"}
)
"""Files that are made again, or that say only how far the sweep was."""


def store(folders: Sequence[Path], archive: Path) -> None:
    """Write folders as one archive; the same files make the same bytes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder in folders:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                inner = path.relative_to(folder)
                if not _NOT_STORED & set(inner.parts):
                    entry = tarfile.TarInfo(str(Path(folder.parent.name, folder.name, inner)))
                    entry.size, entry.mode = path.stat().st_size, 0o600
                    tar.addfile(entry, io.BytesIO(path.read_bytes()))
    archive.parent.mkdir(exist_ok=True)
    archive.write_bytes(lzma.compress(content.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(kind: str, home: Home) -> list[Path]:
    """Unpack an archive into a home and measure its sweeps; return their folders, the first first.

    The folders of several hosts' sweeps are not in the home but next to it, in `STORE`.
    """
    names = unpack_archive(ARCHIVES / f"{kind}.tar.xz", home.root)
    (home.root / STORE).mkdir(exist_ok=True)
    found = dict.fromkeys(Path(*Path(name).parts[:2]) for name in names)
    sweeps = [home.root / folder for folder in found if folder.parts[0] != "tours"]
    for sweep in sweeps:
        measure_here(sweep)
    return sweeps


def measure_here(sweep: Path) -> None:
    """Write the results of a sweep as the Spark job does, in this process."""
    ledgers = open_ledgers(str(sweep))
    measured = dict[str, TrialTables]()
    for unit in split(ledgers.trials):
        assert unit.is_whole_trial, "a stored trial is small"
        trial_id, measures = verify_and_measure(str(sweep), unit)
        tables = tables_or_error(measures)
        assert not isinstance(tables, InvalidLedger), tables
        measured[trial_id] = tables
    with ResultsWriter(ledgers.files, ledgers.root) as results:
        for part in sweep_parts(sorted(measured.items())):
            results.add(part)
        results.commit({one.manifest.trial_id: one.sha256 for one in ledgers.trials})


def damage(sweep: Path, folder: Path) -> Path:
    """Copy a sweep, damage each trial in another way, measure the copy, and return its folder.

    Kafka's guarantees hold in the sweeps that ran; the copy violates them in known places. Its
    experiment has expectations, some of which the damage does not meet.
    """
    copy = folder / sweep.name
    shutil.copytree(sweep, copy)
    planned = SweepFolder(copy)
    planned.write_plan(planned.plan().model_copy(update={"expectations": _EXPECTED}))
    trials = sorted(path.parent for path in copy.glob("trials/*/trial.json"))
    plants = [plant for plant in PLANTS if plant.name in _PLANTED]
    for trial, plant in zip(trials, cycle(plants), strict=False):
        ledger = LedgerCopy.read(trial)
        random = Random(plant.name)  # noqa: S311 - a sample, no secret
        damaged = plant.make(PlantContext(ledger, undisturbed_records(ledger), random))
        shutil.rmtree(trial)
        damaged.write(copy, trial.name)
    measure_here(copy)
    return copy
