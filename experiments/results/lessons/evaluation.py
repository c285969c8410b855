"""Compute the finding of a sweep from a lesson that is data (`results.lessons.lesson`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from statistics import median
from string import Formatter
from typing import Any, Final

from ackbench.experiments.ledger.trial_manifest import Cell, Scalar
from ackbench.experiments.messages.phrases import format_list
from ackbench.experiments.results.lessons.criterion import Outcome, conclude, outcome, paired_order
from ackbench.experiments.results.lessons.figures import (
    Measured,
    NoValueError,
    Orders,
    figure_of_trial,
    is_quantity,
    is_selected,
    matches,
)
from ackbench.experiments.results.lessons.finding import (
    MIN_TRIALS,
    Conclusion,
    Finding,
    FindingInput,
)
from ackbench.experiments.results.lessons.lesson import (
    CASES,
    CaseGroup,
    CaseSentence,
    Condition,
    Figure,
    Lesson,
    LessonPlot,
    Observation,
    OfCases,
    Part,
    Shown,
    Text,
)
from ackbench.experiments.results.lessons.plots import (
    BarPart,
    BarRow,
    BarsPlot,
    DotRow,
    DotsPlot,
    Plot,
    ShareDot,
    SharesPlot,
)
from ackbench.experiments.results.models import CellResult, TrialResult

_OPTIONAL: Final = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True)
class Case:
    """Cells that have the same values of the axes of a group."""

    values: Cell
    words: Mapping[str, str]
    """By axis of the group."""
    name: str
    cell: Cell
    """The first of its cells."""
    trials: tuple[TrialResult, ...]


def find(lesson: Lesson, data: FindingInput) -> Finding:
    """Return the finding of a sweep."""
    return _Evaluation(lesson, data).finding()


class _Formatter(Formatter):
    """Takes names with dots as they are."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        del args
        return kwargs[field_name], field_name


