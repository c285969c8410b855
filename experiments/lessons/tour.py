"""A tour: the lessons' claims one after the other, each with the sweep that answered it. A folder below the home, and the folder is the truth."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from experiments.errors import LedgerError, UnknownName
from experiments.ledger.record import Frozen
from experiments.messages.phrases import did_you_mean
from experiments.planning.experiment import Experiment, catalogue
from experiments.sweep.plan import LESSONS
from infra.errors import InputError
from infra.machine.files import replace_file
from infra.machine.home import Home

_SPAN = re.compile(r"^(?P<first>[0-9]+)(?:-(?P<last>[0-9]+))?$")


class TourStop(Frozen):
    """One claim of a tour."""

    lesson: int
    experiment: str
    sweep_id: str | None = None
    """`None`: it was not begun yet, or could not be."""
    repeats: int | None = None
    """Of each cell; `None`: as the tour has it."""
    seconds: float | None = None
    """How long its sweep took; `None`: it has not ended."""
    impossible: str | None = None
    """Why this machine or cluster cannot do it."""
    failed: str | None = None
    """What the harness could not carry out."""

    @property
    def done(self) -> bool:
        """Whether nothing more is to be done about it."""
        return self.impossible is not None or (self.seconds is not None and self.failed is None)


class Tour(Frozen):
    """All stops, in the order of the lessons."""

    tour_id: str
    repeats: int | None = None
    """Of each cell; `None`: as each experiment has it."""
    stops: tuple[TourStop, ...]

    def again(self, lessons: frozenset[int], repeats: int | None) -> Tour:
        """Return the tour with these lessons still to be tested, whatever was found.

        Raises:
            UnknownName: one of them is no stop of it.
        """
        by_lesson = {stop.lesson: stop for stop in self.stops}
        missing = sorted(lessons - by_lesson.keys())
        if missing:
            raise UnknownName(
                f"{self.tour_id} has no lesson {missing[0]}; it has {', '.join(map(str, by_lesson))}"
            )
        anew = (
            TourStop(lesson=stop.lesson, experiment=stop.experiment, repeats=repeats)
            if stop.lesson in lessons
            else stop
            for stop in self.stops
        )
        return self.model_copy(update={"stops": tuple(anew)})

    def with_stop(self, stop: TourStop) -> Tour:
        """Return the tour with that lesson's stop as it is now."""
        return self.model_copy(
            update={
                "stops": tuple(stop if one.lesson == stop.lesson else one for one in self.stops)
            }
        )


@dataclass(frozen=True)
class TourFolder:
    """Where a tour lies."""

    root: Path

    @property
    def page(self) -> Path:
        """The one page with all answers."""
        return self.root / "index.html"

    def read(self) -> Tour:
        """Return the tour.

        Raises:
            LedgerError: its file is cut short, or of another version.
        """
        path = self.root / "tour.json"
        try:
            return Tour.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise LedgerError(
                f"{path} is no tour of this version, or cut short: {error.errors()[0]['msg']}"
            ) from error

    def write(self, tour: Tour) -> None:
        """Keep the tour as it is now."""
        self.root.mkdir(parents=True, exist_ok=True)
        replace_file(self.root / "tour.json", tour.model_dump_json(indent=1))


def new_tour(lessons: frozenset[int], repeats: int | None) -> Tour:
    """Return a tour through the catalogue's claims of these lessons.

    Raises:
        UnknownName: the catalogue has no experiment for one of them.
    """
    claims = claims_by_lesson()
    missing = sorted(lessons - claims.keys())
    if missing:
        raise UnknownName(
            f"no experiment of the catalogue tests lesson {missing[0]}; those tested: {', '.join(map(str, claims))}"
        )
    stops = tuple(
        TourStop(lesson=lesson, experiment=claims[lesson].name) for lesson in sorted(lessons)
    )
    return Tour(
        tour_id=f"tour-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}",
        repeats=repeats,
        stops=stops,
    )


def claims_by_lesson() -> dict[int, Experiment]:
    """Return the catalogue's experiments that test a claim, by lesson, in their order."""
    found = {experiment.claim.lesson: experiment for experiment in catalogue() if experiment.claim}
    return dict(sorted(found.items()))


def lessons_of(text: str | None) -> frozenset[int]:
    """Return the lessons that `1,5-8` names; all that are tested where nothing is named.

    Raises:
        InputError: it is of another form, or names a lesson that is none.
    """
    if text is None:
        return frozenset(claims_by_lesson())
    named: set[int] = set()
    for part in text.split(","):
        span = _SPAN.match(part.strip())
        first, last = (int(span["first"]), int(span["last"] or span["first"])) if span else (0, 0)
        if not 1 <= first <= last <= LESSONS:
            raise InputError(
                f"--lessons {text}: {part.strip() or 'nothing'} is no lesson; allowed: numbers from 1 to {LESSONS}, as in 1,5-8"
            )
        named |= set(range(first, last + 1))
    return frozenset(named)


def find_tour(home: Home, named: str) -> TourFolder:
    """Return the tour of that name; `newest` is the newest.

    Raises:
        UnknownName: there is none.
    """
    tours = sorted(path.parent for path in home.tours.glob("*/tour.json"))
    if named == "newest" and tours:
        return TourFolder(tours[-1])
    if (home.tours / named / "tour.json").is_file():
        return TourFolder(home.tours / named)
    raise UnknownName(
        f"unknown tour {named}{did_you_mean(named, [tour.name for tour in tours])} (in {home.tours})"
    )
