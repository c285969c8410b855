"""The live page: HTML of a sweep at one moment, and the files that show it.

`index.html` is complete in itself. Its script loads `data.js` once a second, which has the same
sections, and replaces those that have changed. So the page opens from the disk, where a script may
load another script but no data, and it keeps its focus and its place.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ackbench.experiments.messages.visible import visible
from ackbench.experiments.pages.live.drawing import (
    MOST_PARTITIONS,
    LoadChart,
    PartitionStrip,
    load_chart,
    partition_strips,
)
from ackbench.experiments.pages.live.events import FaultSpan, FaultState
from ackbench.experiments.pages.live.files import DATA, PAGE
from ackbench.experiments.pages.live.sweep import LiveSweep
from ackbench.experiments.pages.live.trial import LiveTrial, TrialFigures
from ackbench.experiments.pages.report.environment import template_environment
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.progress import format_duration
from ackbench.infra.machine.files import replace_file

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_ENDED: Final = 50
"""Trials that have ended, in the page; the newest."""
_FAULT_TEXTS: Final = {
    FaultState.NONE: "no fault in this trial",
    FaultState.PENDING: "not begun",
    FaultState.BEGUN: "begun, no effect observed so far",
    FaultState.EFFECTIVE: "took effect",
    FaultState.HEALED: "healed",
}


@dataclass(frozen=True)
class Sections:
    """The parts of the page, as HTML; each is replaced when it has changed."""

    now: str
    trial: str
    ended: str


@dataclass(frozen=True)
class Fact:
    """A figure of the trial under way."""

    name: str
    text: str


@dataclass(frozen=True)
class LiveTrialView:
    """The trial under way, for the template."""

    facts: tuple[Fact, ...]
    chart: LoadChart | None
    strips: tuple[PartitionStrip, ...]
    more_partitions: int
    marks: tuple[str, ...]
    without: tuple[str, ...]
    """What the client does not report while the trial runs."""
    alt: str


@dataclass(frozen=True)
class PageState:
    """What the page shows at one moment."""

    sections: Sections
    news: str
    """What it announces."""
    at_ns: int
    over: bool
    """Whether it stays as it is: no run updates it."""

    @property
    def at_text(self) -> str:
        """When it was written: without scripts nothing tells how old it is."""
        return f"{datetime.fromtimestamp(self.at_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def script(self) -> str:
        """Return the state as the argument of the page's script."""
        state = {
            "at_ms": self.at_ns // 1_000_000,
            "over": self.over,
            "news": visible(self.news),
            "sections": asdict(self.sections),
        }
        return json.dumps(state, separators=(",", ":")).replace("<", "\\u003c")


def write_data(folder: Path, state: PageState) -> None:
    """Replace what an open page loads once a second.

    Raises:
        OSError: the disk is full, or the folder is not writable.
    """
    folder.mkdir(exist_ok=True)
    replace_file(folder / DATA, f"ackbenchLive({state.script()});\n", durable=False)


def write_page(folder: Path, state: PageState) -> None:
    """Replace both files of the page.

    Raises:
        OSError: as `write_data`.
    """
    write_data(folder, state)
    template = _templates().get_template("live.html")
    replace_file(folder / PAGE, template.render(state=state), durable=False)


def waiting_sections() -> Sections:
    """Return the page while no sweep runs."""
    return Sections(now=render("live_waiting.html"), trial="", ended="")


def sections_without_data(sweep: SweepFolder, reason: str, *, over: bool) -> Sections:
    """Return the page of a sweep that nothing reads: no figures are better than old ones.

    Args:
        sweep: the sweep.
        reason: why there are none, as a clause.
        over: whether its run has ended.
    """
    now = render("live_without_data.html", sweep=sweep, reason=reason, over=over)
    return Sections(now=now, trial="", ended="")


def sections_of(live: LiveSweep) -> Sections:
    """Return the page of a sweep."""
    trial = live.trial
    return Sections(
        now=render("live_now.html", live=live, left=_left(live), since=_since(live)),
        trial=render("live_trial.html", live=live, trial=trial, view=_view(trial)) if trial else "",
        ended=render(
            "live_ended.html", live=live, shown=live.ended[:MOST_ENDED], total=len(live.ended)
        ),
    )


