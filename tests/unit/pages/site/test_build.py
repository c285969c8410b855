"""The static site: its pages, their links, and how long building takes."""

from __future__ import annotations

import re
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.builders.nights import history, keep_as_current, shifted
from support.builders.sweeps import measured_sweep

from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.pages.site.build import build_site
from ackbench.experiments.results.history.kept import keep_pruned, summary_of
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home

_LINK = re.compile(r'href="([^"#]+)')


def plant_sweeps(home: Home, nights: int, page: str) -> None:
    """Write the summaries and pages of some nights of two experiments."""
    for experiment in ("nightly", "weekly"):
        count = nights if experiment == "nightly" else 2
        for summary in history(
            count, seed=3, level=shifted(nights // 2, 1.3), experiment=experiment
        ):
            sweep = SweepFolder(home.sweeps / summary.sweep_id)
            sweep.root.mkdir(parents=True)
            (sweep.root / "plan.json").write_text("{}")
            sweep.report.write_text(page)
            keep_as_current(home, summary)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the report of a planted sweep."""
    set_matplotlib_cache(Home(tmp_path_factory.mktemp("cache")))
    return render_page(measured_sweep())


@pytest.fixture
def home(tmp_path: Path, page: str) -> Home:
    """Return a home with 30 nights of one experiment and 2 of another."""
    home = Home(tmp_path / "home")
    plant_sweeps(home, 30, page)
    return home


def test_every_link_leads_to_a_file_of_the_site(home: Home, tmp_path: Path) -> None:
    """It opens from the disk: no link begins with a slash or needs a server."""
    built = build_site(home, tmp_path / "site")
    links = 0
    for path in (tmp_path / "site").rglob("*.html"):
        text = path.read_text()
        if path.parent.name == "sweeps":
            assert text.count('<a href="../index.html">all sweeps</a>') == 1
            text = text[: text.index("<h1>")]
        for link in _LINK.findall(text):
            assert (path.parent / unquote(link)).resolve().is_file(), (path, link)
            links += 1
    assert links > 32  # each sweep, and more
    assert built.index == tmp_path / "site" / "index.html"


def test_every_sweep_has_its_page_and_every_experiment_its_trend(
    home: Home, tmp_path: Path
) -> None:
    """The site has nothing else."""
    built = build_site(home, tmp_path / "site")
    names = {
        str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.html")
    }
    sweeps = {f"sweeps/{folder.name}.html" for folder in home.sweeps.iterdir()}
    assert names == {
        *sweeps,
        *("index.html", "what-breaks-what.html", "lessons.html"),
        *("trends/nightly.html", "trends/weekly.html"),
    }
    assert built.pages == len(names)
    assert built.remarks == ()


def test_building_again_writes_only_what_changed(home: Home, tmp_path: Path) -> None:
    """So that a site can be built every night and copied by its differences."""
    build_site(home, tmp_path / "site")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "site").rglob("*.html")}
    changed = SweepFolder(next(home.sweeps.iterdir()))
    changed.report.write_text(changed.report.read_text().replace("<h1>", "<h1>Another ", 1))
    build_site(home, tmp_path / "site")
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "site").rglob("*.html")}
    assert [path.stem for path, time_ns in after.items() if before[path] != time_ns] == [
        changed.sweep_id
    ]


def test_the_page_of_a_pruned_sweep_stays(home: Home, tmp_path: Path) -> None:
    """It is an archive of what can no longer be rendered."""
    import shutil

    build_site(home, tmp_path / "site")
    gone = min(folder.name for folder in home.sweeps.iterdir())
    keep_pruned(home, summary_of(SweepFolder(home.sweeps / gone), home))
    shutil.rmtree(home.sweeps / gone)
    build_site(home, tmp_path / "site")
    assert f'href="sweeps/{gone}.html"' in (tmp_path / "site" / "index.html").read_text()


def test_another_folder_is_refused(home: Home, tmp_path: Path) -> None:
    """Nothing of it is overwritten."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    with pytest.raises(InputError, match="has other content"):
        build_site(home, tmp_path / "mine")
    assert (tmp_path / "mine" / "index.html").read_text() == "mine"


def test_a_file_is_no_folder(home: Home, tmp_path: Path) -> None:
    """One line says so."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="no folder"):
        build_site(home, tmp_path / "file")


def test_200_sweeps_take_a_few_seconds(tmp_path: Path) -> None:
    """Without the reports, which are copied, the site has less than 2 MB."""
    home = Home(tmp_path / "home")
    plant_sweeps(home, 200, "<html><title>a report</title></html>")
    begin_s = time.process_time()
    built = build_site(home, tmp_path / "site")
    assert time.process_time() - begin_s < 10
    assert built.pages == 200 + 2 + 3 + 2
    assert built.bytes < 2_000_000
