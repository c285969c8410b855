"""`ackbench run` with a fake DAG process: how a run ends, and what is left after an interrupt."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.builders.records import a_spec
from support.fakes.infrastructure import FakeInfrastructure

from ackbench.experiments.commands import run as running
from ackbench.experiments.commands.run_process import RunOutcome
from ackbench.experiments.commands.run_until import RepeatHistory, RepeatLimits, RepeatUntil
from ackbench.experiments.ledger.documents import without_version
from ackbench.experiments.sweep.folder import REASON, SweepFolder
from ackbench.experiments.sweep.lookup import list_sweeps
from ackbench.experiments.sweep.plan import Plan
from ackbench.infra.errors import HarnessError
from ackbench.infra.machine.home import Home
from ackbench.infra.process.processes import ProcessIdentity
from ackbench.infra.process.waiting import wait_until

PROGRAM = Path(__file__).parents[2] / "support" / "fakes" / "run_command.py"
ONE_CELL = (
    "run",
    "quick",
    "--no-controls",
    "--set",
    "acks=all",
    "--set",
    "fault=leader-pause",
    "--set",
    "replication.factor=3",
    "--set",
    "partitions=1",
    "--set",
    "broker.session.timeout.ms=3500",
)
WITHOUT_PAGE = (*ONE_CELL, "--no-live")
"""Without the process of the live page, for tests in which it has no part."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a new home, in a folder with a space in its name."""
    folder = tmp_path / "a home"
    folder.mkdir()
    return Home(folder)


class Command:
    """`ackbench` as a process, with its home."""

    def __init__(self, home: Home, mode: str, *arguments: str) -> None:
        self.home = home
        environment = {**os.environ, "ACKBENCH_HOME": str(home.root), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, str(PROGRAM), mode, *arguments]
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.errors = ""

    def wait_for_trial(self) -> ProcessIdentity:
        """Wait until a trial runs; return the run's child process."""
        wait_until(
            lambda: any(
                sweep.root.joinpath("under-way").exists() for sweep in list_sweeps(self.home)
            ),
            awaiting="a running trial",
            timeout_s=30,
        )
        return ProcessIdentity.of(int((self.home.root / "child.pid").read_text()))

    def interrupt(self, number: signal.Signals) -> None:
        """Send a signal to the command only.

        A terminal signals the process group, and the run is not in the command's group.
        """
        self.process.send_signal(number)

    def stop_reading(self) -> None:
        """Close the pipes of its output."""
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe
            pipe.close()

    def wait_for_output(self, text: str) -> None:
        """Wait until the command has written this text to stderr."""
        assert self.process.stderr
        while text not in self.errors:
            line = self.process.stderr.readline()
            assert line, self.errors
            self.errors += line

    def wait(self) -> tuple[int, str, str]:
        """Wait for the exit; return exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, self.errors + err

    @property
    def sweep(self) -> SweepFolder:
        """Return the only sweep."""
        return list_sweeps(self.home)[0]


Start = Callable[..., Command]


@pytest.fixture
def start(home: Home) -> Iterator[Start]:
    """Return a function that starts the command with a mode of the fake; kill it at the end."""
    started: list[Command] = []

    def run(mode: str, *arguments: str) -> Command:
        started.append(Command(home, mode, *arguments))
        return started[-1]

    yield run
    for command in started:
        command.process.kill()
        command.process.communicate()


def wait_for_end(process: ProcessIdentity) -> bool:
    """Wait until the process has ended."""
    return wait_until(
        lambda: not process.is_alive(), awaiting=f"the end of process {process.pid}", timeout_s=10
    )


def test_a_successful_run_exits_with_0(start: Start) -> None:
    """Every trial is complete; without a terminal there is a line per trial and stage."""
    command = start("completes", *ONE_CELL)
    code, _, err = command.wait()

    assert (code, command.sweep.pending()) == (0, ())
    lines = [line for line in err.splitlines() if not line.startswith("power: ")]
    assert lines[0][len("03:04:05 ") :] == f"sweep {command.sweep.sweep_id}: 2 trials"
    assert [line.split()[1:3] for line in lines if "sealed:" in line] == [
        ["1/2", "sealed:"],
        ["2/2", "sealed:"],
    ]


def _history(sweep: SweepFolder) -> RepeatHistory:
    return RepeatHistory.model_validate_json(without_version(sweep.repeat_history.read_bytes()))


def test_repeats_are_added_until_the_intervals_are_narrow_enough(start: Start) -> None:
    """0 of 5 is below 0.53 at 95 %, so each cell gets four more trials after the first.

    The reason for stopping is printed and recorded.
    """
    command = start(
        "measures", *WITHOUT_PAGE, "--set", "enable.idempotence=false", "--until", "ci<0.6"
    )
    code, out, err = command.wait()
    history = _history(command.sweep)

    assert (code, [(added.trials, added.cells) for added in history.rounds]) == (0, [(4, 1)])
    assert sorted(trial.repeat for trial in command.sweep.plan().trials) == [0, 1, 2, 3, 4]
    assert history.ended == "every interval is narrower than 0.6"
    assert "until: every interval is narrower than 0.6" in err
    assert "0 of 5" in out


@pytest.mark.further
def test_the_budget_limits_the_repeats(start: Start) -> None:
    """The first trials run in any case; cells that are still too wide are named."""
    command = start("measures", *WITHOUT_PAGE, "--until", "ci<0.1", "--budget", "0.01s")
    code, _, err = command.wait()

    assert (code, len(command.sweep.plan().trials)) == (0, 2)
    assert (
        "until: no more trials fit the budget of 0.01 s (--budget); "
        "2 cells still wider than 0.1 (the widest 0.97: acks=all" in err
    )


@pytest.mark.further
def test_a_sweep_can_be_resumed_until_its_intervals_are_narrow_enough(start: Start) -> None:
    """Its sealed trials count, and only missing trials run."""
    first = start("measures", *WITHOUT_PAGE)
    first.wait()
    command = start(
        "measures",
        "run",
        "--resume",
        first.sweep.sweep_id,
        "--until",
        "ci<0.6",
        "--max-repeats",
        "3",
    )
    code, _, err = command.wait()

    assert (code, len(command.sweep.plan().trials)) == (0, 6)
    assert "3 repeats per cell are the limit (--max-repeats); 2 cells still wider than 0.6" in err


def test_an_interrupt_between_two_rounds_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The complete trials are kept, and the reason is recorded."""
    home = Home(tmp_path)
    sweep = FakeInfrastructure(home).sweep(1)
    sweep.trial("000-abcdef").mkdir()
    monkeypatch.setattr(
        running, "run_in_child", lambda *_: RunOutcome(code=0, interrupted=0, killed=False)
    )
    monkeypatch.setattr(RepeatUntil, "plan_more", interrupted)

    assert running.resume(home, sweep.sweep_id, RepeatLimits.of("ci<0.1")) == 130
    assert _history(sweep).ended == "interrupted"


