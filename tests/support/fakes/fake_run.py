"""A fake of the process that runs a sweep's steps: `fake_run.py <mode> <sweep id>`.

It has one child process, where the real one has many. Modes:
- `completes` seals every trial.
- `measures` does the same and writes results, with losses in every second repeat with acks=1.
- `fails` fails the second trial.
- `hangs` runs the second trial until SIGINT.
- `ignores-sigint` does the same and ignores SIGINT.
- `waits` waits for SIGINT before the first trial.
"""

import shutil
import signal
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.builders.records import no_rows, record_of
from support.builders.result_tables import write_results

from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.infra.machine.home import Home
from ackbench.infra.process.processes import spawn_dying_with_parent


def main() -> int:
    """Run in the mode of the arguments."""
    mode, sweep_id = sys.argv[1:]
    home = Home.from_environment()
    sweep, interrupted = SweepFolder(home.sweeps / sweep_id), threading.Event()
    signal.signal(signal.SIGINT, lambda *_: interrupted.set() if mode != "ignores-sigint" else None)
    child = spawn_dying_with_parent(["sleep", "600"])
    (home.root / "child.pid").write_text(str(child.pid))
    try:
        return run(mode, sweep, interrupted)
    finally:
        child.kill()
        child.wait()
        (home.root / "torn-down").touch()


def run(mode: str, sweep: SweepFolder, interrupted: threading.Event) -> int:
    """Run the trials, and return the exit code."""
    if mode == "waits":
        sweep.report_activity("provision", "starting the cluster")
        (sweep.root / "under-way").touch()
        interrupted.wait(60)
        return 1
    for number, spec in enumerate(sweep.plan().trials):
        sweep.report_activity("trial", "load", spec.trial_id)
        if mode in {"hangs", "ignores-sigint"} and number == 1:
            sweep.partial(spec.trial_id).mkdir()
            (sweep.root / "under-way").touch()
            interrupted.wait(60)
            shutil.rmtree(sweep.partial(spec.trial_id))
            return 1
        if mode == "fails" and number == 1:
            sweep.failed(spec.trial_id).mkdir()
            (sweep.failed(spec.trial_id) / "reason.txt").write_text("NodeFailed: node 2 died\n")
            print("trial: node 2 died", flush=True)  # noqa: T201 - the last line of a run
            return 1
        if not sweep.trial(spec.trial_id).exists():
            seal_trial(sweep, spec)
    if mode == "measures":
        write_results(sweep, {spec.trial_id: counts_of(spec) for spec in sweep.plan().trials})
    sweep.report_activity("done")
    return 0


def counts_of(spec: TrialSpec) -> dict[str, int]:
    """Return the counts of a trial's losses."""
    lost = 5 if spec.producer["acks"] == "1" and spec.repeat % 2 else 0
    return {"lost_low_records": lost, "lost_high_records": lost}


def seal_trial(sweep: SweepFolder, spec: TrialSpec) -> None:
    """Seal a trial with an empty ledger."""
    partial = sweep.partial(spec.trial_id)
    partial.mkdir()
    seal(partial, sweep.trial(spec.trial_id), record_of(spec), no_rows())


if __name__ == "__main__":
    sys.exit(main())
