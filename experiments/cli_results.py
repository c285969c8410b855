"""The commands that look at results: show, measure, report, compare, matrix. Nothing heavy is imported before it is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from infra.home import Home

FAIL_ON = "End with exit code 3 on: violated (a promise was broken), unknown (a verdict cannot be given). May be repeated."


@click.command(
    epilog="""
\b
Examples:
  ackbench show
  ackbench show quick-20260102T030405-ab12 --json | jq '.cells[] | {cell, lost}'
"""
)
@click.argument("sweep", required=False)
@click.option("--json", "as_json", is_flag=True, help="One object, as docs/show-json.md describes it.")
def show(sweep: str | None, as_json: bool) -> int:
    """Show the results of SWEEP: a name, a folder, or an experiment, whose newest is meant; of the newest of all when none is named."""
    from experiments.commands import showing

    return showing.show(Home.from_environment(), sweep, as_json=as_json)


@click.command()
@click.argument("sweep")
def measure(sweep: str) -> int:
    """Measure SWEEP again from its ledgers alone, and show the results."""
    from experiments.commands import showing

    return showing.measure_again(Home.from_environment(), sweep)


@click.command(
    epilog="""
\b
Examples:
  ackbench report
  ackbench report quick-20260102T030405-ab12
"""
)
@click.argument("sweep", required=False)
@click.option("--fail-on", "fail_on", multiple=True, metavar="WHAT", help=FAIL_ON)
def report(sweep: str | None, fail_on: tuple[str, ...]) -> int:
    """Make the page of SWEEP anew, of the newest when none is named, and print where it lies.

    Exit code 3: --fail-on names a verdict that the sweep holds, a line each.
    """
    from experiments.commands import reporting

    return reporting.report(Home.from_environment(), sweep, fail_on)


@click.command(
    epilog="""
\b
Examples:
  ackbench compare quick-20260102T030405-ab12 quick-20260103T030405-cd34
  ackbench compare A B --html ab.html
  ackbench compare quick-20260102T030405-ab12 --by acks
  ackbench compare A --by enable.idempotence --fail-on "worse:latency_p99>20%"
  ackbench compare A B --fail-on violated --fail-on "worse:latency_p99>20%"
"""
)
@click.argument("a", metavar="SWEEP")
@click.argument("b", metavar="[SWEEP]", required=False)
@click.option("--by", "axis", metavar="AXIS", help="Compare the cells of one sweep: those with the first value of AXIS beside each other value's.")
@click.option("--json", "as_json", is_flag=True, help="One object, as docs/report.md describes it.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also write a page.")
@click.option(
    "--fail-on",
    "fail_on",
    multiple=True,
    metavar="WHAT",
    help=f"{FAIL_ON} Also worse:MEASURE>N%: B is worse than A by more than N % (shares: points), the whole 95 % interval beyond it. "
    "MEASURE: loss, duplicates, latency_p99, outage, throughput.",
)
def compare(a: str, b: str | None, axis: str | None, as_json: bool, html: Path | None, fail_on: tuple[str, ...]) -> int:  # noqa: PLR0913, PLR0917 - see run
    """Show two sweeps side by side, A and B, or the cells of one: paired by cell and by seed, with intervals, tests, effects and changed verdicts.

    Exit code 2: they cannot be compared. 3: --fail-on names what was found, a line each.
    """
    from experiments.commands import comparing

    home = Home.from_environment()
    if b is not None and axis is None:
        return comparing.compare_sweeps(home, (a, b), as_json=as_json, html=html, fail_on=fail_on)
    if axis is not None and b is None:
        return comparing.compare_cells(home, (a, axis), as_json=as_json, html=html, fail_on=fail_on)
    raise click.UsageError(f"{a} is compared with a second sweep, or by an axis of its own (--by AXIS): name {'one of them only' if b else 'one of them'}")


@click.command(
    epilog="""
\b
Examples:
  ackbench matrix
  ackbench matrix faults-process-20260102T030405-ab12 faults-disk-20260102T040506-cd34
  ackbench matrix A B C --markdown > faults.md
"""
)
@click.argument("sweeps", nargs=-1, metavar="[SWEEP]...")
@click.option("--markdown", is_flag=True, help="As a table for a document.")
def matrix(sweeps: tuple[str, ...], markdown: bool) -> int:
    """Show what each fault did to each of the clients' settings, over all SWEEPs; of the newest when none is named."""
    from experiments.commands import tabulating

    return tabulating.print_matrix(Home.from_environment(), sweeps, markdown=markdown)


COMMANDS: Final = (show, measure, report, compare, matrix)
"""In the order of the help."""
