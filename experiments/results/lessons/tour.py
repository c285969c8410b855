"""A tour: the claims of all lessons, each with the sweep that tests it.

A tour is a folder below the home. Its state is in `tour.json`, so that an interrupted tour can be
resumed.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from ackbench.experiments.ledger.documents import why_unreadable, with_version, without_version
from ackbench.experiments.ledger.trial_manifest import Frozen
from ackbench.experiments.messages.errors import LedgerError, UnknownName
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.planning.catalog.loading import catalog_experiments, load_experiment
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.overrides import Overrides
from ackbench.experiments.results.lessons.finding import MIN_TRIALS
from ackbench.experiments.sweep.documents import read_document
from ackbench.infra.errors import InputError
from ackbench.infra.machine.files import replace_file
from ackbench.infra.machine.home import Home

QUICK_REPEATS: Final = MIN_TRIALS
"""Repeats of a quick tour: the fewest with which a claim can be supported or refuted."""
QUICK_NOTE: Final = (
    f"Quick tour: {QUICK_REPEATS} repeats per cell, short cells, and controls in the first sweep "
    f"only. Something that happens in none of {QUICK_REPEATS} trials may still happen in most of "
    "all trials, and the order of costs, which needs 6 pairs, cannot be decided."
)
_RANGE: Final = re.compile(r"^(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?$")
_TOUR_FILE: Final = "tour.json"


class TourStop(Frozen):
    """One lesson of a tour."""

    lesson: int
    experiment: str
    sweep_id: str | None = None
    """The sweep that tests the claim; None: not started yet, or impossible."""
    repeats: int | None = None
    """Repeats per cell; None: as set for the tour."""
    seconds: float | None = None
    """Duration of the sweep; None: not finished."""
    impossible: str | None = None
    """Why this machine or cluster cannot run the experiment; None: it can."""
    failed: str | None = None
    """Why the harness could not finish the sweep; None: it did not fail."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to run: the sweep has finished, or is impossible here."""
        return self.impossible is not None or (self.seconds is not None and self.failed is None)


class Tour(Frozen):
    """The stops of a tour, ordered by lesson."""

    tour_id: str
    repeats: int | None = None
    """Repeats per cell; None: as each experiment sets them."""
    quick: bool = False
    """Whether each experiment has `QUICK_REPEATS` repeats and the short cells of its claim.

    Only the first one has controls, which test the harness.
    """
    stops: tuple[TourStop, ...]

    def overrides(self, stop: TourStop) -> Overrides:
        """Return the overrides of a stop's experiment.

        Raises:
            UnknownName: no experiment of the catalogue tests the stop's lesson.
        """
        repeats = stop.repeats or self.repeats
        if not self.quick:
            return Overrides(repeats=repeats)
        experiment = load_experiment(stop.experiment)
        return Overrides(
            axes=experiment.claim.quick if experiment.claim else {},
            repeats=repeats or min(QUICK_REPEATS, experiment.repeats),
            controls=None if stop.lesson == self.stops[0].lesson else False,
        )

    def retest(self, lessons: frozenset[int], repeats: int | None) -> Tour:
        """Return the tour with these lessons to be tested again, whatever their findings were.

        Args:
            lessons: numbers of lessons.
            repeats: repeats per cell of these lessons; None: as set for the tour.

        Raises:
            UnknownName: the tour has no stop for one of the lessons.
        """
        by_lesson = {stop.lesson: stop for stop in self.stops}
        missing = sorted(lessons - by_lesson.keys())
        if missing:
            raise UnknownName(
                f"{self.tour_id} has no lesson {missing[0]}; it has "
                f"{', '.join(map(str, by_lesson))}"
            )
        stops = tuple(
            TourStop(lesson=stop.lesson, experiment=stop.experiment, repeats=repeats)
            if stop.lesson in lessons
            else stop
            for stop in self.stops
        )
        return self.model_copy(update={"stops": stops})

    def with_stop(self, stop: TourStop) -> Tour:
        """Return the tour with the stop of that lesson replaced."""
        stops = tuple(stop if one.lesson == stop.lesson else one for one in self.stops)
        return self.model_copy(update={"stops": stops})


