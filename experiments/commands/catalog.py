"""`ackbench explain` and `run --dry-run`: an experiment, and what it would run."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

from rich.console import Console
from rich.padding import Padding

from ackbench.experiments.messages.console import console_for_results, print_text
from ackbench.experiments.messages.errors import UnknownName
from ackbench.experiments.messages.terminal import echo_json
from ackbench.experiments.planning.capacity import resource_needs
from ackbench.experiments.planning.catalog.loading import load_experiment
from ackbench.experiments.planning.experiment import Experiment
from ackbench.experiments.planning.extents import extent_of
from ackbench.experiments.planning.new_sweep import PlannedSweep, plan_experiment, refuse_empty
from ackbench.experiments.results.lessons.diagram import draw_experiment
from ackbench.experiments.results.lessons.shortened import describe_shortened
from ackbench.experiments.sweep.cell_names import cell_sort_key
from ackbench.experiments.sweep.plan import Plan
from ackbench.infra.machine.resources import format_gib

_SWEEP_ID: Final = "explain"
"""The sweep id of a plan that is only shown."""


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
    console.print(f"\n{extent_of(experiment, plan).text()}")
    console.print(f"run it with: ackbench run {named}")
    return 0


def print_plan(planned: PlannedSweep, further: str | None = None) -> None:
    """Print what a sweep would run and need: its trials by cell, refused cells and remarks.

    Args:
        planned: the sweep.
        further: what `--until` adds.
    """
    from ackbench.experiments.results.formats.tables import lines_of_refusals

    console, needs = _console(), resource_needs(planned.plan)

    def line(text: str) -> None:
        print_text(console, text, wrap=console.is_terminal)

    line(f"{planned.experiment.name}: {extent_of(planned.experiment, planned.plan).text()}")
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
        *([further] if further else []),
    ):
        line(text)
    line("nothing was started (--dry-run)")


def _trials_by_cell(plan: Plan) -> Counter[tuple[str, str]]:
    """Return the number of trials by label and role, in the order of the results' table."""
    from ackbench.experiments.results.wording import ROLE_NAMES

    ordered = sorted(plan.trials, key=lambda trial: (trial.added, cell_sort_key(trial.cell)))
    return Counter((trial.label, ROLE_NAMES[trial.role]) for trial in ordered)


def _console() -> Console:
    return console_for_results(terminal=sys.stdout.isatty())


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
