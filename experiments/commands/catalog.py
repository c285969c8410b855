"""`ackbench list`, `explain` and `run --dry-run`: experiments, and what they would run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from ackbench.experiments.errors import UnknownName
from ackbench.experiments.messages.console import console_for_results, print_text
from ackbench.experiments.messages.phrases import format_count
from ackbench.experiments.messages.terminal import echo_json
from ackbench.experiments.planning.capacity import resource_needs
from ackbench.experiments.planning.catalog import catalog_experiments, load_experiment
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.new_sweep import PlannedSweep, plan_experiment, refuse_empty
from ackbench.experiments.results.cells import cell_sort_key
from ackbench.experiments.results.formats.tables import lines_of_refusals
from ackbench.experiments.results.lessons.diagram import draw_experiment
from ackbench.experiments.results.lessons.shortened import describe_shortened
from ackbench.experiments.results.wording import ROLE_NAMES
from ackbench.experiments.sweep.plan import Plan
from ackbench.experiments.sweep.progress import expected_minutes
from ackbench.infra.machine.resources import format_gib

_SWEEP_ID: Final = "explain"
"""The sweep id of a plan that is only shown."""


def list_experiments() -> int:
    """Print the claims in the order of the lessons, the other experiments, and known bugs."""
    experiments = catalog_experiments()
    claims = sorted(
        (one for one in experiments if one.claim),
        key=lambda one: one.claim.lesson if one.claim else 0,
    )
    console = _console()
    _print_list(
        console, "claims about Kafka, in the order of the lessons (`ackbench explain NAME`)", claims
    )
    others = [one for one in experiments if not one.claim]
    _print_list(console, "other questions", [one for one in others if not one.bug])
    _print_list(
        console, "known bugs, in releases with and without them", [one for one in others if one.bug]
    )
    return 0


def print_schema() -> int:
    """Print the JSON Schema of experiment files."""
    from ackbench.experiments.planning.schema import experiment_schema

    echo_json(json.dumps(experiment_schema(), indent=2))
    return 0


def explain(named: str) -> int:
    """Print an experiment's question and, if it tests a claim, the claim, mechanism and method.

    Raises:
        UnknownName: there is no such experiment.
        ExperimentError: the file is not an experiment, or cannot be planned, or the clients refuse
            every cell.
    """
    try:
        experiment = load_experiment(named)
    except UnknownName as error:
        from ackbench.experiments.commands.why import command_about

        raise UnknownName(command_about(named) or str(error)) from error
    plan, console = plan_experiment(experiment, _SWEEP_ID, named), _console()
    refuse_empty(plan, named)
    console.print(f"{experiment.name}: {experiment.title}", style="bold")
    console.print()
    for line in draw_experiment(plan):
        print_text(console, f"  {line}".rstrip(), wrap=False)
    for head, text in _paragraphs(experiment, describe_shortened(plan)):
        console.print(f"\n{head}", style="bold" if console.is_terminal else None)
        console.print(Padding(" ".join(text.split()), (0, 0, 0, 2)))
    console.print(f"\n{_extent(experiment, plan)}")
    console.print(f"run it with: ackbench run {named}")
    return 0


def print_plan(planned: PlannedSweep) -> None:
    """Print what a sweep would run and need: its trials by cell, refused cells and remarks."""
    console, needs = _console(), resource_needs(planned.plan)

    def line(text: str) -> None:
        print_text(console, text, wrap=console.is_terminal)

    line(f"{planned.experiment.name}: {_extent(planned.experiment, planned.plan)}")
    line(
        f"memory: {format_gib(needs.memory_bytes)}, disk: {format_gib(needs.disk_bytes)} "
        "(estimates, rounded up)\n"
    )
    for (label, role), trials in _trials_by_cell(planned.plan).items():
        line(f"{trials:>4} x {label}" + (f" ({role})" if role else ""))
    line("")
    for text in (
        *lines_of_refusals((cell.cell, cell.reason) for cell in planned.plan.refused),
        *planned.remarks,
    ):
        line(text)
    line("nothing was started (--dry-run)")


def _trials_by_cell(plan: Plan) -> Counter[tuple[str, str]]:
    """Return the number of trials by label and role, in the order of the results' table."""
    ordered = sorted(plan.trials, key=lambda trial: (trial.added, cell_sort_key(trial.cell)))
    return Counter((trial.label, ROLE_NAMES[trial.role]) for trial in ordered)


def _console() -> Console:
    return console_for_results(terminal=sys.stdout.isatty())


def _print_list(console: Console, head: str, experiments: list[Experiment]) -> None:
    table = Table(
        box=None,
        show_header=False,
        padding=(0, 2, 0, 0),
        title=head,
        title_justify="left",
        title_style="bold",
    )
    table.add_column(justify="right")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for experiment in experiments:
        lesson = str(experiment.claim.lesson) if experiment.claim else ""
        scheduled = f"\nscheduled {experiment.schedule}" if experiment.schedule else ""
        table.add_row(lesson, experiment.name, experiment.title + scheduled, _minutes(experiment))
    console.print(table)
    console.print()


def _minutes(experiment: Experiment) -> str:
    return f"{expected_minutes(plan_experiment(experiment, _SWEEP_ID, experiment.name))} min"


def _paragraphs(experiment: Experiment, shortened: str | None) -> Iterator[tuple[str, str]]:
    yield "question", experiment.question
    if experiment.construction:
        yield "decided by the construction", experiment.construction
    if shortened:
        yield "timeouts below their defaults", shortened
    if experiment.bug:
        bug = experiment.bug
        yield "known bug", f"{bug.mechanism.strip()} ({bug.report})"
        yield "releases", f"with it: {bug.affected}; without it: {bug.fixed}"
    if experiment.claim:
        claim = experiment.claim
        yield f"claim (lesson {claim.lesson})", claim.says
        yield "mechanism", claim.mechanism
        yield "method", claim.method
        yield "refuted by", claim.refuted_by
        if claim.in_production:
            yield "in production", claim.in_production


def _extent(experiment: Experiment, plan: Plan) -> str:
    """Return the number of cells, repeats and controls, and the expected minutes."""
    cells = len({trial.label for trial in plan.trials if not trial.added})
    refused = ""
    if plan.refused:
        refused = f", {format_count(len(plan.refused), 'cell')} refused by the client"
    controls = sum(trial.added for trial in plan.trials)
    schedule = f"; scheduled {experiment.schedule}" if experiment.schedule else ""
    trials = (
        f"{format_count(cells, 'cell')} x {format_count(experiment.repeats, 'repeat')}{refused}"
    )
    minutes = f"about {format_count(expected_minutes(plan), 'minute')}"
    return f"{trials}, {format_count(controls, 'control trial')}: {minutes}{schedule}"
