"""A run as a person sees it, with another process in place of the DAG: how it ends, and what an interrupt leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fakes.surroundings import FakeSurroundings

from experiments.commands import run as running
from experiments.commands.run_process import RunOutcome
from experiments.commands.run_until import RepeatHistory, RepeatLimits, RepeatUntil
from experiments.sweep.folder import SweepFolder
from experiments.sweep.lookup import list_sweeps
from infra.machine.home import Home
from infra.process.processes import ProcessIdentity
from infra.process.waiting import wait_until

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
)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home of the test's own, in a folder with a space in its name."""
    folder = tmp_path / "a home"
    folder.mkdir()
    return Home(folder)


class Command:
    """`ackbench` as a process, and what it left behind."""

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
        self.said = ""

    def under_way(self) -> ProcessIdentity:
        """Return the run's own child once the run is in mid-trial."""
        wait_until(
            lambda: any(
                sweep.root.joinpath("under-way").exists() for sweep in list_sweeps(self.home)
            ),
            awaiting="the run in mid-trial",
            timeout_s=30,
        )
        return ProcessIdentity.of(int((self.home.root / "child.pid").read_text()))

    def interrupt(self, number: signal.Signals) -> None:
        """Send a signal to the command alone, as a shell does not; the terminal's own way is the group, and the run is in none of it."""
        self.process.send_signal(number)

    def hear(self, words: str) -> None:
        """Return once the command has said these words on stderr."""
        assert self.process.stderr
        while words not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line

    def ended(self) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, self.said + err

    @property
    def sweep(self) -> SweepFolder:
        """The one sweep there is."""
        return list_sweeps(self.home)[0]


Start = Callable[..., Command]


@pytest.fixture
def start(home: Home) -> Iterator[Start]:
    """Return how to start the command with a stand-in's mode; what is left of it at the end of the test is killed."""
    started: list[Command] = []

    def run(mode: str, *arguments: str) -> Command:
        started.append(Command(home, mode, *arguments))
        return started[-1]

    yield run
    for command in started:
        command.process.kill()
        command.process.communicate()


def gone(process: ProcessIdentity) -> bool:
    """Return once the process is gone."""
    return wait_until(
        lambda: not process.is_alive(), awaiting=f"the end of process {process.pid}", timeout_s=10
    )


def test_a_run_that_ends_well_exits_with_0(start: Start) -> None:
    """Every trial is whole, and where there is no terminal nothing but the sweep's name is said meanwhile."""
    command = start("ends", *ONE_CELL)
    code, _, err = command.ended()

    assert (code, command.sweep.pending()) == (0, ())
    assert err == f"sweep {command.sweep.sweep_id}: 2 trials\n"


def test_repeats_are_added_until_the_intervals_are_narrow_enough(start: Start) -> None:
    """0 of 5 is below 0.53 at 95 %: after the first trial each cell is given four more, and the reason for stopping is said and kept."""
    command = start("measures", *ONE_CELL, "--set", "enable.idempotence=false", "--until", "ci<0.6")
    code, out, err = command.ended()
    course = RepeatHistory.model_validate_json(command.sweep.repeat_history.read_bytes())

    assert (code, [(added.trials, added.cells) for added in course.rounds]) == (0, [(4, 1)])
    assert sorted(trial.repeat for trial in command.sweep.plan().trials) == [0, 1, 2, 3, 4]
    assert course.ended == "every interval is narrower than 0.6"
    assert "until: every interval is narrower than 0.6" in err
    assert "0 of 5" in out


def test_repeats_end_with_the_budget(start: Start) -> None:
    """The first ones are run whatever it is; what is still too wide is named."""
    command = start("measures", *ONE_CELL, "--until", "ci<0.1", "--budget", "0.01s")
    code, _, err = command.ended()

    assert (code, len(command.sweep.plan().trials)) == (0, 2)
    assert (
        "until: no more trials fit the budget of 0.01 s (--budget); 2 cells still wider than 0.1 (the widest 0.97: acks=all"
        in err
    )


def test_a_sweep_can_be_gone_on_with_until_it_is_narrow_enough(start: Start) -> None:
    """Its sealed trials count, and only what is missing is run."""
    first = start("measures", *ONE_CELL)
    first.ended()
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
    code, _, err = command.ended()

    assert (code, len(command.sweep.plan().trials)) == (0, 6)
    assert "3 repeats per cell are the limit (--max-repeats); 2 cells still wider than 0.6" in err


