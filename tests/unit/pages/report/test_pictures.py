"""The README's table and pictures are those of the stored sweep, as its page is now."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures.readme_table import readme_table
from support.builders.sweeps import measured_sweep
from support.stored_sweep import (
    PAGE_FINGERPRINT,
    SITE_FINGERPRINT,
    fingerprint_of,
    is_page_of,
    site_page,
    store_sweep,
    stored_sweep,
)

from ackbench.experiments.pages.report.data import ReportData
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.page import render_page
from ackbench.infra.machine.home import Home

README = Path(__file__).parents[4] / "README.md"


@pytest.fixture(scope="module", autouse=True)
def _matplotlib(tmp_path_factory: pytest.TempPathFactory) -> None:
    set_matplotlib_cache(Home(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="module")
def stored() -> ReportData:
    """Return the stored sweep."""
    return stored_sweep()


def test_the_pictures_show_the_page_as_it_is_now(stored: ReportData) -> None:
    """Otherwise run `make pictures`, and look at them."""
    assert is_page_of(render_page(stored), PAGE_FINGERPRINT.read_text())


def test_the_picture_of_the_site_shows_its_page_as_it_is_now(stored: ReportData) -> None:
    """Otherwise run `make pictures`, and look at it."""
    assert is_page_of(site_page(stored), SITE_FINGERPRINT.read_text())


def test_the_table_of_the_readme_has_the_figures_of_the_stored_sweep(stored: ReportData) -> None:
    """Otherwise run `make pictures`."""
    assert readme_table(stored.results) in README.read_text()


@pytest.mark.further
def test_a_stored_sweep_has_the_same_page(tmp_path: Path) -> None:
    """Nothing that the page shows is changed by storing it."""
    data = measured_sweep()
    store_sweep(data, tmp_path / "sweep.json.xz")

    assert render_page(stored_sweep(tmp_path / "sweep.json.xz")) == render_page(data)


def test_a_page_whose_drawing_moved_is_another_one_and_one_rounded_otherwise_is_not() -> None:
    """The last digit of a coordinate is the processor's; a bar of another length is not."""
    page = '<p>12.5</p><svg viewBox="0 0 10 10"><path d="M0 39.4L10 39.4"/></svg>'
    stored = fingerprint_of(page)
    assert is_page_of(page.replace("M0 39.4", "M0 39.5"), stored)
    assert not is_page_of(page.replace("39.4", "49.4"), stored)
    assert not is_page_of(page.replace("<p>12.5", "<p>12.6"), stored)
    assert not is_page_of(page.replace("<path", "<line"), stored)
