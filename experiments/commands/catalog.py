"""`ackbench list` and `ackbench explain`: what can be asked, and what is behind a question."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from experiments.messages.counts import counted
from experiments.planning.experiment import Experiment, catalogue, load
from experiments.planning.new_sweep import planned_as
from experiments.results.tables import console_for_results
from experiments.sweep.plan import Plan
from experiments.sweep.progress import expected_minutes

_UNPLANNED = "explain"
"""The sweep's name in a plan that is only looked at."""


def list_experiments() -> int:
    """Print the claims in the order of the lessons, then the other experiments: name, title, about how many minutes."""
    experiments = catalogue()
    claims = sorted(
        (one for one in experiments if one.claim),
        key=lambda one: one.claim.lesson if one.claim else 0,
    )
    console = _console()
    _print_list(console, "what the lessons claim, in their order (`ackbench explain NAME`)", claims)
    _print_list(console, "further questions", [one for one in experiments if not one.claim])
    return 0


def explain(named: str) -> int:
    """Print an experiment's question, and of one of the lessons' the claim, the mechanism, what will be done and what would refute it.

    Raises:
        UnknownName: there is no such experiment.
        ExperimentError: it is no experiment, or cannot be planned.
    """
    experiment = load(named)
    plan, console = planned_as(experiment, _UNPLANNED, named), _console()
    console.print(f"{experiment.name}: {experiment.title}", style="bold", markup=False)
    for head, text in _told(experiment):
        console.print(f"\n{head}", style="bold" if console.is_terminal else None)
        console.print(Padding(" ".join(text.split()), (0, 0, 0, 2)), markup=False, highlight=False)
    console.print(f"\n{_extent(experiment, plan)}", markup=False, highlight=False)
    console.print(f"run it: ackbench run {named}", markup=False, highlight=False)
    return 0


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
    return f"{expected_minutes(planned_as(experiment, _UNPLANNED, experiment.name))} min"


def _told(experiment: Experiment) -> Iterator[tuple[str, str]]:
    yield "the question", experiment.question
    if experiment.claim:
        claim = experiment.claim
        yield f"what the lesson says (lesson {claim.lesson})", claim.says
        yield "how Kafka does it", claim.mechanism
        yield "what is done", claim.method
        yield "what would refute it", claim.refuted_by
        if claim.in_production:
            yield "in production", claim.in_production


def _extent(experiment: Experiment, plan: Plan) -> str:
    """Return how much it is."""
    cells = len({trial.label for trial in plan.trials if not trial.added})
    refused = (
        f", {counted(len(plan.refused), 'cell')} refused by the client" if plan.refused else ""
    )
    controls = sum(trial.added for trial in plan.trials)
    schedule = f"; scheduled {experiment.schedule}" if experiment.schedule else ""
    what = f"{counted(cells, 'cell')} x {counted(experiment.repeats, 'repeat')}{refused}, {counted(controls, 'control trial')}"
    return f"{what}: about {counted(expected_minutes(plan), 'minute')}{schedule}"
