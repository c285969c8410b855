"""The command line: bad input is one line with exit code 2, and nothing is started.

Large libraries are imported only when they are needed.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from support.builders.records import no_rows, record_of
from support.command_line import ackbench

from ackbench.experiments.commands.cli import OneLineErrors
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.ledger.trial_manifest import Scalar
from ackbench.experiments.planning.new_sweep import new_sweep
from ackbench.experiments.planning.overrides import Overrides
from ackbench.experiments.results import spark_job
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.lock import LOCK_FILE, SweepLock
from ackbench.experiments.sweep.progress import report_queued
from ackbench.infra.machine.files import try_lock
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.scratch import SELFTEST, scratch_folder
from ackbench.infra.process.processes import ProcessIdentity

Axes = dict[str, tuple[Scalar, ...]]
HEAVY = (
    "airflow",
    "confluent_kafka",
    "mlflow",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "rich",
    "psutil",
)
PLANNING = ("numpy", "pyarrow", "psutil", "rich")
"""Libraries that planning an experiment and printing a table need."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock as another process does that left no record."""
    lock = try_lock(path)
    assert lock
    with lock:
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return an empty home, in a folder with a space in its name."""
    folder = tmp_path / "a home"
    monkeypatch.setenv("ACKBENCH_HOME", str(folder))
    return Home(folder)


def a_sweep(home: Home) -> SweepFolder:
    """Return a sweep of two trials and one refused cell, of which the first trial is sealed."""
    axes: Axes = {
        "acks": ("all", 1),
        "partitions": (1,),
        "replication.factor": (3,),
        "fault": ("none",),
        "enable.idempotence": (False,),
        "broker.session.timeout.ms": (3500,),
    }
    sweep = new_sweep(home, "quick", Overrides(axes, controls=False))
    first = sweep.plan().trials[0]
    sweep.partial(first.trial_id).mkdir()
    seal(sweep.partial(first.trial_id), sweep.trial(first.trial_id), record_of(first), no_rows())
    return sweep


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "name an experiment"),
        (["run", "quik"], "unknown experiment quik; did you mean quick?"),
        (["run", "absent.yaml"], "absent.yaml: cannot be read (No such file or directory)"),
        (["run", "quick", "--set", "acsk=1"], "--set acsk: unknown axis acsk; did you mean acks?"),
        (
            ["run", "quick", "--set", "acks=5"],
            "--set acks: producer property acks is 5; allowed: 0, 1 or all",
        ),
        (["run", "quick", "--set", "acks=1", "--set", "acks=0"], "--set acks is given twice"),
        (["run", "quick", "--set", "fault=meteor"], "--set fault: unknown fault meteor"),
        (
            ["run", "quick", "--set", "replication.factor=5"],
            "quick: replication.factor is 5; allowed: at most the number of nodes, which is 3",
        ),
        (
            ["run", "quick", "--set", "workload.rate_records_per_s=0"],
            "--set workload.rate_records_per_s is 0; allowed: more than 0",
        ),
        (
            ["run", "quick", "--set", "workload.rate_records_per_s=-1,5"],
            "quick: workload.rate_records_per_s is -1; allowed: more than 0",
        ),
        (["run", "quick", "--repeats", "0"], "--repeats is 0; allowed: 1 or more"),
        (["run", "quick", "--repeats", "many"], "Invalid value for '--repeats'"),
        (["run", "quick", "--resume", "x"], "unknown sweep x"),
        (["run", "--resume", "x", "--no-controls"], "--resume runs a sweep as it was planned"),
        (["run", "--resume", "x"], "unknown sweep x"),
        (
            [
                "run",
                "quick",
                "--set",
                "workload.rate_records_per_s=9e6",
                "--set",
                "workload.duration_s=80000",
            ],
            "a sweep of 21 trials needs",
        ),
        (
            ["run", "quick", "--until", "ci<2"],
            "--until is 'ci<2'; allowed: ci<WIDTH with a width between 0 and 1",
        ),
        (["run", "quick", "--until", ""], "--until is ''; allowed: ci<WIDTH"),
        (["run", "quick", "--until", "p<0.05"], "--until is 'p<0.05'; allowed: ci<WIDTH"),
        (
            ["run", "quick", "--until", "ci<0.1", "--budget", "30"],
            "--budget is '30'; allowed: a time with its unit",
        ),
        (
            ["run", "quick", "--until", "ci<0.1", "--max-repeats", "0"],
            "--max-repeats is 0; allowed: a whole number from 1 to 1024",
        ),
        (["run", "quick", "--budget", "30m"], "--budget and --max-repeats need --until"),
        (
            ["run", "quick", "--set", "acks=0,1", "--set", "enable.idempotence=true"],
            "quick: the client refuses every cell: `acks` must be set to `all` when",
        ),
        (["explain", "a\udcff"], "argument 2 is not UTF-8 text: 'a\\udcff'"),
        (["run", "quick", "--set", "client.rack=\udcff"], "argument 4 is not UTF-8 text: "),
        (["run", "--nodes", "5"], "name an experiment"),
        (["show"], "no sweep in"),
        (["show", "x"], "unknown sweep x"),
        (["measure", "x"], "unknown sweep x"),
        (["clean", "--sweep", "x"], "no sweep has the id 'x' in"),
        (["up", "--airflow-port", "0"], "Invalid value for '--airflow-port'"),
        (["frobnicate"], "no command frobnicate; nearest: "),
    ],
)
def test_bad_input_is_one_line_and_starts_nothing(
    home: Home, arguments: list[str], message: str
) -> None:
    """The exit code is 2, stderr has one line, and no sweep, cluster or log exists."""
    result = ackbench(*arguments)

    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"ackbench: {message}")
    assert not any(folder.exists() for folder in (home.sweeps, home.clusters, home.logs))


def test_an_experiment_whose_cells_are_all_refused_is_not_explained_as_if_it_could_run(
    tmp_path: Path,
) -> None:
    """The message has the client's own words, as that of `run`."""
    path = tmp_path / "refused.yaml"
    path.write_text(
        "name: refused\ntitle: Refused\nquestion: Can it run?\n"
        "axes: {acks: 1, enable.idempotence: true, fault: none}\n"
    )
    result = ackbench("explain", str(path))
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "the client refuses every cell: `acks` must be set to `all`" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "x" * 60_000],
        ["explain", "x" * 60_000 + ".yaml"],
        ["explain", "x " * 30_000],
        ["run", "quick", "--set", "x" * 60_000 + "=1"],
        ["run", "quick", "--set", "acks=" + "x" * 60_000],
        ["run", "quick", "--set", "{" * 3_000],
        ["show", "x" * 60_000],
        ["x" * 60_000],
        ["run", "--" + "x" * 60_000],
    ],
)
def test_long_arguments_are_echoed_shortened(home: Home, arguments: list[str]) -> None:
    """The line still names what is wrong."""
    result = ackbench(*arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert len(result.stderr) < 2100
    assert not home.sweeps.exists()


def test_a_home_that_cannot_be_created_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line names the variable to set."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path / "file" / "home"))
    result = ackbench("run", "quick")

    assert result.exit_code == 2
    assert "the home folder" in result.stderr
    assert "cannot be read (Not a directory): set ACKBENCH_HOME" in result.stderr


def test_a_full_disk_is_reported_in_one_line(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a command writes."""

    @click.group(cls=OneLineErrors)
    def program() -> None:
        pass

    @program.command()
    def write() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "page.html")

    with pytest.raises(SystemExit) as ended:
        program(["write"])
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (2, 1)
    assert f"'page.html'; the disk of {home.root} is full" in error


def test_a_library_that_the_system_lacks_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """NumPy wraps the loader's error in one of 30 lines, whose last is no help."""

    @click.group(cls=OneLineErrors)
    def program() -> None:
        pass

    @program.command()
    def load() -> None:
        loader = ImportError("libstdc++.so.6: cannot open shared object file: No such file")
        raise ImportError("IMPORTANT: PLEASE READ THIS\n\n...") from loader

    with pytest.raises(SystemExit) as ended:
        program(["load"])
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (2, 1)
    assert "libstdc++.so.6 of the system is missing" in error


def test_a_broken_file_is_rejected_with_its_name_and_line(tmp_path: Path, home: Home) -> None:
    """There is no traceback, and no folder is created."""
    (tmp_path / "mine.yaml").write_text("name: mine\naxes: [")
    result = ackbench("run", str(tmp_path / "mine.yaml"))

    assert (result.exit_code, result.stderr.count("\n"), home.sweeps.exists()) == (2, 1, False)
    assert f"{tmp_path / 'mine.yaml'}, line 2" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "used"),
    [(["--help"], ()), (["--version"], ()), (["run", "--help"], ()), (["list"], PLANNING)],
)
def test_no_large_library_is_imported_for_help_and_the_list(
    arguments: list[str], used: tuple[str, ...]
) -> None:
    """Both appear at once. The list plans each experiment, because it shows the minutes."""
    program = (
        f"import sys\nfrom ackbench.experiments.commands.cli import cli\ntry:\n  cli({arguments})\n"
        "finally:\n  print('imported', *sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert not set(HEAVY) & set(ran.stderr.split()) - set(used)
    assert ran.stdout


def test_the_list_has_the_experiments_and_their_schedules() -> None:
    """The names are those of the catalogue."""
    result = ackbench("list")

    assert "quick " in result.stdout
    assert "scheduled 0 3 * * *" in result.stdout


def test_a_sweeps_own_file_is_an_experiment(home: Home) -> None:
    """A sweep can be run again from its folder."""
    sweep = a_sweep(home)
    repeated = new_sweep(home, str(sweep.experiment_yaml))

    assert [trial.cell for trial in repeated.plan().trials] == [
        trial.cell for trial in sweep.plan().trials
    ]


def a_newer_sweep(home: Home) -> SweepFolder:
    """Return a sweep that is newer than all others, and has not begun."""
    sweep = new_sweep(home, "quick", Overrides({"acks": (1,)}, controls=False))
    newer = sweep.root.with_name("quick-20991231T235959-0000")
    return SweepFolder(sweep.root.rename(newer))


@pytest.mark.parametrize("named", [(), ("quick",)])
def test_show_takes_the_newest_sweep_that_has_ended(home: Home, named: tuple[str, ...]) -> None:
    """A queued sweep, or one whose run never started, has nothing to show; a line names it."""
    finished, waiting = a_sweep(home), a_newer_sweep(home)
    result = ackbench("show", *named)

    assert result.exit_code == 0
    assert f"ackbench measure {finished.sweep_id}" in result.stdout
    assert result.stderr == (
        f"{waiting.sweep_id} has not begun: this is {finished.sweep_id}, "
        "the newest one whose run has ended\n"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("show",),
        ("show", "quick", "--json"),
        ("report",),
        ("open", "report"),
        ("open", "mlflow"),
        ("matrix",),
        ("matrix", "quick"),
        ("compare", "quick", "quick"),
        ("measure", "quick"),
        ("selftest",),
        ("publish", "quick"),
        ("pin", "quick"),
    ],
    ids=" ".join,
)
def test_each_command_says_that_a_newer_sweep_runs(
    home: Home, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the newest one whose run has ended, whether its results suffice for it or not."""
    monkeypatch.setattr(spark_job, "measure", lambda *_, **__: None)  # the line is printed before
    finished, running = a_sweep(home), a_newer_sweep(home)
    running.partial("000-aaaaaa").mkdir()
    with locked(running.root / LOCK_FILE):
        stderr = ackbench(*command).stderr

    assert (
        f"{running.sweep_id} is in progress: this is {finished.sweep_id}, "
        "the newest one whose run has ended\n"
    ) in stderr


def test_a_newer_sweep_that_is_queued_is_said_to_be(home: Home) -> None:
    """The line names what it waits for."""
    finished, queued = a_sweep(home), a_newer_sweep(home)
    report_queued(queued, "the sweep of another home")
    with locked(queued.root / LOCK_FILE):
        stderr = ackbench("show").stderr

    assert stderr == (
        f"{queued.sweep_id} is queued behind the sweep of another home: this is "
        f"{finished.sweep_id}, the newest one whose run has ended\n"
    )


def test_a_sweep_that_is_named_by_its_id_is_shown_while_it_runs(home: Home) -> None:
    """Its trials so far are what was asked for."""
    running = a_sweep(home)
    a_newer_sweep(home)
    with locked(running.root / LOCK_FILE):
        result = ackbench("show", running.sweep_id)

    assert running.sweep_id in result.stdout
    assert result.stderr == ""


def test_while_no_run_has_ended_the_newest_sweep_that_has_begun_is_shown(home: Home) -> None:
    """Its line says no more than that."""
    running, waiting = a_sweep(home), a_newer_sweep(home)
    with locked(running.root / LOCK_FILE):
        result = ackbench("show")

    assert running.sweep_id in result.stdout
    assert result.stderr == (
        f"{waiting.sweep_id} has not begun: this is {running.sweep_id}, "
        "the newest one that has begun\n"
    )


def test_a_sweep_that_runs_is_not_to_be_resumed(home: Home) -> None:
    """Its own command still says how, once it has ended its trials."""
    sweep = a_sweep(home)
    with SweepLock(home, sweep):
        own = ackbench("show").stdout
        another = subprocess.run(
            [sys.executable, "-m", "ackbench", "show"], capture_output=True, text=True, check=False
        )

    assert "resume with" in own
    assert another.returncode == 0
    assert "resume with" not in another.stdout
    assert "not run yet: 1 trial; the sweep is in progress" in another.stdout


def test_the_schema_is_that_of_experiments() -> None:
    """There is no other."""
    assert ackbench("schema").stdout == ackbench("schema", "experiment").stdout != ""


def test_a_dry_run_says_what_further_repeats_may_cost() -> None:
    """At most those that a share of one half needs, the limit and the most trials of a sweep."""
    plain = ackbench("run", "quick", "--dry-run").stdout
    until = ackbench("run", "quick", "--dry-run", "--until", "ci<0.3").stdout
    (line,) = set(until.splitlines()) - set(plain.splitlines())
    assert line.startswith("--until ci<0.3: at most 920 more trials and ")
    assert "up to 47 of each cell, 11 if they agree" in line

    few = ("--max-repeats", "3", "--budget", "30m")
    until = ackbench("run", "quick", "--dry-run", "--until", "ci<0.3", *few).stdout
    assert "at most 40 more trials and " in until
    assert "within 30 min (--budget): up to 3 of each cell, 3 if they agree" in until
    until = ackbench("run", "quick", "--dry-run", "--until", "ci<0.1").stdout
    assert "at most 1,003 more trials" in until


def test_show_prints_the_results_and_what_is_missing(home: Home) -> None:
    """By default it shows the newest sweep; trials that have not run do not count as 0."""
    sweep = a_sweep(home)
    result = ackbench("show")

    assert (result.exit_code, result.stderr) == (0, "")
    assert "fault: none" in result.stdout
    assert f"not run: 1 trial; resume with: ackbench run --resume {sweep.sweep_id}" in result.stdout
    assert (
        f"not measured: 1 trial; measure with: ackbench measure {sweep.sweep_id}" in result.stdout
    )


def test_without_a_command_the_first_steps_are_shown() -> None:
    """They fit on a terminal with 24 lines of 80 columns."""
    result = ackbench()

    assert (result.exit_code, result.stderr) == (0, "")
    assert "ackbench run quick " in result.stdout
    assert len(result.stdout.splitlines()) < 24
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_show_begins_with_what_was_run_and_ends_with_where_to_look(home: Home) -> None:
    """Each command is ready to copy; the report of an unfinished sweep does not exist yet."""
    sweep = a_sweep(home)
    lines = ackbench("show").stdout.splitlines()

    assert lines[0].startswith(f"{sweep.sweep_id}: ")
    assert "Kafka 4.3.1, 3 brokers" in lines[0]
    assert lines[-2] == f"folder:  {sweep.root}"
    assert lines[-1].startswith("next:    ackbench run ")
    assert not any("ackbench open" in line for line in lines)
    sweep.report.touch()
    assert f"report:  ackbench open report {sweep.sweep_id}" in ackbench("show").stdout


def test_the_next_command_has_the_settings_of_the_sweep(home: Home) -> None:
    """It names the sweep's own file; the experiment only if nothing but repeats differs."""
    own = shlex.quote(str(a_sweep(home).experiment_yaml))
    last = ackbench("show").stdout.splitlines()[-1]
    assert last.startswith(f"next:    ackbench run {own} --repeats 10 --expect lost=0")

    bounded = new_sweep(home, "quick", Overrides(expect=({"lost": "=0"},)))
    last = ackbench("show", bounded.sweep_id).stdout.splitlines()[-1]
    assert last.split("  (")[0].endswith("/experiment.yaml' --repeats 10")

    plain = new_sweep(home, "quick", Overrides(repeats=2))
    last = ackbench("show", plain.sweep_id).stdout.splitlines()[-1]
    assert last.startswith("next:    ackbench run quick --repeats 10 --expect lost=0")


def test_a_dry_run_prints_the_trials_their_time_and_needs_and_writes_nothing(home: Home) -> None:
    """The refused cells and what the sweep cannot show are part of it."""
    result = ackbench("run", "quick", "--dry-run", "--repeats", "2", "--set", "acks=1,all")
    lines = result.stdout.splitlines()

    assert (result.exit_code, result.stderr) == (0, "")
    assert lines[0].startswith("quick: 15 cells x 2 repeats, 5 cells refused by the client, ")
    assert lines[0].endswith(" minutes")
    assert lines[1].startswith("memory: ")
    assert "   2 x acks=1 idem=off RF=1 P=1 leader-crash-behind" in result.stdout
    assert "refused: 5 cells (acks=1, idem=on)" in result.stdout
    assert not home.sweeps.exists()


def test_a_dry_run_of_an_existing_sweep_is_refused(home: Home) -> None:
    """It was planned when it was started."""
    sweep = a_sweep(home)
    result = ackbench("run", "--resume", sweep.sweep_id, "--dry-run")

    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "--dry-run" in result.stderr


@pytest.mark.usefixtures("home")
def test_a_minimum_above_the_replication_factor_is_a_warning() -> None:
    """Brokers count it as the replication factor, so that the cell tests another setting."""
    result = ackbench(
        "run", "quick", "--dry-run", "--set", "min.insync.replicas=3", "--set", "acks=all"
    )

    assert (
        "warning: min.insync.replicas=3 is above replication.factor=1 in 4 cells: brokers count it "
        "as 1 (Kafka 3.7 and later)" in result.stdout
    )
    assert "above replication.factor=3" not in result.stdout


def test_an_experiments_name_means_its_newest_sweep(home: Home) -> None:
    """`show NAME` accepts the name of an experiment."""
    a_sweep(home)
    newest = a_sweep(home)
    assert json.loads(ackbench("show", "quick", "--json").stdout)["sweep_id"] == newest.sweep_id


def test_show_as_json_is_one_object(home: Home) -> None:
    """Its cells have the names of the axes that the YAML has."""
    sweep = a_sweep(home)
    shown = json.loads(ackbench("show", sweep.sweep_id, "--json").stdout)

    assert (shown["sweep_id"], shown["experiment"]) == (sweep.sweep_id, "quick")
    assert set(shown["trials"][0]["cell"]) == {
        "acks",
        "enable.idempotence",
        "replication.factor",
        "partitions",
        "broker.session.timeout.ms",
        "fault",
    }


def test_clean_removes_unfinished_trials_and_keeps_sealed_ones(home: Home) -> None:
    """The second `clean` finds nothing to remove."""
    sweep = a_sweep(home)
    sealed, unfinished = (trial.trial_id for trial in sweep.plan().trials)
    sweep.partial(unfinished).mkdir()
    first, second = ackbench("clean"), ackbench("clean")

    assert f"removed unfinished trial {unfinished}" in first.stdout
    assert (sweep.trial(sealed).is_dir(), sweep.partial(unfinished).exists()) == (True, False)
    assert second.stdout == "nothing to clean\n"


def test_clean_removes_the_scratch_folders_of_killed_processes(home: Home) -> None:
    """Of Spark, the self-test and set-up, with the cluster that trains a start-up cache."""
    for name in (".spark-a", ".selftest-b", "training-c/smallest", ".formatting-d", ".jars-e"):
        (home.cache / name).mkdir(parents=True)
    with scratch_folder(home.cache, SELFTEST) as used:
        cleaned = ackbench("clean").stdout
        assert used.is_dir()
    assert cleaned.splitlines() == [
        f"removed {name} from the cache"
        for name in (".formatting-d", ".jars-e", ".selftest-b", ".spark-a", "training-c")
    ]
    assert ackbench("clean").stdout == "nothing to clean\n"


def test_clean_does_not_touch_a_run_whose_command_is_running(home: Home) -> None:
    """Its unfinished trial is kept."""
    sweep = a_sweep(home)
    unfinished = sweep.partial(sweep.plan().trials[1].trial_id)
    unfinished.mkdir()
    with SweepLock(home, sweep) as claim:
        claim.note_runner(ProcessIdentity.own())
        result = ackbench("clean")

    assert (
        f"kept: the run of {sweep.sweep_id} (process {os.getpid()}) is in progress" in result.stdout
    )
    assert unfinished.is_dir()


def test_a_sweep_is_deleted_only_by_its_id(home: Home) -> None:
    """Its sealed trials are deleted with it; other sweeps are kept."""
    named, other = a_sweep(home), a_sweep(home)
    ackbench("clean", "--sweep", named.sweep_id)

    assert (named.root.exists(), other.root.exists()) == (False, True)


def test_a_folder_that_is_not_a_sweep_of_this_home_is_never_deleted(
    home: Home, tmp_path: Path
) -> None:
    """Not by a path, a link, an experiment's name, or another sweep's folder name."""
    sweep = a_sweep(home)
    elsewhere = tmp_path / "thesis"
    shutil.copytree(sweep.root, elsewhere)
    (elsewhere / "chapter.tex").touch()
    (home.sweeps / "linked").symlink_to(elsewhere)
    shutil.copytree(sweep.root, home.sweeps / "copied")
    empty = home.sweeps / "empty"
    empty.mkdir()
    (empty / "plan.json").write_text("{}")
    rejected = {
        name: ackbench("clean", "--sweep", name)
        for name in (f"{elsewhere}/", str(sweep.root), "quick", "..", "linked", "copied", "empty")
    }

    assert {
        name: (result.exit_code, result.stderr.count("\n")) for name, result in rejected.items()
    } == dict.fromkeys(rejected, (2, 1))
    assert "is a link" in rejected["linked"].stderr
    assert f"is the plan of sweep {sweep.sweep_id}" in rejected["copied"].stderr
    assert all(
        (folder / "plan.json").is_file()
        for folder in (elsewhere, sweep.root, home.sweeps / "copied", empty)
    )


def test_doctor_prints_one_line_per_requirement(home: Home) -> None:
    """Each line begins with the state; a missing requirement has its remedy.

    The exit code is 1 if a requirement is missing, not if it is unavailable on this machine.
    """
    result = ackbench("doctor")
    lines = result.stdout.splitlines()

    assert all(line.startswith(("ok ", "missing ", "not here ")) for line in lines)
    assert all(" -> " in line for line in lines if line.startswith(("missing", "not here")))
    assert result.exit_code == (1 if any(line.startswith("missing") for line in lines) else 0)
    assert any("Kafka 4.3.1" in line and "ackbench setup" in line for line in lines), home
