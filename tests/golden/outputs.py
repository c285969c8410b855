"""Everything that the product writes of a sweep, as text.

Not here, because it says nothing of a stored sweep: `setup`, `doctor`, `env`, `up`, `open`, `clean`
and `publish` (this machine and its services), the live page and its metrics (a running process;
`tests/unit/pages/live`), `selftest` (it damages copies, and has its own expected figures), `prune`,
`pin` and alerts (limits, and what failed; `tests/unit/results/history`,
`tests/unit/orchestration`), `faults` and `run --dry-run` (by what this machine permits), `run`,
`tour` and `measure` (their results are those of `show`), the pictures of the README
(`tests/pictures`), and `docs/` itself.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import pyarrow.parquet as pq
import pytest
from golden.outline import outline

import ackbench
from ackbench.experiments.commands.cli import cli
from ackbench.experiments.orchestration.tracking import store
from ackbench.experiments.orchestration.tracking.runs import TRIAL
from ackbench.experiments.pages.report.chapters import write_chapters
from ackbench.experiments.pages.report.data import read_report_data
from ackbench.experiments.pages.report.drawing import set_matplotlib_cache
from ackbench.experiments.pages.report.page import render_page
from ackbench.experiments.pages.report.tour_page import write_tour_page
from ackbench.experiments.results.comparing.findings import UNKNOWN, VIOLATED
from ackbench.experiments.results.comparing.gate import Gate
from ackbench.experiments.results.comparing.sentences import failure_sentence, inspected_sentence
from ackbench.experiments.results.lessons.tour import TourFolder
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import open_sweep
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

_COPY: Final = re.compile("published/[0-9a-f]{16}")
"""The folder of a copy of a published sweep; it has the digest of its URI."""


class _Terminal(io.StringIO):
    """Text that is written to a terminal."""

    def isatty(self) -> bool:
        """Say that it is one."""
        return True


def printed(home: Home, *arguments: str, columns: int | None = None) -> str:
    """Return what a command prints, and its exit code if that is not 0.

    Args:
        home: the home.
        arguments: of `ackbench`.
        columns: the width of the terminal; `None`: the output goes to a file.
    """
    out, errors = (_Terminal() if columns else io.StringIO()), io.StringIO()
    code: str | int | None = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACKBENCH_HOME", str(home.root))
        patch.setenv("TERM", "dumb")  # no colours
        patch.setenv("LINES", "50")
        patch.setenv("COLUMNS", str(columns or 80))
        with redirect_stdout(out), redirect_stderr(errors):
            try:
                cli.main(args=list(arguments), prog_name="ackbench")
            except SystemExit as ended:
                code = ended.code
    text = click.unstyle(out.getvalue())
    lines = [line.rstrip() for line in text.splitlines()]
    if errors.getvalue():
        lines += ["-- standard error", *errors.getvalue().splitlines()]
    if code:
        lines.append(f"-- exit code {code}")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class StoredSweep:
    """A sweep of a home, and what has to be left out of its outputs: where it is."""

    home: Home
    name: str
    """Of its files here."""
    folder: Path

    @property
    def argument(self) -> str:
        """The argument of commands that names it; for several hosts' sweep, its URI."""
        if self.folder.is_relative_to(self.home.sweeps):
            return self.folder.name
        return self.folder.as_uri()

    @property
    def sweep(self) -> SweepFolder:
        """The folder that is read; for several hosts' sweep, a copy of its small files."""
        return open_sweep(self.home, self.argument)


def shown(stored: StoredSweep) -> str:
    """Return what `ackbench show --all` prints to a file."""
    return printed(stored.home, "show", "--all", stored.argument)


def shown_on_80_columns(stored: StoredSweep) -> str:
    """Return what `ackbench show` prints on a narrow terminal."""
    return printed(stored.home, "show", stored.argument, columns=80)


def shown_on_120_columns(stored: StoredSweep) -> str:
    """Return what `ackbench show --all` prints on a wide terminal."""
    return printed(stored.home, "show", "--all", stored.argument, columns=120)


def shown_as_json(stored: StoredSweep) -> str:
    """Return what `ackbench show --json` prints."""
    return printed(stored.home, "show", stored.argument, "--json")


def junit(stored: StoredSweep) -> str:
    """Return the file of `ackbench show --junit`."""
    return _written(stored.home, "--junit", "show", stored.argument)


def markdown(stored: StoredSweep) -> str:
    """Return the file of `ackbench show --markdown`."""
    return _written(stored.home, "--markdown", "show", stored.argument)


def gate(stored: StoredSweep) -> str:
    """Return what the gate of `ackbench run` and `report` says to each expression."""
    results = read_results(stored.sweep)
    lines = [*map(inspected_sentence, Gate.parse([VIOLATED]).sweep_summary(results))]
    for expression in (VIOLATED, UNKNOWN):
        lines.append(f"--fail-on {expression}")
        failures = Gate.parse([expression]).sweep_failures(results)
        lines += [f"  {failure_sentence(failure)}" for failure in failures]
    return "\n".join(lines) + "\n"


