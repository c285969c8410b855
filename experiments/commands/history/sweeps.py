"""`ackbench sweeps`: the index of all sweeps, as a table or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from rich import box
from rich.table import Table

from experiments.errors import UnknownName
from experiments.history.index import (
    IndexedSweep,
    IndexFilter,
    OnNew,
    SweepState,
    experiment_names,
    index,
)
from experiments.history.wording import (
    VERDICT_LEGEND,
    verdicts_text,
    versions_text,
    when_text,
)
from experiments.messages.console import console_for_results, print_text
from experiments.messages.phrases import did_you_mean, format_bytes, format_count, shorten
from experiments.messages.terminal import echo_json, echo_progress
from experiments.sweep.progress import format_duration
from infra.machine.home import Home

LEGEND: Final = f"{VERDICT_LEGEND}; took: hours:minutes:seconds; the time in an id is UTC"


def list_sweeps(home: Home, wanted: IndexFilter, *, limit: int | None, as_json: bool) -> int:
    """Print the sweeps of a home, the newest first.

    Args:
        home: the home.
        wanted: which of them.
        limit: how many of them at most; `None`: all.
        as_json: print one JSON object.

    Raises:
        UnknownName: no sweep is wanted; the message names what there is.
    """
    found = index(home, wanted, announce_summaries(), details=as_json)
    if not found:
        raise UnknownName(_nothing(home, wanted))
    shown = found[:limit]
    if as_json:
        document = {"sweeps": [sweep_entry(one) for one in shown], "more": len(found) - len(shown)}
        echo_json(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    terminal = sys.stdout.isatty()
    console = console_for_results(terminal=terminal)
    console.print(_table(shown))
    total = sum(one.summary.size_bytes for one in found if one.state is not SweepState.PRUNED)
    more = f", {len(shown):,} of them shown" if len(shown) < len(found) else ""
    print_text(
        console, f"{format_count(len(found), 'sweep')}{more}, {format_bytes(total)}", wrap=terminal
    )
    print_text(console, LEGEND, wrap=terminal)
    for one in shown:
        if one.state is SweepState.UNREADABLE:
            print_text(console, f"{one.summary.sweep_id}: {one.summary.problem}", wrap=terminal)
    return 0


def announce_summaries() -> OnNew:
    """Return a function that shows on stderr, if that is a terminal, how many sweeps are read."""

    def announce(sweep_id: str, number: int, total: int) -> None:
        del sweep_id
        if sys.stderr.isatty():
            text = f"reading sweeps that are new in the index: {number:,} of {total:,}"
            echo_progress(text, last=number == total)

    return announce


def _nothing(home: Home, wanted: IndexFilter) -> str:
    experiments = experiment_names(home)
    if not experiments:
        return f"no sweep in {home.sweeps} yet: start with `ackbench run quick`"
    if wanted.experiment is not None and wanted.experiment not in experiments:
        hint = did_you_mean(wanted.experiment, experiments)
        return f"no sweep of experiment {shorten(wanted.experiment)}{hint}"
    every = index(home, details=False)
    versions = {version for one in every for version in one.summary.kafka_versions}
    return (
        f"none of {format_count(len(every), 'sweep')} matches; versions of Kafka: "
        f"{', '.join(sorted(versions)) or 'none'}; `ackbench sweeps` lists all"
    )


def sweep_entry(one: IndexedSweep) -> dict[str, Any]:
    """Return a sweep as `ackbench sweeps --json` prints it."""
    summary = one.summary
    return {
        "sweep_id": summary.sweep_id,
        "experiment": summary.experiment,
        "planned": when_text(summary.planned_s, seconds=True),
        "state": one.state.value,
        "pinned": one.pinned,
        "kafka_versions": list(summary.kafka_versions),
        "client_versions": list(summary.client_versions),
        "machine": summary.machine,
        "lesson": summary.lesson,
        "conclusion": summary.conclusion,
        "verdicts": {
            "held": summary.held,
            "violated": summary.violated,
            "unknown": summary.unknown,
            "not_guaranteed": summary.not_guaranteed,
        },
        "trials": {
            "planned": summary.planned_trials,
            "sealed": summary.sealed_trials,
            "void": summary.void_trials,
            "incomplete": summary.incomplete_trials,
            "failed": summary.failed_trials,
            "pending": summary.pending_trials,
        },
        "cells": [cell.label for cell in summary.cells if not cell.added],
        "took_s": summary.took_s,
        "size_bytes": summary.size_bytes,
        "problem": summary.problem,
    }


def state_text(one: IndexedSweep) -> str:
    """Return the state if it is not complete, and whether the sweep is pinned."""
    states = [] if one.state is SweepState.COMPLETE else [one.state.value]
    return ", ".join([*states, *(["pinned"] if one.pinned else [])])


def _table(sweeps: Sequence[IndexedSweep]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("sweep", overflow="fold", min_width=24)
    table.add_column("Kafka", overflow="fold")
    table.add_column("verdicts", overflow="fold")
    table.add_column("took", no_wrap=True, justify="right")
    table.add_column("size", no_wrap=True, justify="right")
    if any(map(state_text, sweeps)):
        table.add_column("state", overflow="fold")
    for one in sweeps:
        summary = one.summary
        table.add_row(
            summary.sweep_id,
            versions_text(summary.kafka_versions),
            verdicts_text(summary),
            format_duration(summary.took_s) if summary.took_s is not None else "",
            format_bytes(summary.size_bytes),
            *([state_text(one)] if len(table.columns) > 5 else []),  # noqa: PLR2004 - see above
            style="bold red" if summary.violated else None,
        )
    return table
