"""The site as readers see it: at three widths, dark, printed, without barriers, by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import WIDTHS, Browser, browser
from support.builders.nights import history, keep_as_current, shifted
from support.stored_sweep import site_page, stored_sweep
from support.tiers import pairs

from ackbench.experiments.pages.site.build import build_site
from ackbench.experiments.results.lessons.finding import Conclusion
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.infra.machine.home import Home

PAGES = ("index.html", "what-breaks-what.html", "lessons.html", "trends/nightly.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a site of 30 nights."""
    root = tmp_path_factory.mktemp("site")
    home = Home(root / "home")
    nights = history(30, seed=3, level=shifted(15, 1.3))
    lessons = ("leader-only", "failover-time", "no-key", "power-cut")
    for name, conclusion in zip(lessons, Conclusion, strict=True):
        (lesson,) = history(1, seed=4, experiment=name)
        nights.append(lesson.model_copy(update={"conclusion": conclusion.value}))
    for summary in nights:
        sweep = SweepFolder(home.sweeps / summary.sweep_id)
        sweep.root.mkdir(parents=True)
        (sweep.root / "plan.json").write_text("{}")
        sweep.report.write_text("<html><title>a report</title></html>")
        keep_as_current(home, summary)
    return build_site(home, root / "public").index.parent


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    """Return a browser."""
    with browser() as opened:
        yield opened


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize(("name", "dark"), pairs(PAGES, [False, True]))
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_has_no_barriers(
    site: Path, shown: Browser, name: str, width: int, dark: bool
) -> None:
    """By axe-core's rules: contrast, labels, order of headings."""
    shown.open(site / name, width, dark=dark)
    assert shown.violations() == []


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_page_is_not_wider_than_the_window(
    site: Path, shown: Browser, name: str, width: int
) -> None:
    """A reader scrolls in one direction only."""
    shown.open(site / name, width)
    assert shown.size()[0] <= shown.visible_width()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_can_be_printed(site: Path, shown: Browser, name: str) -> None:
    """On a few sheets."""
    shown.open(site / name, 1280)
    assert 1 <= shown.printed_pages() <= 6


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_of_real_cells_is_broken(tmp_path: Path, shown: Browser, width: int) -> None:
    """Beside long settings, versions were: 4.3. and 1."""
    (tmp_path / "page.html").write_text(site_page(stored_sweep()), encoding="utf-8")
    shown.open(tmp_path / "page.html", width)
    assert shown.broken_words() == []
    assert shown.size()[0] <= shown.visible_width()


def test_a_printed_trend_has_its_charts(site: Path, shown: Browser) -> None:
    """Also if other cells are folded: the rule that hides a folded section hid all cells."""
    shown.open(site / "trends" / "nightly.html", 1280, printed=True)
    assert 0 < shown.count(".cell[open]") < shown.count(".cell")
    assert "ack p99: newest" in shown.text("main")


def test_the_changes_of_a_trend_are_read_without_scrolling_sideways(
    site: Path, shown: Browser
) -> None:
    """On a phone a change is a block with the names of its columns."""
    shown.open(site / "trends" / "nightly.html", 400)
    ((first, entries), *_) = shown.rows("table.list")
    assert first == "2026-01-16"
    assert [head for head, _ in entries] == ["measure", "level", "with", "cell", "from sweep"]
    assert shown.count(".scroll") == 0


def test_what_was_not_tested_has_no_mark_of_a_finding(site: Path, shown: Browser) -> None:
    """Its three words were broken into a circle that was too small for them."""
    shown.open(site / "lessons.html", 1280)
    assert shown.count(".conclusion-tag") == len(Conclusion)
    assert "not tested here" in shown.text("main")


def test_a_filter_hides_the_other_rows(site: Path, shown: Browser) -> None:
    """And says how many are left; the address keeps it."""
    shown.open(site / "what-breaks-what.html", 1280, "acks=all&fault=leader-pause")
    assert shown.text("#count") == "1 of 4 shown"
    assert shown.count("tr[data-row]:not([hidden])") == 1


def test_no_filter_is_another_word_than_acks_all(site: Path, shown: Browser) -> None:
    """The filter of acks had two entries with the same name."""
    shown.open(site / "what-breaks-what.html", 1280)
    entries = shown.text("#acks").split()
    assert len(set(entries)) == len(entries)
    assert {"any", "all"} <= set(entries)


def test_words_filter_by_the_text_of_a_row(site: Path, shown: Browser) -> None:
    """As typed by keyboard."""
    shown.open(site / "index.html", 1280)
    shown.type_into("#words", "nightly-20260101")
    assert shown.text("#count") == "1 of 34 shown"


def test_filters_are_reached_by_keyboard(site: Path, shown: Browser) -> None:
    """In the order of the page, after the links of its head."""
    shown.open(site / "index.html", 1280)
    order = shown.focus_order(20)
    assert order.index("experiment") < order.index("version") < order.index("words")
