"""A lesson as data: the cases that a claim compares, its criterion, its words and its plot.

The file `findings/<name>.yaml` holds one; `experiments.results.lessons.evaluation` applies it to a
sweep. A **pattern** is a value of an axis, with `*` for any text; `*` alone is any value, and
`unset` is a cell without the axis. A **text** has placeholders: `{axis}` (its word, or the cells'
value), `{figure:form}` (`experiments.results.lessons.figures.Measured`) and `{observation:cases}`.
A text, or a part of it in square brackets, is left out where one of its figures has no value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from string import Formatter
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from ackbench.experiments.ledger.trial_manifest import Frozen, Scalar
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.messages.phrases import did_you_mean
from ackbench.experiments.messages.validation import describe_validation_error
from ackbench.experiments.planning.catalog.loading import FINDINGS, check_finding
from ackbench.experiments.planning.yaml_reader import read_yaml
from ackbench.experiments.results.lessons.derived import DERIVED
from ackbench.experiments.results.lessons.finding import Conclusion
from ackbench.experiments.results.models import TrialResult

UNSET: Final = "unset"
CASES: Final = "cases"
"""The form of an observation in a text: the cases that show it."""


def _several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


def _with_text_keys(value: Any) -> Any:
    return {str(key): one for key, one in value.items()} if isinstance(value, dict) else value


Patterns = Annotated[tuple[Scalar, ...], BeforeValidator(_several)]
Selector = dict[str, Patterns]
"""Patterns by axis: what matches one pattern of each axis is selected."""
Words = Annotated[dict[str, str], BeforeValidator(_with_text_keys)]
"""Word by pattern, in the order of the cases. `{}` in a word is the value, `{:,}` also."""


class Selected(Frozen):
    """A selection: what matches `select`, without what matches all of `unless`."""

    select: Selector = Field(default_factory=dict)
    unless: Selector = Field(default_factory=dict)


class CaseGroup(Selected):
    """Cells of the experiment, one case per combination of the values of some axes."""

    by: dict[str, Words] = Field(default_factory=dict)
    """The words of these axes' values. A cell with a value that has no word is in no case."""
    name: str = ""
    """A text: what a case is called, also in texts as `{name}`."""
    if_known: str | None = None
    """A figure: a case in none of whose trials it is known is left out."""


class OfCases(Selected):
    """Cases of a group; `select` and `unless` are patterns of the axes in its `by`."""

    cases: str
    """The group's name."""


class Shown(StrEnum):
    """A finding about a figure in the trials of a case."""

    SOME = "some"
    """It is above 0 in a trial."""
    NONE = "none"
    """It is 0 in each of at least `MIN_TRIALS` trials."""
    NEVER = "never"
    """It is 0 in each trial, and in at least one."""
    ALWAYS = "always"
    """It is above 0 in each of at least `MIN_TRIALS` trials."""
    NOT_ALWAYS = "not always"
    """It is 0 in a trial."""
    UNKNOWN = "unknown"
    """Fewer than `MIN_TRIALS` trials can tell."""


class Observation(OfCases):
    """A finding in one of the cases; without `quantity`: the sweep has such a case."""

    quantity: str | None = None
    shows: Shown | None = Field(default=None, alias="is")
    median_from: float | None = None
    """Instead of `is`: the median over at least `MIN_TRIALS` trials is not below this."""
    median_below: float | None = None
    """The same, and it is below this."""

    @model_validator(mode="after")
    def _has_a_figure_to_show(self) -> Self:
        if (self.quantity is None) != (
            all(one is None for one in (self.shows, self.median_from, self.median_below))
        ):
            raise ValueError("an observation has `quantity` and `is` or `median_from`, or neither")
        return self


Condition = Annotated[str, Field(pattern=r"^(not |known )?[a-z0-9_]+$")]
"""An observation by its name.

`not NAME`: it was not made. `known NAME`: at least `MIN_TRIALS` trials of each of its cases, and of
at least one, can tell.
"""


class Part(Frozen):
    """A part of the criterion: any of `refuted_if` refutes; else all of `needs` must hold."""

    refuted_if: tuple[Condition, ...] = ()
    refuted_if_all: tuple[Condition, ...] = ()
    """All of these together refute too."""
    needs: tuple[Condition, ...] = Field(min_length=1)


class Order(Frozen):
    """Each case of a group has a higher figure than the one before, by pairs with one seed.

    It is a further part of the criterion. Texts refer to it as `{order:form}`.
    """

    cases: str
    """A group with one axis in its `by`."""
    quantity: str
    higher: str
    """Comparative: `slower`."""
    lower: str


class Criterion(Frozen):
    """The rule by which figures decide the claim (`results.lessons.criterion.conclude`)."""

    required: tuple[Part, ...] = Field(min_length=1)
    further: tuple[Part, ...] = ()
    order: Order | None = None
    limited_if: tuple[Condition, ...] = ()
    """Any of these limits a claim that holds by its criterion."""


class Text(Frozen):
    """A text that is true if all conditions of `if` hold."""

    says: str
    only_if: tuple[Condition, ...] = Field(default=(), alias="if")


def _as_texts(value: Any) -> Any:
    return [{"says": one} if isinstance(one, str) else one for one in _several(value)]


Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_texts)]
"""One text, or several that are joined."""


class CaseSentence(OfCases):
    """A sentence per case; with `each`, one that lists all cases as `{each}`."""

    says: str
    each: str | None = None
    join: str = ", "
    """Between the cases; `and`: as a phrase."""


