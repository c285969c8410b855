"""A home of many sweeps: copies of a real one, each with figures of its own.

The files of the trials are links to those of the source, so that two thousand sweeps of 20 MB take
a minute to make and little more than one on the disk; to programs they are as many files.
"""

from __future__ import annotations

import math
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ackbench.experiments.ledger.digests import digest_of, with_digest, without_digest
from ackbench.experiments.ledger.planned import PLAN
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST, parse_results_manifest
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

BEGIN_S: Final = 1_735_689_600.0
"""2025-01-01, UTC."""
EVERY_S: Final = 6 * 3600.0
NOISE: Final = 0.05
"""Relative standard deviation of a figure between two sweeps."""
SHIFT: Final = 1.4
SHIFTED_FROM: Final = 0.7
"""From this part of the sweeps on, the latencies of the first trial's cell are higher."""
_VARIED: Final[Mapping[str, re.Pattern[str]]] = {
    "latency": re.compile(r"p\d+(_9)?_us|max_us"),
    "trials": re.compile(r"unavailable_ns|throughput_records_per_s"),
    "gaps": re.compile(r"gap_ns"),
}
"""The columns with a value of its own in each sweep, by table."""


def add_sweeps(
    home: Home,
    source: SweepFolder,
    count: int,
    say: Callable[[int], None] = lambda _: None,
    source_home: Home | None = None,
) -> None:
    """Add copies of a sweep to a home.

    Args:
        home: where they are added.
        source: a measured sweep on the same file system.
        count: how many.
        say: called with the number of each.
        source_home: has the sweep's logs and those of its clusters; `None`: they are left out.
    """
    rng = random.Random(1)  # noqa: S311 - not used for secrets
    plan, _ = without_digest((source.root / PLAN).read_bytes())
    tables = {name: pq.read_table(source.results / f"{name}.parquet") for name in _VARIED}
    shifted = source.plan().trials[0].trial_id
    for number in range(count):
        sweep = SweepFolder(home.sweeps / _id_of(source, number))
        _link_tree(source.root, sweep.root, without={PLAN, ".claim"})
        # The trials stay those of the source, whose records they link to.
        text = plan.decode().replace(source.sweep_id, sweep.sweep_id, 1)
        (sweep.root / PLAN).write_text(with_digest(text))
        factor = SHIFT if number >= SHIFTED_FROM * count else 1.0
        _vary_results(sweep, tables, shifted, factor, rng)
        if source_home:
            for folder, copy in _folders_of(source_home, home, source.sweep_id, sweep.sweep_id):
                _link_tree(folder, copy)
        say(number)


def _id_of(source: SweepFolder, number: int) -> str:
    name = source.sweep_id.rsplit("-", 2)[0]
    planned = datetime.fromtimestamp(BEGIN_S + number * EVERY_S, UTC)
    return f"{name}-{planned:%Y%m%dT%H%M%S}-{number % (1 << 16):04x}"


def _folders_of(source: Home, target: Home, old: str, new: str) -> Iterator[tuple[Path, Path]]:
    """Yield the folders of logs that belong to a sweep, and those of its copy."""
    if (source.logs / old).is_dir():
        yield source.logs / old, target.logs / new
    for cluster in source.clusters.glob(f"{old}*"):
        yield cluster, target.clusters / cluster.name.replace(old, new)


def _link_tree(
    source: Path, target: Path, without: frozenset[str] | set[str] = frozenset()
) -> None:
    shutil.copytree(
        source,
        target,
        copy_function=os.link,
        ignore=lambda folder, _: without if Path(folder) == source else (),
    )


def _vary_results(
    sweep: SweepFolder,
    tables: Mapping[str, pa.Table],
    shifted: str,
    factor: float,
    rng: random.Random,
) -> None:
    """Replace tables of the results by ones with other figures, and their digests."""
    manifest = parse_results_manifest((sweep.results / RESULTS_MANIFEST).read_bytes())
    digests = dict(manifest.tables)
    for name, table in tables.items():
        path = sweep.results / f"{name}.parquet"
        path.unlink()
        pq.write_table(_varied(table, _VARIED[name], shifted, factor, rng), path)
        digests[path.name] = digest_of(path.read_bytes())
    (sweep.results / RESULTS_MANIFEST).unlink()
    changed = manifest.model_copy(update={"tables": digests})
    (sweep.results / RESULTS_MANIFEST).write_text(changed.to_json())


def _varied(
    table: pa.Table, columns: re.Pattern[str], shifted: str, factor: float, rng: random.Random
) -> pa.Table:
    trials = table["trial_id"].to_pylist()
    own = {one: math.exp(rng.gauss(0, NOISE)) for one in dict.fromkeys(trials)}
    own[shifted] = own.get(shifted, 1.0) * factor  # a table may have no row of it
    for place, field in enumerate(table.schema):
        if columns.fullmatch(field.name):
            values = [
                None if value is None else type(value)(value * own[trial])
                for trial, value in zip(trials, table[field.name].to_pylist(), strict=True)
            ]
            table = table.set_column(place, field, pa.array(values, field.type))
    return table
