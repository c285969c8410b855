"""The figures of a lesson: what is known of one trial, and how texts write that of several."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from ackbench.experiments.ledger.trial_manifest import Cell
from ackbench.experiments.messages.phrases import format_count, format_list
from ackbench.experiments.results.lessons.criterion import ORDER_NEEDS, Outcome, PairedOrder
from ackbench.experiments.results.lessons.derived import DERIVED, Bounds
from ackbench.experiments.results.lessons.finding import (
    FindingInput,
    describe_duration,
    describe_durations,
    describe_values,
)
from ackbench.experiments.results.lessons.lesson import UNSET, Figure, Order, Selected
from ackbench.experiments.results.models import TrialResult
from ackbench.experiments.results.rows import Row
from ackbench.experiments.verdicts.guarantees.violations import is_positive
from ackbench.experiments.verdicts.statistics import Share, describe_share, share_of

_FORM: Final = re.compile(r"(?P<form>\w+)(\.(?P<decimals>\d))?(?P<unit> .*)?")


class NoValueError(Exception):
    """No trial has a value of a figure that a text needs."""


def is_quantity(name: str) -> bool:
    """Return whether a name is that of a quantity of a trial, or of a derived figure."""
    return name in DERIVED or name in TrialResult.model_fields


def figure_of_trial(
    name: str, figure: Figure | None, data: FindingInput, trial: TrialResult
) -> Bounds | None:
    """Return a figure of one trial; None: unknown.

    Args:
        name: that of a quantity or derived figure, if `figure` is None.
        figure: the lesson's own figure.
        data: the sweep with its tables.
        trial: the trial.
    """
    if figure is None:
        value = DERIVED[name](data, trial) if name in DERIVED else getattr(trial, name)
        return value if value is None or isinstance(value, tuple) else (value, value)
    if figure.table:
        rows = data.rows(figure.table).get(trial.trial_id, ())
        value = name.partition(".")[2]
        selected = [
            row
            for row in rows
            if is_selected(row, figure)
            and (figure.by is None or not value or str(row[figure.by]) == value)
        ]
        total = sum(_number(row, figure) for row in selected)
        if figure.percent_of:
            whole = sum(row[column] for row in selected for column in figure.percent_of)
            return (100 * total / whole, 100 * total / whole) if whole else None
        is_known = bool(selected) if figure.needs_row else bool(rows)
        return (total, total) if is_known else None
    parts = [figure_of_trial(part, None, data, trial) for part in figure.sum_of]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return sum(low for low, _ in known), sum(high for _, high in known)


def _number(row: Row, figure: Figure) -> float:
    added, subtracted = (
        sum(row[column] for column in columns) for columns in (figure.columns, figure.less)
    )
    return float(added - subtracted) if figure.columns else 1.0


def is_selected(values: Cell | Row, selected: Selected) -> bool:
    """Return whether the values of a cell or a row match `select`, and not all of `unless`."""
    chosen, excluded = (
        all(any(matches(values.get(key), one) for one in patterns) for key, patterns in by.items())
        for by in (selected.select, selected.unless)
    )
    return chosen and not (selected.unless and excluded)


def matches(value: object, pattern: object) -> bool:
    """Return whether a value matches a pattern (`experiments.results.lessons.lesson`).

    `1` and `true` differ, and so do `1` and `1.0`; text and numbers are compared as text.
    """
    if pattern in (None, UNSET):
        return value is None
    if value is None:
        return False
    expression = re.escape(str(pattern)).replace(r"\*", ".*")
    return re.fullmatch(expression, str(value), flags=re.DOTALL) is not None


@dataclass(frozen=True)
class Measured:
    """A figure of several trials. A text writes it in one of these forms.

    | form | example |
    |---|---|
    | `share` | `3 of 5 trials (14 to 95 %)`: trials in which it is above 0 |
    | `seen`, `trials` | `3`, `5 trials`: the two numbers of that share |
    | `typical` | `, 2,310 records at the median`: of the trials above 0; empty if there is none |
    | `durations`, `duration` | `9.4 s (9.1 s to 9.9 s in 3 trials)`, `9.4 s`: milliseconds |
    | `values.1 ms` | `1.0 ms (0.9 ms to 1.2 ms in 3 trials)`: with decimals and unit |
    | `median.1 %`, `sum` | `1,024.0 %`, `1,024` |
    | `distinct` | `1 and 5`: every value |
    """

    bounds: tuple[Bounds, ...]
    """Of the trials in which it is known."""

    @property
    def values(self) -> list[float]:
        """The lowest value in each trial."""
        return [low for low, _ in self.bounds]

    @property
    def share(self) -> Share:
        """The share of trials in which it is above 0."""
        return share_of(is_positive((int(low > 0), int(high > 0))) for low, high in self.bounds)

    def __format__(self, form: str) -> str:
        """Return the figure in a form.

        Raises:
            NoValueError: it is unknown in every trial.
            ValueError: there is no such form.
        """
        if not self.bounds:
            raise NoValueError
        parts = _FORM.fullmatch(form)
        if parts is None or parts["form"] not in _FORMS:
            raise ValueError(f"a figure has no form {form!r}; allowed: {', '.join(_FORMS)}")
        return _FORMS[parts["form"]](self, int(parts["decimals"] or 0), parts["unit"] or "")


def _typical(measured: Measured, _decimals: int, _unit: str) -> str:
    counts = [value for value in measured.values if value]
    return f", {median(counts):,.0f} records at the median" if counts else ""


_FORMS: Final[dict[str, Callable[[Measured, int, str], str]]] = {
    "share": lambda measured, *_: describe_share(measured.share),
    "seen": lambda measured, *_: str(measured.share.seen),
    "trials": lambda measured, *_: format_count(measured.share.trials, "trial"),
    "typical": _typical,
    "durations": lambda measured, *_: describe_durations(measured.values),
    "duration": lambda measured, *_: describe_duration(median(measured.values)),
    "values": lambda measured, *form: describe_values(measured.values, *form),
    "median": lambda measured, decimals, unit: f"{median(measured.values):,.{decimals}f}{unit}",
    "distinct": lambda measured, *_: format_list(
        [f"{value:g}" for value in sorted({one for bounds in measured.bounds for one in bounds})]
    ),
    "sum": lambda measured, *_: f"{sum(measured.values):,.0f}",
}
"""The forms, by measured figure, decimals and unit."""


@dataclass(frozen=True)
class Orders:
    """The order of the cases of a lesson, in pairs of consecutive ones.

    Forms: `pairs` (in how many pairs of trials each holds), `shown`, `reversed`, `open` (the pairs
    of cases that are), `needs` (what would decide an open one).
    """

    order: Order
    pairs: dict[tuple[str, str], PairedOrder]
    """By the words of the two cases."""

    def __format__(self, form: str) -> str:
        """Return the orders in a form.

        Raises:
            NoValueError: there is none of that kind.
        """
        if form == "needs":
            return ORDER_NEEDS
        texts = list(self._texts(form))
        if not texts:
            raise NoValueError
        return format_list(texts)

    def _texts(self, form: str) -> Iterator[str]:
        for (first, second), pair in self.pairs.items():
            if form == "pairs" and pair.pairs:
                yield f"{second} was {self.order.higher} than {first} {pair.text}"
            elif form == "reversed" and pair.outcome is Outcome.MET:
                yield f"{second} was {self.order.lower} than {first}"
            elif (form, pair.outcome) in {("shown", Outcome.NOT_MET), ("open", Outcome.UNDECIDED)}:
                yield f"{second} is {self.order.higher} than {first}"
