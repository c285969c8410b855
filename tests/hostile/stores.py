"""A store whose disk becomes full while a sweep is published, at any byte of it.

The store is a folder on a file system in memory (tmpfs, as root). The first round runs a sweep with
such a store; the others publish a planted one.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from e2e.command import AckbenchCommand, new_bench
from hostile.figures import Figures
from hostile.stages import EXPERIMENT, digests, sweep_ids
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.ledger.digests import digest_of
from ackbench.experiments.ledger.results_manifest import RESULTS_MANIFEST, ResultsManifest
from ackbench.experiments.sweep.folder import SweepFolder

TRIALS: Final = 6
_ROOM_BYTES: Final = 64 << 20
_PAGE_BYTES: Final = 4096
_EXIT_TIMEOUT_S: Final = 600.0


def run(rounds: int, seed: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Publish a sweep to a disk with too little room, read it, make room, and publish the rest.

    Args:
        rounds: how often.
        seed: determines how much room there is.
        say: called with one line per round.
    """
    start_s = time.monotonic()
    law = "one line names the store, no half is read as the whole, publishing again completes it"
    if os.geteuid() != 0:
        say("left out: mounting a small file system needs root")
        return Figures("stores (left out: not root)", law, 0, (), 0.0)
    say(f"seed {seed}")
    random = Random(seed)  # noqa: S311 - no secret
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        bench = new_bench(Path(folder))
        experiment = Path(folder) / "killed.yaml"
        experiment.write_text(EXPERIMENT)
        planted = _planted(bench)
        size_bytes = _size_bytes(planted)
        for number in range(rounds):
            store = Path(folder) / f"store {number}"
            store.mkdir()
            room_bytes = random.randrange(_PAGE_BYTES, size_bytes)
            with _small_disk(store, room_bytes):
                found = [
                    *(_run(bench, str(experiment), store) if number == 0 else ()),
                    *(_publish(bench, planted, store) if number else ()),
                ]
            what = "a sweep that runs" if number == 0 else "a planted sweep"
            line = f"{what}, room for {room_bytes:,} of {size_bytes:,} bytes"
            say(f"{line}: {'; '.join(found) or 'held'}")
            failures += [f"{line}: {one}" for one in found]
    return Figures("stores", law, rounds, tuple(failures), time.monotonic() - start_s)


def _planted(bench: AckbenchCommand) -> SweepFolder:
    specs = [
        a_spec(trial_id=f"{number:03d}-aaaaaa", repeat=number % 2, partitions=1 + number // 2)
        for number in range(TRIALS)
    ]
    sweep = measured_sweep_folder(bench.home, "planted", specs, lambda _: {})
    tables = {path.name: digest_of(path.read_bytes()) for path in sweep.results.glob("*.parquet")}
    (sweep.results / RESULTS_MANIFEST).write_text(ResultsManifest(tables=tables).to_json())
    return sweep


def _size_bytes(sweep: SweepFolder) -> int:
    """Return what a sweep takes on a disk, in whole pages."""
    files = (path for path in sweep.root.rglob("*") if path.is_file())
    return sum(-(-path.stat().st_size // _PAGE_BYTES) * _PAGE_BYTES for path in files)


@contextmanager
def _small_disk(folder: Path, room_bytes: int) -> Iterator[None]:
    options = f"size={room_bytes},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "ackbench-test", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def _make_room(store: Path) -> None:
    options = f"remount,size={_ROOM_BYTES}"
    subprocess.run(["mount", "-o", options, store], check=True)


def _run(bench: AckbenchCommand, experiment: str, store: Path) -> Iterator[str]:
    """Run a sweep whose store is too small; it is complete at home."""
    known = set(sweep_ids(bench))
    done = bench.run("run", experiment, "--store", store.as_uri(), timeout_s=_EXIT_TIMEOUT_S)
    (name,) = set(sweep_ids(bench)) - known
    sweep = SweepFolder(bench.home.sweeps / name)
    yield from _one_line(done, store, name)
    if sweep.pending():
        yield f"not complete at home: {sweep.pending()}"
    yield from _later(bench, sweep, store)


def _publish(bench: AckbenchCommand, sweep: SweepFolder, store: Path) -> Iterator[str]:
    """Publish a sweep to a store that is too small."""
    done = bench.run("publish", sweep.sweep_id, store.as_uri())
    yield from _one_line(done, store, sweep.sweep_id)
    yield from _later(bench, sweep, store)


def _one_line(done: subprocess.CompletedProcess[str], store: Path, name: str) -> Iterator[str]:
    lines = [line for line in done.stderr.splitlines() if line.startswith("ackbench: ")]
    said = lines[-1] if lines else ""
    if done.returncode not in {1, 2} or "Traceback" in done.stderr:
        yield f"exit code {done.returncode}: {done.stderr[-400:]!r}"
    if store.as_uri() not in said and str(store) not in said:
        yield f"the store is not named: {done.stderr[-400:]!r}"
    if "No space left on device" not in said and "full" not in said:
        yield f"the full disk is not named: {said!r}"
    if f"ackbench publish {name}" not in said:
        yield f"the remedy is missing: {said!r}"


def _later(bench: AckbenchCommand, sweep: SweepFolder, store: Path) -> Iterator[str]:
    """Read what is published, make room and publish again; yield what did not hold."""
    uri, before = f"{store.as_uri()}/{sweep.sweep_id}", digests(sweep)
    yield from (f"left in the store: {path}" for path in _hidden(store))
    yield from _half(bench, sweep, uri)
    _make_room(store)
    again = bench.run("publish", sweep.sweep_id)
    if again.returncode:
        yield f"not published later: {again.stderr[-300:]!r}"
        return
    yield from (f"left in the store: {path}" for path in _hidden(store))
    if _figures(bench.show(uri)) != _figures(bench.show(sweep.sweep_id)):
        yield "the published sweep is another one"
    if digests(sweep) != before:
        yield "the sweep at home was altered"


def _half(bench: AckbenchCommand, sweep: SweepFolder, uri: str) -> Iterator[str]:
    """Yield what is wrong with what a reader sees of a sweep that is published in part."""
    shown = bench.run("show", "--json", uri)
    if "Traceback" in shown.stderr or shown.returncode not in {0, 1, 2}:
        yield f"a reader sees: {shown.stderr[-300:]!r}"
    if shown.returncode:
        return
    figures = json.loads(shown.stdout)
    whole = bench.show(sweep.sweep_id)
    if _figures(figures) == _figures(whole):
        return  # only the report was missing
    missing = len(whole["trials"]) - len(figures["trials"])
    if not (missing == len(figures["pending"]) or figures["unmeasured"]):
        yield f"a half is read as the whole: {shown.stdout[:300]!r}"


def _figures(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: shown[name] for name in ("sweep_id", "trials", "cells", "pending", "unmeasured")}


def _hidden(store: Path) -> list[Path]:
    """Return files that an upload has begun and not completed."""
    return [path for path in store.rglob(".*") if path.is_file()]