@dataclass(frozen=True)
class _Evaluation:
    """A lesson, applied to one sweep."""

    lesson: Lesson
    data: FindingInput
    cases: dict[str, list[Case]] = field(init=False)

    def __post_init__(self) -> None:
        groups = {
            name: [case for group in of_name for case in self._cases(group)]
            for name, of_name in self.lesson.cases.items()
        }
        object.__setattr__(self, "cases", groups)

    def finding(self) -> Finding:
        criterion = self.lesson.criterion
        orders = self._orders()
        conclusion = conclude(
            map(self._outcome, criterion.required),
            [
                *map(self._outcome, criterion.further),
                *(pair.outcome for pair in (orders.pairs.values() if orders else ())),
            ],
            limited=any(map(self._holds, criterion.limited_if)),
        )
        texts = {"order": orders} if orders else {}
        sentences = tuple(
            text for one in self.lesson.sentences for text in self._sentences(one, texts)
        )
        trials = [len(self.data.cell_trials(cell)) for cell in self.data.cells()]
        return Finding(
            lesson=self.data.lesson,
            conclusion=conclusion,
            lead=self._joined(self.lesson.lead, texts) or None if sentences else None,
            sentences=sentences or ("No trial was judged.",),
            remark=self._joined(self.lesson.remarks[conclusion], texts),
            repeats_needed=2 * max(MIN_TRIALS, *trials, 0)
            if conclusion is Conclusion.INCONCLUSIVE
            else None,
            plot=self._plot(self.lesson.plot),
        )

    # Cases and their figures

    def _cases(self, group: CaseGroup) -> Iterator[Case]:
        """Yield the cases of a group in the order of its words, then of the sweep's cells."""
        found: dict[tuple[tuple[int, Scalar], ...], list[CellResult]] = {}
        for cell in self.data.cells():
            places = [_place(cell.cell.get(axis), words) for axis, words in group.by.items()]
            if is_selected(cell.cell, group) and None not in places:
                key = tuple(
                    (place, cell.cell.get(axis))
                    for place, axis in zip(places, group.by, strict=True)
                    if place is not None
                )
                found.setdefault(key, []).append(cell)
        for key in sorted(found, key=lambda key: [place for place, _ in key]):
            values = {axis: value for axis, (_, value) in zip(group.by, key, strict=True)}
            words = {
                axis: list(group.by[axis].values())[place].format(value)
                for axis, (place, value) in zip(group.by, key, strict=True)
            }
            trials = [trial for cell in found[key] for trial in self._trials(cell)]
            if self.lesson.needs_table and not trials:
                continue
            name = _formatted(group.name, words) or ""
            case = Case(values, words, name, found[key][0].cell, tuple(trials))
            if group.if_known is None or self._measured(case, group.if_known).bounds:
                yield case

    def _trials(self, cell: CellResult) -> Iterable[TrialResult]:
        table = self.lesson.needs_table
        trials = self.data.cell_trials(cell)
        if table is None:
            return trials
        return [trial for trial in trials if self.data.rows(table).get(trial.trial_id)]

    def _selected(self, of: OfCases) -> list[Case]:
        return [
            case for case in self.cases[of.cases] if is_selected({**case.cell, **case.values}, of)
        ]

    def _measured(self, case: Case, name: str) -> Measured:
        bounds = (
            figure_of_trial(name, self._figure(name), self.data, trial) for trial in case.trials
        )
        return Measured(tuple(one for one in bounds if one is not None))

    def _figure(self, name: str) -> Figure | None:
        return self.lesson.figures.get(name.partition(".")[0])

    # The criterion

    def _outcome(self, part: Part) -> Outcome:
        return outcome(
            met=any(map(self._holds, part.refuted_if))
            or bool(part.refuted_if_all and all(map(self._holds, part.refuted_if_all))),
            measured=all(map(self._holds, part.needs)),
        )

    def _holds(self, condition: Condition) -> bool:
        prefix, _, name = condition.rpartition(" ")
        observation = self.lesson.observations[name]
        if prefix == "known" and observation.quantity:
            cases = self._selected(observation)
            shares = [self._measured(case, observation.quantity).share for case in cases]
            return bool(shares) and all(share.of >= MIN_TRIALS for share in shares)
        return any(self._that_show(observation)) is not (prefix == "not")

    def _that_show(self, observation: Observation) -> Iterator[Case]:
        """Yield the cases that show an observation; without a figure, all that it selects."""
        for case in self._selected(observation):
            if observation.quantity is None or _shows(
                observation, self._measured(case, observation.quantity)
            ):
                yield case

    def _orders(self) -> Orders | None:
        order = self.lesson.criterion.order
        if order is None:
            return None
        ((axis, words),) = self.lesson.cases[order.cases][0].by.items()
        trials = {
            pattern: [
                trial
                for case in self.cases[order.cases]
                if matches(case.values[axis], pattern)
                for trial in case.trials
            ]
            for pattern in words
        }
        figure = partial(self._value, order.quantity)
        pairs = {
            (words[first], words[second]): paired_order(trials[first], trials[second], figure)
            for first, second in pairwise(words)
        }
        return Orders(order, pairs)

    def _value(self, name: str, trial: TrialResult) -> float | None:
        bounds = figure_of_trial(name, self._figure(name), self.data, trial)
        return bounds[0] if bounds else None

    # Words

    def _sentences(self, sentence: CaseSentence, texts: Mapping[str, object]) -> Iterator[str]:
        cases = self._selected(sentence)
        if sentence.each is None:
            yield from (text for case in cases if (text := self._text(sentence.says, case, texts)))
            return
        each = [text for case in cases if (text := self._text(sentence.each, case, texts))]
        if each:
            listed = format_list(each) if sentence.join == "and" else sentence.join.join(each)
            text = self._text(sentence.says, cases[0], {**texts, "each": listed})
            yield from [text] if text else []

    def _joined(self, parts: Sequence[Text], texts: Mapping[str, object]) -> str:
        said = (
            self._text(part.says, None, texts)
            for part in parts
            if all(map(self._holds, part.only_if))
        )
        return " ".join(text for text in said if text)

    def _text(self, text: str, case: Case | None, texts: Mapping[str, object]) -> str | None:
        """Return a text with its figures; None where one of them has no value."""
        names = _Names(self, case, texts)
        optional = _OPTIONAL.sub(lambda part: _formatted(part[1], names) or "", text)
        return _formatted(optional, names)

    def value_of(self, name: str, case: Case | None) -> object:
        """Return the value of a placeholder: a word, a cell's value, or a figure."""
        if name in self.lesson.observations:
            return _CaseNames(list(self._that_show(self.lesson.observations[name])))
        if case is None:
            raise KeyError(name)
        if name == "name":
            return case.name
        if name in case.words:
            return case.words[name]
        if name in case.cell:
            return _value_text(case.cell[name])
        if not (self._figure(name) or is_quantity(name)):
            raise NoValueError  # an axis that the cells do not have
        return self._measured(case, name)

    # The plot

    def _plot(self, plot: LessonPlot) -> Plot:
        measured = [
            (
                self._text(rows.name, case, {"quantity": name}) or "",
                name,
                self._measured(case, quantity),
                self._measured(case, rows.expected) if rows.expected else Measured(()),
            )
            for rows in plot.rows
            for case in self._selected(rows)
            for name, quantity in rows.quantities.items()
        ]
        if plot.kind == "shares":
            dots = (ShareDot(name=row, share=of.share) for row, _, of, _ in measured if of.bounds)
            return SharesPlot(caption=plot.caption, rows=tuple(dots))
        if plot.kind == "dots":
            lines = (
                DotRow(
                    name=row,
                    values=tuple(one / plot.figures_per_unit for one in of.values),
                    expected=median(expected.values) / plot.figures_per_unit
                    if expected.bounds
                    else None,
                )
                for row, _, of, expected in measured
            )
            return DotsPlot(
                caption=plot.caption,
                label=plot.label,
                rows=tuple(lines),
                logarithmic=plot.logarithmic,
            )
        parts: dict[str, list[BarPart]] = {}
        for row, name, of, _ in measured:
            if of.bounds:
                parts.setdefault(row, []).append(BarPart(name=name, value=sum(of.values)))
        bars = (BarRow(name=row, parts=tuple(of_row)) for row, of_row in parts.items())
        return BarsPlot(caption=plot.caption, label=plot.label, rows=tuple(bars))


