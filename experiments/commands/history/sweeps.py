"""`ackbench sweeps`: the index of all sweeps, as a table or as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ackbench.experiments.messages.columns import column_lines
from ackbench.experiments.messages.errors import StorageError, UnknownName
from ackbench.experiments.messages.phrases import did_you_mean, format_bytes, format_count, shorten
from ackbench.experiments.messages.terminal import echo, echo_error, echo_json, echo_progress
from ackbench.experiments.results.history.index import (
    IndexedSweep,
    IndexFilter,
    OnNew,
    SweepState,
    experiment_names,
    index,
)
from ackbench.experiments.results.history.wording import (
    VERDICT_LEGEND,
    verdicts_text,
    versions_text,
    when_text,
)
from ackbench.experiments.sweep.lookup import STORE_VARIABLE, SUMMARIES
from ackbench.experiments.sweep.progress import format_duration
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from rich.table import Table

    from ackbench.experiments.ledger.location import Location

LEGEND: Final = (
    f"{VERDICT_LEGEND}; took: time of trials, hours:minutes:seconds; size: in this home; "
    "the time in an id is UTC"
)
_HEADS: Final = ("sweep", "Kafka", "verdicts", "took", "size", "state")
_RIGHT: Final = frozenset({"took", "size"})
_MOST_COLOURED: Final = 200
"""A longer table is not looked at row by row, and is printed without colours in a tenth of the
time."""


def list_sweeps(
    home: Home, wanted: IndexFilter, store: str | None, *, limit: int | None, as_json: bool
) -> int:
    """Print the sweeps of a home and of a store, the newest first.

    Args:
        home: the home.
        wanted: which of them.
        store: as of `history_store`.
        limit: how many of them at most; `None`: all.
        as_json: print one JSON object.

    Raises:
        UnknownName: no sweep is wanted; the message names what there is.
        StorageError: the named store cannot be read.
    """
    with history_store(store) as shared:
        found = index(home, wanted, announce_summaries(), store=shared, details=as_json)
        if not found:
            raise UnknownName(why_none(home, wanted, shared))
    shown = found[:limit]
    if as_json:
        document = {"sweeps": [sweep_entry(one) for one in shown], "more": len(found) - len(shown)}
        echo_json(json.dumps(document, indent=2, ensure_ascii=False))
        return 0
    total = sum(one.home_bytes for one in found)
    more = f", {len(shown):,} of them shown" if len(shown) < len(found) else ""
    problems = (
        f"{one.summary.sweep_id}: {one.summary.problem}"
        for one in shown
        if one.state is SweepState.UNREADABLE
    )
    _print(
        shown,
        (f"{format_count(len(found), 'sweep')}{more}, {format_bytes(total)}", LEGEND, *problems),
    )
    return 0


def announce_summaries() -> OnNew:
    """Return a function that shows on stderr, if that is a terminal, how many sweeps are read."""

    def announce(sweep_id: str, number: int, total: int) -> None:
        del sweep_id
        if sys.stderr.isatty():
            text = f"reading sweeps that are new in the index: {number:,} of {total:,}"
            echo_progress(text, last=number == total)

    return announce


@contextmanager
def history_store(named: str | None) -> Iterator[Location | None]:
    """Give the store whose sweeps belong to the history; `None`: only those of the home do.

    Args:
        named: a folder or a URI; `None`: that of `ACKBENCH_STORE`, without which the command goes
            on, with a remark, if it does not answer.

    Raises:
        StorageError: the named store does not answer, or a store cannot be read.
    """
    if not named and not os.environ.get(STORE_VARIABLE):
        yield None
        return
    from ackbench.experiments.sweep.published import (
        open_store,
        storage_errors,
        store_of_environment,
    )

    store = open_store(named) if named else None
    if not named:
        try:
            store = store_of_environment()
        except StorageError as error:
            echo_error(f"ackbench: only the sweeps of this home: {error}")
    with storage_errors():
        if store and named and not store.at(SUMMARIES).list_files():
            echo_error(f"ackbench: no sweep is published in {store.uri}")
        yield store


def why_none(home: Home, wanted: IndexFilter, store: Location | None) -> str:
    """Return which word of a filter no sweep matches, and what there is instead."""
    experiments = experiment_names(home, store)
    if not experiments:
        if store:
            return f"no sweep in {home.sweeps}, and no summary of one in {store.uri}"
        return f"no sweep in {home.sweeps} yet: start with `ackbench run quick`"
    if wanted.experiment is not None and wanted.experiment not in experiments:
        hint = did_you_mean(wanted.experiment, experiments)
        return f"no sweep of experiment {shorten(wanted.experiment)}{hint}"
    of = IndexFilter(wanted.experiment)
    text = f"no sweep of experiment {of.experiment}" if of.experiment else "no sweep"
    if wanted.version is not None:
        text = f"{text} with Kafka {shorten(wanted.version)}"
        every = index(home, of, store=store, details=False)
        of = replace(of, version=wanted.version)
        if not any(map(of.accepts, every)):
            versions = {version for one in every for version in one.summary.kafka_versions}
            return f"{text}; versions: {', '.join(sorted(versions)) or 'none'}"
    if wanted.cell:
        text = f"{text} has a cell of the words {shorten(' '.join(wanted.cell))}"
        every = index(home, of, store=store)
        of = replace(of, cell=wanted.cell)
        if not any(map(of.accepts, every)):
            words = {
                word for one in every for cell in one.summary.cells for word in cell.label.split()
            }
            unknown = [word for word in wanted.cell if word not in words]
            return f"{text}{did_you_mean(unknown[0], words) if unknown else ''}"
        text = f"{text} and"
    found = {one.state.value for one in index(home, of, store=store, details=False)}
    states = " or ".join(sorted(wanted.states))
    return f"{text} is {states}; states: {', '.join(sorted(found))}"


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


def _print(sweeps: Sequence[IndexedSweep], below: Sequence[str]) -> None:
    heads = _HEADS if any(map(state_text, sweeps)) else _HEADS[:-1]
    rows = [_row(one)[: len(heads)] for one in sweeps]
    if sys.stdout.isatty() and len(sweeps) <= _MOST_COLOURED:
        from ackbench.experiments.messages.console import console_for_results, print_text

        console = console_for_results(terminal=True)
        console.print(_table(sweeps, heads, rows))
        for line in below:
            print_text(console, line, wrap=True)
    else:
        echo("\n".join((*column_lines(heads, rows, _RIGHT), *below)))


def _row(one: IndexedSweep) -> tuple[str, ...]:
    """Return the cells of a sweep, as `_HEADS` names them."""
    summary = one.summary
    return (
        summary.sweep_id,
        versions_text(summary.kafka_versions),
        verdicts_text(summary),
        format_duration(summary.took_s) if summary.took_s is not None else "",
        format_bytes(one.home_bytes) if one.home_bytes else "",
        state_text(one),
    )


def _table(
    sweeps: Sequence[IndexedSweep], heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> Table:
    from ackbench.experiments.messages.console import result_table

    table = result_table()
    for head in heads:
        if head in _RIGHT:
            table.add_column(head, no_wrap=True, justify="right")
        else:
            table.add_column(head, overflow="fold", min_width=24 if head == _HEADS[0] else None)
    for one, row in zip(sweeps, rows, strict=True):
        table.add_row(*row, style="bold red" if one.summary.violated else None)
    return table
