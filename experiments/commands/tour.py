"""`ackbench tour`: test the lessons' claims one after the other, then make one page of answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from rich.table import Table

from ackbench.experiments.commands.run import (
    log_of,
    reason_of_failure,
    report_interrupt,
    run_in_child,
)
from ackbench.experiments.commands.setup import ensure_set_up
from ackbench.experiments.messages.console import console_for_results
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.pages.report.chapters import write_chapters
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.tour_page import write_tour_page
from ackbench.experiments.planning.new_sweep import new_sweep, plan_experiment, prepare_kafka
from ackbench.experiments.planning.overrides import apply_overrides
from ackbench.experiments.results.lessons.of_sweep import finding_of
from ackbench.experiments.results.lessons.tour import (
    QUICK_NOTE,
    Tour,
    TourFolder,
    TourStop,
    claims_by_lesson,
    find_tour,
    new_tour,
    parse_lessons,
)
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.spark_job import measuring_service
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import SweepLock
from ackbench.experiments.sweep.lookup import find_sweep
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import expected_duration_s, format_duration
from ackbench.infra.errors import HarnessError, InputError
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.paths import create_folder, user_path


def tour(
    home: Home,
    lessons: str | None,
    repeats: int | None,
    chapters: Path | None = None,
    *,
    quick: bool = False,
) -> int:
    """Start a tour and run it to its end.

    Args:
        home: the home of its sweeps.
        lessons: the lessons to test, as in `1,5-8`. None: all.
        repeats: repeats of each cell. None: as each experiment has it.
        chapters: a folder for the answers as Markdown chapters.
        quick: fewer repeats and short cells, with less certain answers.

    Returns:
        The exit code.

    Raises:
        InputError: invalid request; nothing was started.
        HarnessError: a sweep failed, so that its claim has no answer; the others are on the page.
    """
    home.ensure_writable()
    started = new_tour(parse_lessons(lessons), repeats, quick=quick)
    chapters = _chapters(chapters)
    folder = TourFolder(home.tours / started.tour_id)
    folder.write(started)
    return _run_stops(home, folder, chapters)


def resume(
    home: Home,
    named: str,
    again: str | None = None,
    repeats: int | None = None,
    chapters: Path | None = None,
) -> int:
    """Resume a tour at the stops that have no answer.

    Args:
        home: the home of its sweeps.
        named: the tour's id, or `newest`.
        again: lessons with an answer that are tested again, as in `1,5-8`. None: none.
        repeats: repeats of each cell of these. None: as the tour was started.
        chapters: as for `tour`.

    Returns:
        The exit code.

    Raises:
        UnknownName: there is no such tour, or it has no such lesson.
        HarnessError: as `tour`.
    """
    folder = find_tour(home, named)
    chapters = _chapters(chapters)
    if again:
        folder.write(folder.read().retest(parse_lessons(again), repeats))
    return _run_stops(home, folder, chapters)


def _chapters(named: Path | None) -> Path | None:
    """Return the folder of `--chapters`; it is made now, because it is written hours later."""
    if named is None:
        return None
    folder = user_path(str(named))
    create_folder(folder, "--chapters")
    return folder


def _run_stops(home: Home, folder: TourFolder, chapters: Path | None) -> int:
    set_matplotlib_cache(home)
    started = folder.read()
    open_stops = sum(not stop.done for stop in started.stops)
    claims = format_count(len(started.stops), "claim")
    expected = format_duration(sum(expected_duration_s(plan) for plan in _open_plans(started)))
    _say(f"{started.tour_id}: {open_stops} of {claims} to test, about {expected}")
    if started.quick:
        _say(QUICK_NOTE)
    ensure_set_up(home, _say)
    fetch_ahead(home, started)
    with measuring_service(home):
        for stop in started.stops:
            if stop.done:
                continue
            visited, code = _run_stop(home, folder, stop)
            folder.write(folder.read().with_stop(visited))
            if code:
                _say(f"resume with: ackbench tour --resume {folder.root.name}")
                return code
            write_tour_page(folder, home)
    if chapters:
        _say(f"chapters: {write_chapters(folder, home, chapters)}")
    return _print_answers(home, folder)


def _run_stop(home: Home, folder: TourFolder, stop: TourStop) -> tuple[TourStop, int]:
    """Run a stop's sweep; return the stop's new state, and an interrupt's exit code or 0."""
    start_s, started = time.monotonic(), folder.read()
    try:
        if stop.sweep_id:
            sweep = find_sweep(home, stop.sweep_id)
        else:
            sweep = new_sweep(home, stop.experiment, started.overrides(stop), _say)
    except InputError as error:
        _say(f"lesson {stop.lesson} cannot be tested on this machine: {error}")
        return stop.model_copy(update={"impossible": str(error)}), 0
    _say(f"\nlesson {stop.lesson}, {stop.experiment}")
    visited = stop.model_copy(update={"sweep_id": sweep.sweep_id, "failed": None})
    folder.write(started.with_stop(visited))  # so that the same sweep is resumed after a kill -9
    with SweepLock(home, sweep) as claim:
        outcome = run_in_child(home, sweep, claim)
    if outcome.interrupted:
        return visited, report_interrupt(home, sweep, outcome)
    log, failed = log_of(home, sweep), None
    if outcome.code or sweep.pending():
        failed = reason_of_failure(sweep, log, outcome.code)
    _say(f"{failed}\nlog: {log}" if failed else _finding_text(sweep))
    seconds = (stop.seconds or 0.0) + time.monotonic() - start_s
    return visited.model_copy(update={"seconds": seconds, "failed": failed}), 0