def test_resuming_fetches_missing_jars_first_and_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may have been deleted since; a run that fetches without output looks hung."""
    home = Home(tmp_path)
    sweep = FakeInfrastructure(home).sweep(1)
    plan = sweep.plan()
    older = plan.trials[0].model_copy(
        update={"cluster": replace(plan.trials[0].cluster, kafka_version="3.9.2")}
    )
    sweep.write_plan(plan.model_copy(update={"trials": (older,)}))
    monkeypatch.setattr(
        "ackbench.experiments.planning.new_sweep.ensure_kafka_ready",
        lambda _cache, spec, say, _load: say(f"fetching Kafka {spec.kafka_version}"),
    )
    monkeypatch.setattr(
        running, "run_in_child", lambda *_: RunOutcome(code=0, interrupted=130, killed=False)
    )

    assert running.resume(home, sweep.sweep_id) == 130
    assert capsys.readouterr().err.startswith("fetching Kafka 3.9.2\n")


@pytest.mark.further
def test_a_second_command_for_a_running_sweep_is_refused_at_once(start: Start) -> None:
    """The message names the process that runs it, and the first run continues."""
    first = start("hangs", *ONE_CELL)
    child = first.wait_for_trial()
    second = start("completes", "run", "--resume", first.sweep.sweep_id)
    code, out, err = second.wait()

    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(
        f"ackbench: sweep {first.sweep.sweep_id} is being run by process {first.process.pid}: "
    )
    assert first.process.poll() is None
    assert child.is_alive()
    first.interrupt(signal.SIGINT)
    assert first.wait()[0] == 130
    assert start("completes", "run", "--resume", first.sweep.sweep_id).wait()[0] == 0


def interrupted(_self: object) -> bool:
    """Raise as Ctrl-C does."""
    raise KeyboardInterrupt


@pytest.mark.further
def test_a_failed_trial_stops_adding_repeats(start: Start) -> None:
    """More trials of a failing harness prove nothing."""
    command = start("fails", *WITHOUT_PAGE, "--until", "ci<0.6")
    code, _, err = command.wait()

    assert (code, len(command.sweep.plan().trials)) == (1, 2)
    assert "until: a run failed" in err


def test_a_failed_trial_exits_with_1_and_prints_the_reason(start: Start) -> None:
    """The output has the reason, the log's path and the command to resume; no traceback."""
    command = start("fails", *WITHOUT_PAGE)
    code, _, err = command.wait()

    assert code == 1
    assert "failed: NodeFailed: node 2 died" in err
    assert f"log: {command.home.logs / command.sweep.sweep_id / 'run.log'}" in err
    assert f"resume with: ackbench run --resume {command.sweep.sweep_id}" in err
    assert "Traceback" not in err


