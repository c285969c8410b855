"""`ackbench tour`: the lessons' claims one after the other, then one page with all answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import click
from rich.table import Table

from experiments.commands.run import followed, interrupted, log_of, reason_of_failure
from experiments.commands.sweep_claim import SweepClaim
from experiments.lessons import finding_of
from experiments.lessons.tour import (
    Tour,
    TourFolder,
    TourStop,
    claims_by_lesson,
    find_tour,
    lessons_of,
    new_tour,
)
from experiments.messages.counts import counted
from experiments.planning.new_sweep import find_sweep, make_ready, new_sweep, planned_as
from experiments.planning.overrides import Overrides
from experiments.report.chapters import write_chapters
from experiments.report.drawing import prepare
from experiments.report.tour_page import make_tour_page
from experiments.results.tables import console_for_results
from experiments.sweep.folder import SweepFolder
from experiments.sweep.plan import Plan
from experiments.sweep.progress import clock, expected_s
from infra.errors import HarnessError, InputError
from infra.machine.home import Home


def tour(home: Home, lessons: str | None, repeats: int | None, chapters: Path | None = None) -> int:
    """Begin a tour and carry it to its end; return the exit code.

    Args:
        home: where its sweeps will lie.
        lessons: which, as `1,5-8`; `None`: all.
        repeats: of each cell; `None`: as each experiment has it.
        chapters: where the answers are written as chapters of a document, too.

    Raises:
        InputError: the request cannot be; nothing was started.
        HarnessError: some answer is missing because a sweep could not be carried out; the others are on the page.
    """
    home.ensure_writable()
    begun = new_tour(lessons_of(lessons), repeats)
    folder = TourFolder(home.tours / begun.tour_id)
    folder.write(begun)
    return _carried_out(home, folder, chapters)


def resume(
    home: Home,
    named: str,
    again: str | None = None,
    repeats: int | None = None,
    chapters: Path | None = None,
) -> int:
    """Go on with a tour: the stops that have no answer yet; return the exit code.

    Args:
        home: where its sweeps lie.
        named: the tour, or `newest`.
        again: lessons that are tested again though they have their answer, as `1,5-8`; `None`: none.
        repeats: of each cell of these; `None`: as the tour was begun.
        chapters: as `tour`.

    Raises:
        UnknownName: there is no such tour, or it has no such lesson.
        HarnessError: as `tour`.
    """
    folder = find_tour(home, named)
    if again:
        folder.write(folder.read().again(lessons_of(again), repeats))
    return _carried_out(home, folder, chapters)


def _carried_out(home: Home, folder: TourFolder, chapters: Path | None) -> int:
    prepare(home)
    whole = folder.read()
    todo = sum(not stop.done for stop in whole.stops)
    _say(
        f"{whole.tour_id}: {todo} of {counted(len(whole.stops), 'claim')} to test, about {clock(_expected_s(whole))}"
    )
    fetch_ahead(home, whole)
    for stop in whole.stops:
        if stop.done:
            continue
        ended, code = _visited(home, folder, stop)
        folder.write(folder.read().with_stop(ended))
        if code:
            _say(f"go on with: ackbench tour --resume {folder.root.name}")
            return code
        make_tour_page(folder, home)
    if chapters:
        _say(f"chapters: {write_chapters(folder, home, chapters)}")
    return _told(home, folder)


def _visited(home: Home, folder: TourFolder, stop: TourStop) -> tuple[TourStop, int]:
    """Run a stop's sweep; return what became of it, and the exit code of an interrupt or 0."""
    began_s, whole = time.monotonic(), folder.read()
    try:
        sweep = (
            find_sweep(home, stop.sweep_id)
            if stop.sweep_id
            else new_sweep(
                home, stop.experiment, Overrides(repeats=stop.repeats or whole.repeats), _say
            )
        )
    except InputError as error:
        _say(f"lesson {stop.lesson} cannot be tested here: {error}")
        return stop.model_copy(update={"impossible": str(error)}), 0
    _say(f"\nlesson {stop.lesson}, {stop.experiment}")
    so_far = stop.model_copy(update={"sweep_id": sweep.sweep_id, "failed": None})
    folder.write(whole.with_stop(so_far))  # after a kill -9 the same sweep is gone on with
    with SweepClaim(home, sweep.sweep_id) as claim:
        ended = followed(home, sweep, claim)
    if ended.interrupted:
        return so_far, interrupted(home, sweep, ended)
    failed = (
        reason_of_failure(sweep, log_of(home, sweep)) if ended.code or sweep.pending() else None
    )
    _say(f"{failed}\nlog: {log_of(home, sweep)}" if failed else _sentence(sweep))
    return so_far.model_copy(
        update={"seconds": (stop.seconds or 0.0) + time.monotonic() - began_s, "failed": failed}
    ), 0


def _sentence(sweep: SweepFolder) -> str:
    finding = finding_of(sweep)
    return "\n".join(finding.lines()) if finding else "it makes no claim"


def _expected_s(whole: Tour) -> float:
    """Return about how long what is left takes."""
    return sum(expected_s(planned) for planned in _plans(whole))


def fetch_ahead(home: Home, whole: Tour) -> None:
    """Fetch what the stops will need, before the first of them: a lesson's time is then its own, and a network that is away shows at once.

    What cannot be had is told again where it is needed, and costs that stop alone.
    """
    for planned in _plans(whole):
        try:
            make_ready(planned, home, _say)
        except InputError as error:
            _say(str(error))


def _plans(whole: Tour) -> Iterator[Plan]:
    """Give the plans of what is left; what cannot be planned has none."""
    claims = claims_by_lesson()
    for stop in whole.stops:
        if not stop.done:
            experiment = claims[stop.lesson]
            repeats = stop.repeats or whole.repeats or experiment.repeats
            with suppress(InputError):  # said at its stop
                yield planned_as(
                    experiment.model_copy(update={"repeats": repeats}), "tour", experiment.name
                )


def _told(home: Home, folder: TourFolder) -> int:
    """Print the answers, where the page lies, and what failed."""
    whole, page = folder.read(), make_tour_page(folder, home)
    console = console_for_results(terminal=sys.stdout.isatty())
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for row in _rows(home, whole):
        table.add_row(*row)
    console.print()
    console.print(table, highlight=False)
    click.echo(
        f"\nin all: {clock(sum(stop.seconds or 0.0 for stop in whole.stops))}\npage:   {page}"
    )
    failed = [stop for stop in whole.stops if stop.failed]
    if failed:
        raise HarnessError(
            f"{len(failed)} of {len(whole.stops)} have no answer: the harness failed\ngo on with: ackbench tour --resume {whole.tour_id}"
        )
    return 0


def _rows(home: Home, whole: Tour) -> Iterator[tuple[str, str, str, str]]:
    for stop in whole.stops:
        finding = (
            finding_of(find_sweep(home, stop.sweep_id))
            if stop.sweep_id and stop.seconds is not None and not stop.failed
            else None
        )
        told = (
            finding.conclusion.value
            if finding
            else "cannot be tested here"
            if stop.impossible
            else "failed"
        )
        yield (
            str(stop.lesson),
            stop.experiment,
            told,
            clock(stop.seconds) if stop.seconds is not None else "",
        )


def _say(text: str) -> None:
    click.echo(text, err=True)