def frames(stored: StoredSweep) -> str:
    """Return the DataFrames of the Python API, one value per line, with their types."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACKBENCH_HOME", str(stored.home.root))
        loaded = ackbench.load(stored.argument)
    parts = [("trials", loaded.trials), ("cells", loaded.cells), ("verdicts", loaded.verdicts)]
    return f"{loaded.answer}\n" + "".join(_frame(name, frame) for name, frame in parts)


def tables(stored: StoredSweep) -> str:
    """Return the columns of the result tables, each with the digest of its values."""
    lines = list[str]()
    for path in sorted((stored.folder / "results").glob("*.parquet")):
        table = pq.read_table(path)
        lines.append(f"{path.stem}: {table.num_rows:,} rows")
        for name in table.column_names:
            values = table[name].to_pylist()
            lines.append(
                f"  {name} {table[name].type} {_digest(values) if values else ''}".rstrip()
            )
    return "\n".join(lines) + "\n"


def report(stored: StoredSweep) -> str:
    """Return the outline of the report."""
    set_matplotlib_cache(stored.home)
    return outline(render_page(replace(read_report_data(stored.sweep), program="ackbench")))


def mlflow(stored: StoredSweep) -> str:
    """Return what MLflow has after tracking: names and values, without ids and times."""
    home = stored.home
    store.track(stored.sweep, home)
    client = store.open_client(home)
    lines = list[str]()
    for experiment in sorted(client.search_experiments(), key=attrgetter("name")):
        if experiment.name == "Default":
            continue
        lines += [f"experiment {experiment.name}", *_tag_lines(experiment.tags)]
        found = client.search_runs([experiment.experiment_id])
        found.sort(key=lambda run: str(run.data.tags.get("trial_id")))
        runs = {run.info.run_name: list(_run_lines(client, run)) for run in found}
        assert len(runs) == len(found), "two runs have one name"
        trials = [runs[run.info.run_name] for run in found if run.data.tags["kind"] == TRIAL]
        common = [line for line in trials[0] if all(line in other for other in trials[1:])]
        lines += ["all runs of trials", *common]
        for name, own in runs.items():
            shared = common if own in trials else ()
            lines += [f"run {name}", *(line for line in own if line not in shared)]
    return "\n".join(lines) + "\n"


def _run_lines(client: MlflowClient, run: Run) -> Iterator[str]:
    yield f"  status {run.info.status}"
    for name, value in sorted(run.data.params.items()):
        yield f"  param {name} = {_indented(value)}"
    for name, metric in sorted(run.data.metrics.items()):
        if name.startswith("timeline_"):
            points = client.get_metric_history(run.info.run_id, name)
            steps = [point.step for point in points]
            mean = sum(point.value for point in points) / len(points)
            yield (
                f"  series {name}: {len(points)} points from {min(steps)} to {max(steps)} ms, "
                f"mean {mean:.3f}"
            )
        else:
            yield f"  metric {name} = {metric!r}"
    yield from _tag_lines(run.data.tags)
    for one in run.inputs.dataset_inputs if run.inputs else ():
        yield f"  dataset {one.dataset.name} {one.dataset.digest} {one.dataset.source}"
    for artifact in client.list_artifacts(run.info.run_id):
        yield f"  artifact {artifact.path}"


_RUN_ID = re.compile(r"\b[0-9a-f]{32}\b")


def _tag_lines(tags: Mapping[str, str]) -> Iterator[str]:
    """Yield the tags; of a saved view, which is packed, the name."""
    for name, value in sorted(tags.items()):
        if name.startswith("mlflow.sharedViewState"):
            yield f"  tag {name}"
        elif not name.startswith(("mlflow.user", "mlflow.source", "ackbench.note")):
            yield f"  tag {name} = {_indented(_RUN_ID.sub('RUN', value))}"


def _indented(text: str) -> str:
    return text.rstrip("\n").replace("\n", "\n    ")


def _frame(name: str, frame: pd.DataFrame) -> str:
    lines = [f"\n{name}: {len(frame)} rows"]
    lines += [f"  {column} {dtype}" for column, dtype in frame.dtypes.items()]
    for number, row in enumerate(frame.astype(object).to_dict("records")):
        lines.append(f"{name}[{number}]")
        lines += [f"  {column} = {value}" for column, value in row.items()]
    return "\n".join(lines) + "\n"


def _digest(values: Any) -> str:
    return sha256(repr(values).encode()).hexdigest()[:12]


def _written(home: Home, option: str, *arguments: str) -> str:
    """Return the file that a command writes for an option."""
    path = home.root / "written"
    printed(home, *arguments, option, str(path))
    text = path.read_text(encoding="utf-8")
    path.unlink()
    return text


def without_places(text: str, home: Home) -> str:
    """Return an output without the folder of the home, and digests of it."""
    return _COPY.sub("published/<digest>", text.replace(str(home.root), "<home>"))


OF_A_SWEEP: Final[Mapping[str, Callable[[StoredSweep], str]]] = {
    "show.txt": shown,
    "show-80.txt": shown_on_80_columns,
    "show-120.txt": shown_on_120_columns,
    "show.json": shown_as_json,
    "junit.xml": junit,
    "markdown.md": markdown,
    "gate.txt": gate,
    "api.txt": frames,
    "tables.txt": tables,
    "report.txt": report,
    "mlflow.txt": mlflow,
}
"""The outputs of each sweep, by file name; the last two change its folder or take seconds."""


def compared(one: StoredSweep, other: StoredSweep) -> Mapping[str, str]:
    """Return the outputs of a comparison of two sweeps, by file name."""
    return _comparison(one.home, one.argument, other.argument)


def compared_by(one: StoredSweep, axis: str) -> Mapping[str, str]:
    """Return the outputs of a comparison of the cells of a sweep, by file name."""
    return _comparison(one.home, one.argument, "--by", axis)


def _comparison(home: Home, *arguments: str) -> Mapping[str, str]:
    return {
        "compare.txt": printed(home, "compare", *arguments, "--fail-on", VIOLATED),
        "compare-80.txt": printed(home, "compare", *arguments, columns=80),
        "compare.json": printed(home, "compare", *arguments, "--json"),
        "compare.junit.xml": _written(home, "--junit", "compare", *arguments),
        "compare.md": _written(home, "--markdown", "compare", *arguments),
        "compare.html.txt": outline(_written(home, "--html", "compare", *arguments)),
    }


def of_all_sweeps(home: Home, experiment: str, *faults: str) -> Mapping[str, str]:
    """Return the outputs of the commands about many sweeps, by file name.

    Args:
        home: the home of the sweeps.
        experiment: one with several sweeps.
        faults: the sweeps of a matrix.
    """
    return {
        "sweeps.txt": printed(home, "sweeps"),
        "sweeps-80.txt": printed(home, "sweeps", columns=80),
        "sweeps.json": printed(home, "sweeps", "--json"),
        "trend.txt": printed(home, "trend", experiment),
        "trend-80.txt": printed(home, "trend", experiment, columns=80),
        "trend.json": printed(home, "trend", experiment, "--json"),
        "trend.html.txt": outline(_written(home, "--html", "trend", experiment)),
        "matrix.txt": printed(home, "matrix", *faults),
        "matrix-80.txt": printed(home, "matrix", *faults, columns=80),
        "matrix.md": printed(home, "matrix", *faults, "--markdown"),
    }


def site(home: Home, folder: Path) -> Mapping[str, str]:
    """Return the outlines of the site's pages, except the reports, by file name."""
    printed(home, "site", str(folder))
    pages = sorted(path for path in folder.rglob("*.html") if path.parent.name != "sweeps")
    return {
        f"site-{path.stem}.txt": outline(path.read_text(encoding="utf-8"))
        for path in pages
        if path.parent.name != "trends"  # the trend of one experiment is in `of_all_sweeps`
    }