def news_of(live: LiveSweep) -> str:
    """Return what the page announces: the trial under way, or what the sweep does."""
    if live.over:
        return f"The run of {live.experiment} has ended."
    if live.trial and live.trial.running:
        return f"Trial {live.number} of {live.progress.total}: {live.trial.spec.label}"
    return f"{live.experiment}: {live.activity}"


@cache
def _templates() -> Environment:
    return template_environment()


def render(name: str, **values: Any) -> str:
    """Return a section as HTML.

    Args:
        name: of its template.
        values: for it.
    """
    return _templates().get_template(name).render(**values)


def _since(live: LiveSweep) -> str:
    return format_duration(live.activity_s)


def _left(live: LiveSweep) -> str:
    left_s = live.progress.remaining_s
    return "" if left_s is None or live.over else format_duration(left_s)


def _view(trial: LiveTrial) -> LiveTrialView:
    begin_ns, figures = trial.events.load_begin_ns, trial.figures
    chart = strips = None
    if begin_ns is not None and figures is not None:
        chart = load_chart(trial, figures, begin_ns)
        strips = partition_strips(trial, begin_ns)
    partitions = len(trial.events.partitions)
    facts = tuple(_facts(trial))
    return LiveTrialView(
        facts=facts,
        chart=chart,
        strips=strips or (),
        more_partitions=max(0, partitions - MOST_PARTITIONS) if strips else 0,
        marks=tuple(_marks(trial)),
        without=("sent", "latency") if figures and figures.sent is None else (),
        alt="Records per tenth of a second over the time of the trial. "
        + " ".join(f"{fact.name}: {fact.text}." for fact in facts),
    )


def _facts(trial: LiveTrial) -> Iterator[Fact]:
    figures = trial.figures
    yield Fact("fault", f"{trial.spec.fault.kind}: {_FAULT_TEXTS[trial.fault]}")
    if figures is None:
        yield Fact("load", "not begun")
        return
    yield Fact("sent", f"{figures.sent.records:,}" if figures.sent else "not measured live")
    yield Fact("acknowledged", f"{figures.acked.records:,}")
    yield Fact("read", f"{figures.read.records:,}")
    if figures.processed is not None:
        yield Fact("processed by the groups", f"{figures.processed.records:,}")
    yield Fact("failed", f"{figures.failed:,}")
    if figures.refused:
        yield Fact("refused by the client", f"{figures.refused:,}")
    if figures.unsettled is not None:
        yield Fact("not settled", f"{figures.unsettled:,}")
    yield Fact("latency to the acknowledgement, newest", _latency(figures))
    if trial.events.metadata_unavailable_ns is not None:
        yield Fact("metadata", "no broker answers for the topic")


def _latency(figures: TrialFigures) -> str:
    if figures.latency is None:
        return "not measured live"
    recent = figures.latency.recent
    if recent is None:
        return "no acknowledgement yet"
    return f"p50 {recent.p50_ms:,.1f} ms, p99 {recent.p99_ms:,.1f} ms"


def _marks(trial: LiveTrial) -> Iterator[str]:
    """Yield what has happened, with the seconds since the begin of the load."""
    begin_ns = trial.events.load_begin_ns
    if begin_ns is None:
        return

    def at(time_ns: int) -> str:
        return f"at {(time_ns - begin_ns) / 1e9:.2f} s"

    for span in trial.events.faults:
        yield f"{span.name or 'fault'} began {at(span.begin_ns)}, {_course(span, at)}"
    if trial.events.settled_ns is not None:
        yield f"all records settled {at(trial.events.settled_ns)}"
    if trial.events.healthy_ns is not None:
        yield f"full ISR {at(trial.events.healthy_ns)}"


def _course(span: FaultSpan, at: Any) -> str:
    effect = "no effect observed so far"
    if span.effective_ns is not None:
        effect = f"took effect {at(span.effective_ns)}"
    elif span.end_ns is not None:
        effect = "no effect observed at once"
    return f"{effect}, healed {at(span.end_ns)}" if span.end_ns is not None else effect
