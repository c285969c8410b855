"""The pages of the site that list things: sweeps, what breaks what, lessons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.messages.phrases import format_bytes
from ackbench.experiments.pages.report.page import load_template
from ackbench.experiments.planning.catalog.loading import catalog_experiments
from ackbench.experiments.results.history.index import IndexedSweep, SweepState
from ackbench.experiments.results.history.summary import CellSummary, SweepSummary
from ackbench.experiments.results.history.wording import verdicts_text, when_text
from ackbench.experiments.results.wording import share_text
from ackbench.experiments.sweep.cell_names import CORE_AXES, FAULT_AXIS, fault_name, setting_text
from ackbench.experiments.sweep.progress import format_duration
from ackbench.experiments.verdicts.guarantees import GUARANTEES, guarantee_named

_SHOWN_AXES: Final = tuple(axis for axis in CORE_AXES if axis != FAULT_AXIS)
_BROKEN: Final = ("VIOLATED", "observed")


@dataclass(frozen=True)
class SweepRow:
    """A sweep in the index page."""

    sweep_id: str
    experiment: str
    page: str | None
    trend: str | None
    when: str
    versions: str
    verdicts: str
    conclusion: str
    took: str
    size: str
    state: str
    kind: str
    """`violated`, `unknown`, `held` or `none`: for the filter."""


@dataclass(frozen=True)
class BreakRow:
    """A cell in the page of what breaks what."""

    fault: str
    settings: str
    acks: str
    idempotence: str
    version: str
    loss: str
    duplication: str
    broken: tuple[tuple[str, str], ...]
    """Guarantees: name, and `violated` or `observed`."""
    names: str
    """Of the broken guarantees, for the filter."""
    sweep_id: str
    page: str | None


@dataclass(frozen=True)
class LessonRow:
    """A claim about Kafka with its newest finding."""

    lesson: int
    title: str
    says: str
    conclusion: str
    experiment: str
    sweep_id: str | None
    page: str | None
    trend: str | None


def index_page(
    sweeps: Sequence[IndexedSweep],
    pages: Mapping[str, str],
    trends: Mapping[str, str],
    navigation: Mapping[str, str],
) -> str:
    """Return the page of all sweeps.

    Args:
        sweeps: the newest first.
        pages: links to the sweeps' pages, by id.
        trends: links to the trends, by experiment.
        navigation: links to the pages of the site, by title.
    """
    rows = tuple(_sweep_row(one, pages, trends) for one in sweeps)
    return _render(
        "sweeps.html",
        navigation,
        "sweeps",
        rows=rows,
        size=format_bytes(sum(one.summary.size_bytes for one in sweeps)),
        experiments=sorted({row.experiment for row in rows}),
        versions=sorted({version for one in sweeps for version in one.summary.kafka_versions}),
        trends=dict(sorted(trends.items())),
    )


def _sweep_row(one: IndexedSweep, pages: Mapping[str, str], trends: Mapping[str, str]) -> SweepRow:
    summary = one.summary
    states = [] if one.state is SweepState.COMPLETE else [one.state.value]
    return SweepRow(
        sweep_id=summary.sweep_id,
        experiment=summary.experiment,
        page=pages.get(summary.sweep_id),
        trend=trends.get(summary.experiment),
        when=when_text(summary.planned_s),
        versions=", ".join(summary.kafka_versions),
        verdicts=verdicts_text(summary),
        conclusion=summary.conclusion or "",
        took=format_duration(summary.took_s) if summary.took_s is not None else "",
        size=format_bytes(summary.size_bytes),
        state=", ".join([*states, *(["pinned"] if one.pinned else [])]),
        kind=_kind(summary),
    )


def _kind(summary: SweepSummary) -> str:
    if summary.violated:
        return "violated"
    if summary.unknown:
        return "unknown"
    return "held" if summary.held else "none"


def breaks_page(
    summaries: Iterable[SweepSummary], pages: Mapping[str, str], navigation: Mapping[str, str]
) -> str:
    """Return the page of what breaks what; of equal cells, that of the newest sweep counts.

    Args:
        summaries: of the sweeps, the newest first; they are read one by one.
        pages: as in `index_page`.
        navigation: as in `index_page`.
    """
    rows = tuple(_break_rows(summaries, pages))
    return _render(
        "breaks.html",
        navigation,
        "what breaks what",
        rows=rows,
        faults=sorted({row.fault for row in rows}),
        acks=sorted({row.acks for row in rows}),
        versions=sorted({row.version for row in rows}),
        guarantees=[
            guarantee.label
            for guarantee in GUARANTEES
            if any(guarantee.label in row.names for row in rows)
        ],
    )


def _break_rows(summaries: Iterable[SweepSummary], pages: Mapping[str, str]) -> Iterator[BreakRow]:
    seen: set[tuple[str, str]] = set()
    found = []
    for summary in summaries:
        for cell in summary.cells:
            key = (cell.key, summary.version)
            if cell.added or cell.loss is None or key in seen:
                continue
            seen.add(key)
            found.append(_break_row(summary, cell, pages))
    yield from sorted(found, key=lambda row: (row.fault, row.settings, row.version))


def _break_row(summary: SweepSummary, cell: CellSummary, pages: Mapping[str, str]) -> BreakRow:
    broken = tuple(
        (guarantee_named(name).label, "violated" if verdict == "VIOLATED" else "observed")
        for name, verdict in cell.verdicts.items()
        if verdict in _BROKEN
    )
    others = [axis for axis in cell.cell if axis not in {*CORE_AXES}]
    return BreakRow(
        fault=fault_name(cell.cell),
        settings=" ".join(
            setting_text(axis, cell.cell[axis])
            for axis in (*_SHOWN_AXES, *others)
            if cell.cell.get(axis) is not None
        ),
        acks=_text(cell.cell.get("acks")),
        idempotence=_text(cell.cell.get("enable.idempotence")),
        version=summary.version,
        loss=share_text(cell.loss),
        duplication=share_text(cell.duplication),
        broken=broken,
        names="|".join(name for name, _ in broken),
        sweep_id=summary.sweep_id,
        page=pages.get(summary.sweep_id),
    )


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def lessons_page(
    sweeps: Sequence[IndexedSweep],
    pages: Mapping[str, str],
    trends: Mapping[str, str],
    navigation: Mapping[str, str],
) -> str:
    """Return the page of the lessons; the arguments are those of `index_page`."""
    newest: dict[str, SweepSummary] = {}
    for one in sweeps:
        if one.summary.conclusion and one.summary.experiment not in newest:
            newest[one.summary.experiment] = one.summary
    rows = []
    for experiment in catalog_experiments():
        if experiment.claim is None:
            continue
        summary = newest.get(experiment.name)
        sweep_id = summary.sweep_id if summary else None
        rows.append(
            LessonRow(
                lesson=experiment.claim.lesson,
                title=experiment.title,
                says=experiment.claim.says,
                conclusion=(summary.conclusion or "") if summary else "not tested here",
                experiment=experiment.name,
                sweep_id=sweep_id,
                page=pages.get(sweep_id) if sweep_id else None,
                trend=trends.get(experiment.name),
            )
        )
    rows.sort(key=lambda row: row.lesson)
    return _render("lessons.html", navigation, "lessons", rows=tuple(rows))


def _render(name: str, navigation: Mapping[str, str], current: str, **values: Any) -> str:
    return load_template(name).render(navigation=navigation, current=current, **values)