def _finding_text(sweep: SweepFolder) -> str:
    finding = finding_of(sweep, read_results(sweep))
    return "\n".join(finding.lines()) if finding else "the experiment tests no claim"


def fetch_ahead(home: Home, started: Tour) -> None:
    """Fetch the jars and caches of all open stops before the first of them.

    So no lesson's time includes a download, and a missing network shows at once. What cannot be
    fetched is reported again at its stop, and fails that stop alone.
    """
    for plan in _open_plans(started):
        try:
            prepare_kafka(plan, home, _say)
        except InputError as error:
            _say(str(error))


def _open_plans(started: Tour) -> Iterator[Plan]:
    """Yield the plans of the open stops that can be planned."""
    claims = claims_by_lesson()
    for stop in started.stops:
        if not stop.done:
            experiment = claims[stop.lesson]
            with suppress(InputError):  # reported when the stop is run
                changed = apply_overrides(experiment, started.overrides(stop))
                yield plan_experiment(changed, "tour", experiment.name)


def _print_answers(home: Home, folder: TourFolder) -> int:
    """Print the conclusions and the page's path; fail if a stop failed."""
    ended, page = folder.read(), write_tour_page(folder, home)
    console = console_for_results(terminal=sys.stdout.isatty())
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for row in _answer_rows(home, ended):
        table.add_row(*row)
    console.print()
    console.print(table)
    total = format_duration(sum(stop.seconds or 0.0 for stop in ended.stops))
    echo(f"\ntotal:  {total}\npage:   {page}")
    failed = sum(stop.failed is not None for stop in ended.stops)
    if failed:
        missing = f"{failed} of {len(ended.stops)} claims have no answer: the harness failed"
        raise HarnessError(f"{missing}\nresume with: ackbench tour --resume {ended.tour_id}")
    return 0


def _answer_rows(home: Home, ended: Tour) -> Iterator[tuple[str, str, str, str]]:
    for stop in ended.stops:
        time_text = "" if stop.seconds is None else format_duration(stop.seconds)
        yield str(stop.lesson), stop.experiment, _conclusion(home, stop), time_text


def _conclusion(home: Home, stop: TourStop) -> str:
    if stop.impossible:
        return "cannot be tested on this machine"
    finding = None
    if stop.sweep_id and stop.seconds is not None and not stop.failed:
        sweep = find_sweep(home, stop.sweep_id)
        finding = finding_of(sweep, read_results(sweep))
    return finding.conclusion.value if finding else "failed"


def _say(text: str) -> None:
    echo_error(text)
