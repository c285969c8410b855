"""The history of all sweeps in a store, which every host shows as its own.

Beside its sweeps a store has `summaries/<sweep>.<digest>.json`. A home keeps copies of them in its
index; which of them are new, the names say.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.results.history.summarize import summarize
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.results.history.warehouse import warehouse_beside, write_files
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lookup import SUMMARIES, is_sweep_id
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

_DIGITS: Final = 16
_REQUESTS: Final = 16
"""Files that are copied at a time."""


def publish_history(sweep: SweepFolder, files: Mapping[str, bytes], published: Location) -> None:
    """Write what a store keeps of a sweep beside it: its files of the warehouse, and its summary.

    A copy of a published sweep does not say how long it took, nor how large its folder is: the
    summary of the host that ran it does.

    Args:
        sweep: the sweep.
        files: of the warehouse.
        published: where the sweep is published.

    Raises:
        LocationError: the store cannot be read or written.
    """
    write_files(files, warehouse_beside(published))
    summary, store = summarize(sweep, ""), published.parent
    for earlier in _stored_summaries(sweep.sweep_id, store) if sweep.origin else ():
        if earlier.took_s is not None:
            known = {"took_s": earlier.took_s, "size_bytes": earlier.size_bytes}
            summary = summary.model_copy(update=known)
    write_summary(summary, store)


def _stored_summaries(sweep_id: str, store: Location) -> Iterator[SweepSummary]:
    folder = store.at(SUMMARIES)
    for name in folder.list_files():
        if _sweep_of(name) == sweep_id and (content := folder.read(name)):
            with suppress(ValidationError):  # damaged, or of another version
                yield SweepSummary.model_validate_json(content)


def write_summary(summary: SweepSummary, store: Location) -> None:
    """Write the summary of a sweep in place of an earlier one.

    Raises:
        LocationError: the store cannot be read or written.
    """
    content = summary.model_dump_json(exclude_defaults=True).encode()
    digest = hashlib.sha256(content).hexdigest()[:_DIGITS]
    name, folder = f"{summary.sweep_id}.{digest}.json", store.at(SUMMARIES)
    folder.write(name, content)
    for other in folder.list_files():
        if _sweep_of(other) == summary.sweep_id and other != name:
            folder.delete(other)


def fetch_summaries(home: Home, store: Location) -> Mapping[str, Path]:
    """Return the summaries of a store's sweeps: this home's copies, by sweep.

    Raises:
        LocationError: the store cannot be read.
        OSError: the home cannot be written.
    """
    source = store.at(SUMMARIES)
    copies = home.index / "stores" / hashlib.sha256(store.uri.encode()).hexdigest()[:_DIGITS]
    copies.mkdir(parents=True, exist_ok=True)
    offered = {name: sweep_id for name in source.list_files() if (sweep_id := _sweep_of(name))}
    present = {path.name for path in copies.glob("[!.]*.json")}

    def fetch(name: str) -> None:
        if (content := source.read(name)) is not None:  # replaced since it was listed
            replace_file(copies / name, content, durable=False)

    with ThreadPoolExecutor(_REQUESTS) as requests:
        list(requests.map(fetch, offered.keys() - present))
    for name in present - offered.keys():
        (copies / name).unlink(missing_ok=True)
    return dict(_copied(copies, offered))


def _copied(copies: Path, offered: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    for name, sweep_id in sorted(offered.items()):
        if (copies / name).is_file():
            yield sweep_id, copies / name


def _sweep_of(name: str) -> str | None:
    """Return whose summary a file of the store is; `None`: it is none."""
    sweep_id, _, rest = name.partition(".")
    digest, _, suffix = rest.partition(".")
    is_summary = len(digest) == _DIGITS and digest.isalnum() and suffix == "json"
    return sweep_id if is_summary and is_sweep_id(sweep_id) else None