@pytest.mark.further(number=[signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_the_run_and_keeps_sealed_trials(
    start: Start, number: signal.Signals
) -> None:
    """The cluster is destroyed, no process is left, and the exit code is the signal's."""
    command = start("hangs", *ONE_CELL)
    child = command.wait_for_trial()
    command.interrupt(number)
    code, _, err = command.wait()

    assert code == 128 + number
    assert wait_for_end(child)
    assert (command.home.root / "torn-down").exists()
    assert len(list(command.sweep.complete_trials())) == 1
    assert (
        "1 of 2 trials are complete and kept\n"
        f"resume with: ackbench run --resume {command.sweep.sweep_id}" in err
    )


def test_an_interrupt_before_the_first_trial_leaves_nothing_running(start: Start) -> None:
    """The cluster is starting then."""
    command = start("waits", *WITHOUT_PAGE)
    child = command.wait_for_trial()
    command.interrupt(signal.SIGINT)

    assert command.wait()[0] == 130
    assert wait_for_end(child)


def test_a_run_whose_reader_has_ended_too_destroys_its_cluster(start: Start) -> None:
    """As when a process is killed that reads the output, and whose end interrupts the command."""
    command = start("hangs", *WITHOUT_PAGE)
    child = command.wait_for_trial()
    command.stop_reading()
    command.interrupt(signal.SIGINT)
    command.process.wait(60)

    assert wait_for_end(child)
    assert (command.home.root / "torn-down").exists()


@pytest.mark.further
def test_a_second_interrupt_kills_a_run_that_does_not_stop(start: Start) -> None:
    """Its children die with it, and sealed trials are kept."""
    command = start("ignores-sigint", *WITHOUT_PAGE)
    child = command.wait_for_trial()
    command.interrupt(signal.SIGINT)
    command.wait_for_output("stopping")
    command.interrupt(signal.SIGINT)
    code, _, err = command.wait()

    assert code == 130
    assert wait_for_end(child)
    assert "killed; 1 of 2 trials are complete and kept" in err


def test_killing_the_command_kills_the_run(start: Start) -> None:
    """The kernel ends the run (PR_SET_PDEATHSIG), and `ackbench clean` removes the rest."""
    command = start("hangs", *WITHOUT_PAGE)
    child = command.wait_for_trial()
    command.process.kill()

    assert wait_for_end(child)
    code, out, _ = start("completes", "clean").wait()
    assert (code, "removed unfinished trial" in out) == (0, True)
    assert len(list(command.sweep.complete_trials())) == 1


@pytest.mark.further
def test_a_home_that_is_moved_ends_the_run_in_one_line_and_is_not_made_again(
    start: Start, home: Home
) -> None:
    """The run would go on with half a sweep under the old name. Moved back, it is resumed."""
    command = start("hangs", *ONE_CELL)
    child, sweep_id = command.wait_for_trial(), command.sweep.sweep_id
    moved = home.root.rename(home.root.with_name("moved"))
    code, _, err = command.wait()

    assert wait_for_end(child)
    assert (code, "Traceback" in err) == (2, False)
    assert err.splitlines()[-1] == (
        f"ackbench: the home folder {home.root} was moved to {moved} while it was in use: move it "
        "back, or set ACKBENCH_HOME to its new name, then resume with: "
        f"ackbench run --resume {sweep_id}"
    )
    assert not home.root.exists()
    moved.rename(home.root)
    start("completes", "clean").wait()
    resumed = start("completes", "run", "--resume", sweep_id)
    assert (resumed.wait()[0], resumed.sweep.pending()) == (0, ()), resumed.errors


def test_a_run_that_was_killed_is_named_with_the_signal_and_not_with_its_last_line(
    home: Home,
) -> None:
    """Which is any line of Airflow's log."""
    sweep = FakeInfrastructure(home).sweep(1)
    log = running.log_of(home, sweep)
    log.parent.mkdir(parents=True)
    log.write_text("Task instance state updated [airflow.api_fastapi.execution_api.routes]\n")
    killed = RunOutcome(code=-signal.SIGKILL, interrupted=0, killed=False)
    with pytest.raises(
        HarnessError, match=r"^the process that runs the sweep was ended by SIGKILL"
    ):
        running._require_complete(home, sweep, killed)


def test_an_interrupted_sweep_can_be_resumed(start: Start) -> None:
    """The sealed trial does not run again, and in the end every trial is complete."""
    command = start("hangs", *WITHOUT_PAGE)
    command.wait_for_trial()
    command.interrupt(signal.SIGINT)
    command.wait()
    first = next(command.sweep.complete_trials())
    sealed_ns = (command.sweep.trial(first.trial_id) / "trial.json").stat().st_mtime_ns
    resumed = start("completes", "run", "--resume", command.sweep.sweep_id, "--no-live")
    code, _, err = resumed.wait()

    assert (code, command.sweep.pending()) == (0, ())
    assert "2 trials, 1 already complete" in err
    assert (command.sweep.trial(first.trial_id) / "trial.json").stat().st_mtime_ns == sealed_ns


DISK_IS_FULL = (
    "sqlite3.OperationalError: database or disk is full\n"
    "(Background on this error at: https://sqlalche.me/e/21/e3q8)\n"
)


@pytest.fixture
def pending(home: Home) -> SweepFolder:
    """Return a sweep of two trials without a result."""
    sweep = SweepFolder(home.sweeps / "planned-20260101T000000-abcd")
    specs = (a_spec(trial_id="000-abcdef"), a_spec(trial_id="001-abcdef", order=1))
    trials = tuple(spec.model_copy(update={"sweep_id": sweep.sweep_id}) for spec in specs)
    sweep.write_plan(
        Plan(
            sweep_id=sweep.sweep_id,
            experiment="planned",
            question="Why?",
            seed=1,
            repeats=2,
            trials=trials,
            refused=(),
        )
    )
    return sweep


def test_a_full_disk_is_named_although_it_took_the_reasons(
    pending: SweepFolder, tmp_path: Path
) -> None:
    """Neither the reason of the trial nor the last line of the log could be written."""
    log = tmp_path / "run.log"
    log.write_text(DISK_IS_FULL)
    reason = running.reason_of_failure(pending, log)
    assert re.fullmatch(r"the disk of .* is full \(.* MiB free\): free space, .*", reason)


def test_a_full_disk_is_named_beside_the_reason_of_another_trial(
    pending: SweepFolder, tmp_path: Path
) -> None:
    """And once only."""
    log = tmp_path / "run.log"
    log.write_text(DISK_IS_FULL)
    failed = pending.failed("000-abcdef")
    failed.mkdir(parents=True)
    (failed / REASON).write_text("NodeFailed: node 2 died\n")
    first, second = running.reason_of_failure(pending, log).splitlines()
    assert first == "trial 000-abcdef failed: NodeFailed: node 2 died"
    assert second.startswith("the disk of ")
    (failed / REASON).write_text(f"OSError: no; {second}\n")
    assert running.reason_of_failure(pending, log).count("is full") == 1


def test_the_full_disk_of_a_store_is_not_that_of_the_home(
    pending: SweepFolder, tmp_path: Path
) -> None:
    """The line names the store already, and has the remedy."""
    log = tmp_path / "run.log"
    line = (
        "verify: not published: 2 of 2 trials, and the results; publish the rest with: ackbench "
        "publish quick (file:///store/quick cannot be written: [Errno 28] Error writing bytes to "
        "file. Detail: [errno 28] No space left on device)"
    )
    log.write_text(f"[warning] {line} [step_context.py]\n{line}\n")
    assert running.reason_of_failure(pending, log) == line


def test_without_a_full_disk_the_last_line_of_the_log_is_the_reason(
    pending: SweepFolder, tmp_path: Path
) -> None:
    """The first failure is printed last."""
    log = tmp_path / "run.log"
    log.write_text("measure: no ledgers\nplan: no ports\n")
    assert running.reason_of_failure(pending, log) == "plan: no ports"