def test_an_interrupt_between_two_rounds_ends_the_run_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs then; what is whole is kept, and the reason with it."""
    home = Home(tmp_path)
    sweep = FakeSurroundings(home).sweep(1)
    sweep.trial("000-abcdef").mkdir()
    monkeypatch.setattr(
        running, "run_dag", lambda *_: RunOutcome(code=0, interrupted=0, killed=False)
    )
    monkeypatch.setattr(RepeatUntil, "plan_more", interrupted)

    assert running.resume(home, sweep.sweep_id, RepeatLimits.of("ci<0.1")) == 130
    assert RepeatHistory.model_validate_json(sweep.repeat_history.read_bytes()).ended == "interrupted"


def test_going_on_has_jars_and_caches_made_first_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may have gone since the sweep was planned, and a run that fetches them in silence looks as if it hung."""
    home = Home(tmp_path)
    sweep = FakeSurroundings(home).sweep(1)
    plan = sweep.plan()
    older = plan.trials[0].model_copy(
        update={"cluster": plan.trials[0].cluster.model_copy(update={"kafka_version": "3.9.2"})}
    )
    sweep.write_plan(plan.model_copy(update={"trials": (older,)}))
    monkeypatch.setattr(
        "experiments.planning.new_sweep.ensure_kafka_ready",
        lambda _cache, spec, say: say(f"fetching Kafka {spec.kafka_version}"),
    )
    monkeypatch.setattr(
        running, "run_dag", lambda *_: RunOutcome(code=0, interrupted=130, killed=False)
    )

    assert running.resume(home, sweep.sweep_id) == 130
    assert capsys.readouterr().err.startswith("fetching Kafka 3.9.2\n")


def test_a_sweep_that_is_being_run_is_refused_to_a_second_command_at_once(start: Start) -> None:
    """It names who runs it; its own end, by Ctrl-C or otherwise, leaves the first run alone."""
    first = start("hangs", *ONE_CELL)
    child = first.under_way()
    second = start("ends", "run", "--resume", first.sweep.sweep_id)
    code, out, err = second.ended()

    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(
        f"ackbench: sweep {first.sweep.sweep_id} is being run by process {first.process.pid}: "
    )
    assert first.process.poll() is None
    assert child.is_alive()
    first.interrupt(signal.SIGINT)
    assert first.ended()[0] == 130
    assert start("ends", "run", "--resume", first.sweep.sweep_id).ended()[0] == 0


def interrupted(_self: object) -> bool:
    """Be where Ctrl-C strikes."""
    raise KeyboardInterrupt


def test_a_failed_trial_ends_the_adding_of_repeats(start: Start) -> None:
    """Trials of a harness that fails prove nothing, however many."""
    command = start("fails", *ONE_CELL, "--until", "ci<0.6")
    code, _, err = command.ended()

    assert (code, len(command.sweep.plan().trials)) == (1, 2)
    assert "until: a run failed" in err


def test_a_failed_trial_exits_with_1_and_says_why(start: Start) -> None:
    """The trial's own reason, the log's path and how to go on; no traceback."""
    command = start("fails", *ONE_CELL)
    code, _, err = command.ended()

    assert code == 1
    assert "failed: NodeFailed: node 2 died" in err
    assert f"log: {command.home.logs / command.sweep.sweep_id / 'airflow.log'}" in err
    assert f"resume with: ackbench run --resume {command.sweep.sweep_id}" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_the_run_and_keeps_sealed_trials(
    start: Start, number: signal.Signals
) -> None:
    """The run tears its cluster down; no process is left; the exit code is the signal's; it says how to go on."""
    command = start("hangs", *ONE_CELL)
    child = command.under_way()
    command.interrupt(number)
    code, _, err = command.ended()

    assert code == 128 + number
    assert gone(child)
    assert (command.home.root / "torn-down").exists()
    assert len(list(command.sweep.complete_trials())) == 1
    assert (
        f"1 of 2 trials are complete and kept\nresume with: ackbench run --resume {command.sweep.sweep_id}"
        in err
    )


def test_an_interrupt_before_the_first_trial_leaves_nothing_running(start: Start) -> None:
    """While the cluster starts, too."""
    command = start("waits", *ONE_CELL)
    child = command.under_way()
    command.interrupt(signal.SIGINT)

    assert command.ended()[0] == 130
    assert gone(child)


def test_a_second_interrupt_kills_a_run_that_does_not_obey(start: Start) -> None:
    """Its children die with it, and what is sealed stays."""
    command = start("deaf", *ONE_CELL)
    child = command.under_way()
    command.interrupt(signal.SIGINT)
    command.hear("stopping")
    command.interrupt(signal.SIGINT)
    code, _, err = command.ended()

    assert code == 130
    assert gone(child)
    assert "killed; 1 of 2 trials are complete and kept" in err


def test_killing_the_command_takes_the_run_with_it(start: Start) -> None:
    """SIGKILL leaves no time for anything: the kernel ends the run, and `ackbench clean` removes the rest."""
    command = start("hangs", *ONE_CELL)
    child = command.under_way()
    command.process.kill()

    assert gone(child)
    code, out, _ = start("ends", "clean").ended()
    assert (code, "removed unfinished trial" in out) == (0, True)
    assert len(list(command.sweep.complete_trials())) == 1


def test_an_interrupted_sweep_goes_on_where_it_was(start: Start) -> None:
    """The sealed trial is not run again, and in the end every trial is whole."""
    command = start("hangs", *ONE_CELL)
    command.under_way()
    command.interrupt(signal.SIGINT)
    command.ended()
    first = next(command.sweep.complete_trials())
    sealed_ns = (command.sweep.trial(first.trial_id) / "trial.json").stat().st_mtime_ns
    resumed = start("ends", "run", "--resume", command.sweep.sweep_id)
    code, _, err = resumed.ended()

    assert (code, command.sweep.pending()) == (0, ())
    assert "2 trials, 1 already complete" in err
    assert (command.sweep.trial(first.trial_id) / "trial.json").stat().st_mtime_ns == sealed_ns