@dataclass(frozen=True)
class TourFolder:
    """A tour on disk: which sweeps have answered its lessons so far, and its page."""

    root: Path

    @property
    def page(self) -> Path:
        """The HTML page with the findings of all lessons."""
        return self.root / "index.html"

    def read(self) -> Tour:
        """Return the tour.

        Raises:
            LedgerError: its file is truncated, or was written by another version.
        """
        path = self.root / _TOUR_FILE
        content = read_document(path)
        try:
            return Tour.model_validate_json(without_version(content))
        except ValidationError as error:
            invalid = f"is truncated or was written by another version: {error.errors()[0]['msg']}"
            raise LedgerError(f"{path} {why_unreadable(content, invalid)}") from error

    def write(self, tour: Tour) -> None:
        """Replace the stored tour."""
        self.root.mkdir(parents=True, exist_ok=True)
        replace_file(self.root / _TOUR_FILE, with_version(tour.model_dump_json(indent=1)))


def new_tour(lessons: frozenset[int], repeats: int | None, *, quick: bool = False) -> Tour:
    """Return a new tour of these lessons; nothing is written.

    Args:
        lessons: numbers of lessons.
        repeats: repeats per cell; None: as each experiment sets them.
        quick: whether the tour is a quick one.

    Raises:
        UnknownName: no experiment of the catalogue tests one of the lessons.
    """
    claims = claims_by_lesson()
    missing = sorted(lessons - claims.keys())
    if missing:
        raise UnknownName(
            f"no experiment of the catalogue tests lesson {missing[0]}; "
            f"known: {', '.join(map(str, claims))}"
        )
    stops = tuple(
        TourStop(lesson=lesson, experiment=claims[lesson].name) for lesson in sorted(lessons)
    )
    return Tour(
        tour_id=f"tour-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}",
        repeats=repeats,
        quick=quick,
        stops=stops,
    )


def claims_by_lesson() -> dict[int, Experiment]:
    """Return the catalogue's experiments that test a claim, by lesson and in the lessons' order."""
    claims = {
        experiment.claim.lesson: experiment
        for experiment in catalog_experiments()
        if experiment.claim
    }
    return dict(sorted(claims.items()))


def parse_lessons(text: str | None) -> frozenset[int]:
    """Return the lessons of an option such as `1,5-8`.

    Args:
        text: numbers and ranges; None: all lessons of the catalogue.

    Raises:
        InputError: the syntax is wrong, or there is no such lesson.
    """
    known = frozenset(claims_by_lesson())
    if text is None:
        return known
    lessons: set[int] = set()
    for part in text.split(","):
        match = _RANGE.match(part.strip())
        first, last = (
            (int(match["first"]), int(match["last"] or match["first"])) if match else (0, 0)
        )
        if not 1 <= first <= last <= len(known):
            raise InputError(
                f"--lessons {text}: {part.strip() or 'nothing'} is no lesson; allowed: numbers "
                f"from 1 to {len(known)}, as in 1,5-8"
            )
        lessons |= set(range(first, last + 1))
    return frozenset(lessons)


def find_tour(home: Home, name: str) -> TourFolder:
    """Return the folder of a tour.

    Args:
        home: where the tours are.
        name: id of the tour, or `newest`.

    Raises:
        UnknownName: there is no such tour.
    """
    tours = sorted(path.parent for path in home.tours.glob(f"*/{_TOUR_FILE}"))
    if name == "newest" and tours:
        return TourFolder(tours[-1])
    if name in {tour.name for tour in tours}:
        return TourFolder(home.tours / name)
    raise UnknownName(
        f"unknown tour {name}{did_you_mean(name, [tour.name for tour in tours])} (in {home.tours})"
    )
