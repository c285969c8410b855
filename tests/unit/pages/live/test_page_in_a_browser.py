"""The live page as its readers see it: mid-trial, at three widths, dark, without barriers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.browser import WIDTHS, Browser, browser

from ackbench.experiments.pages.live.files import PAGE
from ackbench.experiments.pages.live.page import (
    PageState,
    Sections,
    news_of,
    sections_of,
    waiting_sections,
    write_data,
    write_page,
)
from ackbench.experiments.pages.live.sweep import LiveSweep
from ackbench.infra.process.waiting import wait_until


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    """Return a browser."""
    with browser() as opened:
        yield opened


def write(folder: Path, live: LiveSweep, *, age_s: float = 0, over: bool = True) -> Path:
    """Write the page of a sweep; return it."""
    at_ns = time.time_ns() - round(age_s * 1e9)
    write_page(folder, PageState(sections_of(live), news_of(live), at_ns, over))
    return folder / PAGE


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_has_no_barriers_and_fits(
    live: LiveSweep, shown: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    """By axe-core's rules; readers scroll in one direction only, and no word is broken."""
    shown.open(write(tmp_path, live), width, dark=dark)
    assert shown.violations() == []
    assert shown.size()[0] <= shown.visible_width()
    assert shown.broken_words() == []


@pytest.mark.further(width=WIDTHS[:-1])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_between_sweeps_has_no_barriers(
    shown: Browser, tmp_path: Path, width: int
) -> None:
    """No sweep has run yet."""
    state = PageState(waiting_sections(), "No sweep runs now.", time.time_ns(), over=True)
    write_page(tmp_path, state)
    shown.open(tmp_path / PAGE, width)
    assert shown.violations() == []
    assert shown.text("h1") == "No sweep runs now"


def test_the_page_shows_the_trial(live: LiveSweep, shown: Browser, tmp_path: Path) -> None:
    """Which of how many, its cell, its figures, the fault's marks, leaders and ISRs."""
    shown.open(write(tmp_path, live), 1280)
    text = shown.text("main")
    for expected in (
        "Trial 2 of 4: load, and leader-crash",
        "acks=1 idem=off RF=3 P=3 leader-crash restart_after_s=2 <&>",
        "leader-crash: healed",
        "7,000",
        "fault began at 4.00 s, took effect at 4.01 s, healed at 6.10 s",
        "1 of 4 trials have ended",
        "node 1 was the leader of partition 0 and exited after SIGKILL",
    ):
        assert expected in text, text
    assert shown.count(".plot path") == 3
    assert shown.count(".strips") == 3
    assert shown.count(".lane .no-leader") == 1
    assert shown.count(".lane .below") == 1


def test_an_open_page_shows_what_is_written_later(
    live: LiveSweep, shown: Browser, tmp_path: Path
) -> None:
    """From the disk, without a server; what has the focus keeps it."""
    page = write(tmp_path, live)
    shown.open(page, 1280)
    later = Sections(now="<h1>written later</h1>", trial="", ended=sections_of(live).ended)
    write_data(tmp_path, PageState(later, "later news", time.time_ns(), over=True))
    wait_until(
        lambda: shown.text("h1") == "written later",
        awaiting="the page to show the new content",
        timeout_s=30,
        every_s=0.2,
    )
    wait_until(
        lambda: shown.text("#news") == "later news",
        awaiting="the announcement",
        timeout_s=30,
        every_s=0.2,
    )
    assert shown.count(".ended tbody tr") == 1


def test_a_page_that_is_not_written_any_more_says_so(
    live: LiveSweep, shown: Browser, tmp_path: Path
) -> None:
    """Its run was killed, or its reader stopped, so that nothing could write the end."""
    shown.open(write(tmp_path, live, age_s=60, over=False), 1280)
    said = wait_until(
        lambda: re.match(r"No data for (\d+) s: .* (\d+) s old\.", shown.text("#news")),
        awaiting="the remark that the page is old",
        timeout_s=30,
        every_s=0.2,
    )
    assert int(said[1]) == int(said[2]) >= 60


def test_without_scripts_the_page_says_of_when_its_figures_are(
    live: LiveSweep, tmp_path: Path
) -> None:
    """Nothing tells then how old they are."""
    state = PageState(sections_of(live), news_of(live), at_ns=0, over=False)
    write_page(tmp_path, state)
    assert (
        "<noscript><p>Figures of 1970-01-01 00:00:00 UTC.</p></noscript>"
        in (tmp_path / PAGE).read_text()
    )


def test_many_partitions_do_not_make_a_long_page(
    live: LiveSweep, shown: Browser, tmp_path: Path
) -> None:
    """Those with a change are shown; of the others it is said how many there are."""
    assert live.trial is not None
    first = live.trial.events.partitions[0]
    quiet = live.trial.events.partitions[1]
    many = (first, *(replace(quiet, partition=number) for number in range(1, 50)))
    trial = replace(live.trial, events=replace(live.trial.events, partitions=many))
    shown.open(write(tmp_path, replace(live, trial=trial)), 400)
    assert shown.count(".strips") == 16
    assert "34 more partitions are not shown" in shown.text("#trial")
