"""Build the static site: one folder of HTML files that needs no server and opens from the disk.

It holds the index of all sweeps, the page of each, a trend per experiment, what breaks what with
filters, and the lessons with their findings. Building it again writes what has changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ackbench.experiments.ledger.location import Location
from ackbench.experiments.pages.report.page import write_report
from ackbench.experiments.pages.site.pages import breaks_page, index_page, lessons_page
from ackbench.experiments.pages.site.trend_page import render_trend
from ackbench.experiments.results.history.index import IndexedSweep, SweepState, index
from ackbench.experiments.results.history.kept import complete_summaries, completed, file_of
from ackbench.experiments.results.history.store import SummaryStore
from ackbench.experiments.results.history.summary import SweepSummary
from ackbench.experiments.results.history.trend import trend_of
from ackbench.experiments.sweep.documents import read_document
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import AckbenchError, InputError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

MARKER: Final = ".ackbench-site"
"""The file by which a folder is known to be such a site."""
INDEX: Final = "index.html"
BREAKS: Final = "what-breaks-what.html"
LESSONS: Final = "lessons.html"
NAVIGATION: Final[Mapping[str, str]] = MappingProxyType(
    {"sweeps": INDEX, "what breaks what": BREAKS, "lessons": LESSONS}
)
"""Links to the pages of the site, by title."""
_SWEEPS, _TRENDS = "sweeps", "trends"
_MOST_PAGE_BYTES: Final = 256 << 20
_OVER: Final = b'<p class="over">ackbench &middot; '
"""How the line above the title of a report begins."""
_BACK: Final = f'<a href="../{INDEX}">all sweeps</a> &middot; '.encode()
"""What follows it in the site: an alert links to the page of a sweep, and not to the index."""


@dataclass(frozen=True)
class BuiltSite:
    """What was built."""

    index: Path
    pages: int
    """HTML files of the site."""
    bytes: int
    remarks: tuple[str, ...]
    """Why pages are missing, one line each."""


@dataclass(frozen=True)
class SharedSweeps:
    """A store, and how to bring one of its sweeps here."""

    store: Location
    fetch: Callable[[str], SweepFolder]
    """Takes the URI of a sweep, and returns a copy without its ledgers."""


def build_site(home: Home, folder: Path, shared: SharedSweeps | None = None) -> BuiltSite:
    """Write the site of the sweeps of a home, and of a store, into a folder.

    Args:
        home: the home of the sweeps.
        folder: a new or empty folder, or an earlier site.
        shared: what other hosts published belongs to it; `None`: only the home.

    Raises:
        InputError: it is another folder, or cannot be written.
        LocationError: the store cannot be read.
    """
    _require_site_folder(folder)
    sweeps = index(home, store=shared.store if shared else None, details=False)
    if not sweeps:
        raise InputError(f"no sweep in {home.sweeps} yet: start with `ackbench run quick`")
    for name in ("", _SWEEPS, _TRENDS):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    pages, remarks = _copy_pages(home, folder, sweeps, shared)
    trends = _write_trends(home, folder, sweeps, pages)
    for name, content in (
        (INDEX, index_page(sweeps, pages, trends, NAVIGATION)),
        (BREAKS, breaks_page(_newest_first(home, sweeps), pages, NAVIGATION)),
        (LESSONS, lessons_page(sweeps, pages, trends, NAVIGATION)),
    ):
        _replace_if_changed(folder / name, content)
    files = [path for path in folder.rglob("*.html") if path.is_file()]
    return BuiltSite(
        index=folder / INDEX,
        pages=len(files),
        bytes=sum(path.stat().st_size for path in files),
        remarks=tuple(remarks),
    )


def _require_site_folder(folder: Path) -> None:
    try:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: no folder; allowed: a new or empty one, or a site")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MARKER).is_file():
            raise InputError(
                f"{folder} has other content; allowed: a new or empty folder, or an earlier site"
            )
    except OSError as error:
        raise InputError(f"{folder}: cannot be read ({error.strerror})") from error


def _copy_pages(
    home: Home, folder: Path, sweeps: Sequence[IndexedSweep], shared: SharedSweeps | None
) -> tuple[Mapping[str, str], list[str]]:
    """Copy the page of each sweep, with a link to the index; return links to them, and remarks.

    A page that was never rendered is rendered, and so is that of another host's sweep: a store's
    own page may contain anything. That of a sweep that was pruned stays in the site.
    """
    pages: dict[str, str] = {}
    remarks = []
    for one in sweeps:
        sweep_id = one.summary.sweep_id
        target = folder / _SWEEPS / f"{sweep_id}.html"
        if one.state is not SweepState.PRUNED:
            try:
                if shared and one.state is SweepState.PUBLISHED:
                    _render_published(home, shared, one.summary, target)
                else:
                    _copy_page(home, SweepFolder(home.sweeps / sweep_id), one.summary, target)
            except AckbenchError as error:
                remarks.append(f"no new page of {sweep_id}: {error}")
        if target.is_file():
            pages[sweep_id] = f"{_SWEEPS}/{sweep_id}.html"
    return pages, remarks


def _render_published(
    home: Home, shared: SharedSweeps, summary: SweepSummary, target: Path
) -> None:
    """Render the page of another host's sweep, unless it is as new as the summary."""
    file = file_of(summary)
    if file and target.is_file() and target.stat().st_mtime >= file.stat().st_mtime:
        return
    sweep = shared.fetch(shared.store.at(summary.sweep_id).uri)
    sweep.report.unlink(missing_ok=True)
    _copy_page(home, sweep, summary, target)


def _copy_page(home: Home, sweep: SweepFolder, summary: SweepSummary, target: Path) -> None:
    if not sweep.report.is_file():
        if not summary.measured:
            return
        write_report(sweep, home)
    source = sweep.report.stat()
    if target.is_file():
        copied = target.stat()
        size = source.st_size + len(_BACK)
        if (copied.st_size, copied.st_mtime_ns) == (size, source.st_mtime_ns):
            return
    report = read_document(sweep.report, _MOST_PAGE_BYTES)
    replace_file(target, report.replace(_OVER, _OVER + _BACK, 1))
    shutil.copystat(sweep.report, target)


def _newest_first(home: Home, sweeps: Sequence[IndexedSweep]) -> Iterator[SweepSummary]:
    """Yield the summaries with their cells, one after the other."""
    with SummaryStore(home) as store:
        for one in sweeps:
            yield completed(store, home, one.summary)


def _write_trends(
    home: Home, folder: Path, sweeps: Sequence[IndexedSweep], pages: Mapping[str, str]
) -> Mapping[str, str]:
    """Write a trend per experiment with at least two measured sweeps; return links to them."""
    links = {sweep_id: f"../{page}" for sweep_id, page in pages.items()}
    trends: dict[str, str] = {}
    for experiment, own in _by_experiment(sweeps):
        trend = trend_of(complete_summaries(home, [one.summary for one in own]))
        if len(trend.sweeps) > 1:
            name = f"{_TRENDS}/{experiment}.html"
            page = render_trend(trend, links, f"../{INDEX}")
            _replace_if_changed(folder / name, page)
            trends[experiment] = name
    return trends


def _by_experiment(sweeps: Sequence[IndexedSweep]) -> Iterator[tuple[str, list[IndexedSweep]]]:
    groups: dict[str, list[IndexedSweep]] = {}
    for one in sweeps:
        groups.setdefault(one.summary.experiment, []).append(one)
    yield from sorted(groups.items())


def _replace_if_changed(path: Path, content: str) -> None:
    if not path.is_file() or path.read_text(encoding="utf-8") != content:
        replace_file(path, content)