class PlotRows(OfCases):
    """Rows of a plot: one per case and quantity; the quantities are the parts of a bar."""

    name: str
    """With `{quantity}`, the key in `quantities`."""
    quantities: dict[str, str]
    """Figure by name."""
    expected: str | None = None
    """A figure: its median is drawn as a line across the row of dots."""


class LessonPlot(Frozen):
    """The plot: shares of trials with a figure above 0, one dot per trial, or bars of sums."""

    kind: Literal["shares", "dots", "bars"]
    caption: str
    label: str = ""
    rows: tuple[PlotRows, ...]
    figures_per_unit: float = 1.0
    """Figures are divided by it: 1000 draws milliseconds as seconds."""
    logarithmic: bool = False


class Figure(Selected):
    """A figure of a trial: a sum of quantities, or of columns over the selected rows of a table.

    It is unknown in a trial without a row of the table.
    """

    sum_of: tuple[str, ...] = ()
    """Quantities; unknown if one is unknown."""
    table: str | None = None
    columns: tuple[str, ...] = ()
    """None: the number of rows is counted."""
    less: tuple[str, ...] = ()
    """Columns that are subtracted."""
    percent_of: tuple[str, ...] = ()
    """The figure is the sum as a percentage of these columns' sum."""
    needs_row: bool = False
    """`True`: it is unknown, not 0, in a trial without a selected row."""
    by: str | None = None
    """`FIGURE.VALUE` is this figure over the rows with this value of this column."""

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if bool(self.sum_of) == bool(self.table):
            raise ValueError("a figure has either `sum_of` or `table`")
        return self


class Lesson(Frozen):
    """All that a finding is computed from, beside the figures."""

    cases: dict[str, Annotated[tuple[CaseGroup, ...], BeforeValidator(_several)]]
    figures: dict[str, Figure] = Field(default_factory=dict)
    """Figures beside the quantities of a trial (`experiments.results.lessons.figures`)."""
    needs_table: str | None = None
    """Trials without a row of this table are left out, and so are cases without such a trial."""
    observations: dict[str, Observation]
    criterion: Criterion
    lead: Texts = ()
    sentences: tuple[CaseSentence, ...]
    remarks: dict[Conclusion, Texts]
    plot: LessonPlot


def _problems(lesson: Lesson) -> Iterator[str]:
    """Yield what a lesson refers to and does not have, or has and does not use."""
    parts = list(_parts(lesson))
    placeholders = [pair for part in parts for pair in _placeholders(part)]
    conditions = [
        *lesson.criterion.limited_if,
        *(one for part in parts if isinstance(part, Text) for one in part.only_if),
        *(
            one
            for part in parts
            if isinstance(part, Part)
            for one in (*part.refuted_if, *part.refuted_if_all, *part.needs)
        ),
    ]
    used: dict[str, set[str]] = {
        "cases": {part.cases for part in parts if isinstance(part, OfCases | Order)},
        "observations": {condition.rpartition(" ")[2] for condition in conditions}
        | {name for name, form in placeholders if form == CASES},
        "remarks": {*Conclusion} - {Conclusion.PARTLY_SUPPORTED},
    }
    for key, names in used.items():
        declared = set(getattr(lesson, key))
        yield from (f"{key}.{name} is missing" for name in sorted(names - declared))
        unused = declared - names - set(Conclusion)
        yield from (f"{key}.{name} is not used" for name in sorted(unused))
    own = {*lesson.figures, *TrialResult.model_fields, *DERIVED}
    figures = [
        *(part.quantity for part in parts if isinstance(part, Observation | Order)),
        *(one for part in parts if isinstance(part, PlotRows) for one in part.quantities.values()),
        *(part.if_known for part in parts if isinstance(part, CaseGroup)),
        *(part.expected for part in parts if isinstance(part, PlotRows)),
        *(one for figure in lesson.figures.values() for one in figure.sum_of),
        *(name for name, form in placeholders if form != CASES and name != "order"),
    ]
    named = {name.partition(".")[0] for name in figures if name}
    yield from (f"figures.{name} is not used" for name in sorted(set(lesson.figures) - named))
    for name in sorted(named - own):
        yield f"{name} is neither in figures nor a quantity of a trial{did_you_mean(name, own)}"
    for name in sorted(set(lesson.observations) & own):
        yield f"observations.{name} has the name of a figure"


def _parts(value: object) -> Iterator[Frozen]:
    """Yield every model within a value."""
    if isinstance(value, Frozen):
        yield value
        values: Iterable[object] = [getattr(value, name) for name in type(value).model_fields]
    elif isinstance(value, dict):
        values = value.values()
    else:
        values = value if isinstance(value, tuple) else ()
    for one in values:
        yield from _parts(one)


def _placeholders(part: Frozen) -> Iterator[tuple[str, str]]:
    """Yield name and form of the figures and observations in a part's own texts."""
    values = (getattr(part, name) for name in type(part).model_fields)
    for text in values:
        if isinstance(text, str) and "{" in text:
            for _, name, form, _ in Formatter().parse(text):
                if name and form:
                    yield name, form


@cache  # the files belong to the installation
def load_lesson(name: str) -> Lesson:
    """Return the lesson of a finding.

    Raises:
        ExperimentError: there is no such finding, or its file is not a valid lesson; one line with
            the key.
    """
    check_finding(name)
    path = FINDINGS / f"{name}.yaml"
    data = read_yaml(path)
    try:
        lesson = Lesson.model_validate(data)
    except ValidationError as error:
        text = describe_validation_error(error, Lesson, written=data)
        raise ExperimentError(f"{path}: {text}") from error
    if problems := "; ".join(_problems(lesson)):
        raise ExperimentError(f"{path}: {problems}")
    return lesson