def tour(home: Home, folder: Path) -> Mapping[str, str]:
    """Return the page and the chapters of the only tour, by file name."""
    (root,) = home.tours.iterdir()
    page = write_tour_page(TourFolder(root), home)
    write_chapters(TourFolder(root), home, folder)
    return {
        "tour.html.txt": outline(page.read_text(encoding="utf-8")),
        **{path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))},
    }


def without_a_sweep(home: Home, folder: Path) -> Mapping[str, str]:
    """Return the outputs of commands that need no sweep, by file name.

    `check` also says what the sweeps of the home have shown of the settings.
    """
    producer, topic = folder / "producer.properties", folder / "topic.properties"
    producer.write_text("acks=all\nenable.idempotence=false\nretries=5\n")
    topic.write_text("min.insync.replicas=1\n")
    files = ("--producer", str(producer), "--topic", str(topic), "--replication-factor", "3")
    checked = {
        "check.txt": printed(home, "check", *files),
        "check.json": printed(home, "check", *files, "--json"),
        "check.junit.xml": _written(home, "--junit", "check", *files),
    }
    names = ("", *sorted(cli.commands))
    return {
        "help.txt": "".join(printed(home, *filter(None, [name]), "--help") for name in names),
        "list.txt": printed(home, "list"),
        "explain.txt": printed(home, "explain", "delivery-semantics"),
        **{name: text.replace(str(folder), "<folder>") for name, text in checked.items()},
    }