@dataclass(frozen=True)
class _CaseNames:
    """The cases that show an observation, as a phrase."""

    cases: Sequence[Case]

    def __format__(self, form: str) -> str:
        if form != CASES:
            raise ValueError(f"an observation has the form {CASES}, and no {form!r}")
        if not self.cases:
            raise NoValueError
        return format_list([case.name for case in self.cases])


@dataclass(frozen=True)
class _Names(Mapping[str, object]):
    """The values of a text's placeholders."""

    evaluation: _Evaluation
    case: Case | None
    texts: Mapping[str, object]

    def __getitem__(self, name: str) -> object:
        return self.texts[name] if name in self.texts else self.evaluation.value_of(name, self.case)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    def __len__(self) -> int:
        return len(self.texts)


def _formatted(text: str, names: Mapping[str, object]) -> str | None:
    try:
        return _Formatter().vformat(text, (), names)
    except NoValueError:
        return None


def _place(value: Scalar, words: Mapping[str, str]) -> int | None:
    """Return the place of the first pattern that a value matches; None: it matches none."""
    places = (place for place, pattern in enumerate(words) if matches(value, pattern))
    return next(places, None)


def _value_text(value: Scalar) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else str(value)


def _shows(observation: Observation, measured: Measured) -> bool:
    """Return whether the trials of a case show what is observed."""
    share = measured.share
    known = share.of >= MIN_TRIALS
    if observation.shows is None:
        low, high = observation.median_from, observation.median_below
        return known and (
            (low is None or median(measured.values) >= low)
            and (high is None or median(measured.values) < high)
        )
    return {
        Shown.SOME: share.seen > 0,
        Shown.NONE: known and not share.seen,
        Shown.NEVER: share.of > 0 and not share.seen,
        Shown.ALWAYS: known and share.seen == share.of,
        Shown.NOT_ALWAYS: share.seen < share.of,
        Shown.UNKNOWN: not known,
    }[observation.shows]
