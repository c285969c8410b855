"""`make soak`: random schedules of faults, one trial each, and runs killed during a fault.

One run per family of faults is killed with SIGKILL. Afterwards the machine must be as before: no
process, namespace, rule, mount or loop device is left, and the harness failed no trial. Without
root, faults of disks and networks are left out; the output lists them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from e2e.command import COMMAND
from rich.console import Console
from soak.killing import kill_in_each
from soak.schedules import soak_experiment
from support.machine_state import machine_state

from ackbench.experiments.trial.faults import FAULTS
from ackbench.infra.cluster.capabilities import Capability, missing_capability
from ackbench.infra.machine.home import Home

_OTHERS = ("none", "command")  # a command needs an external cluster
FAMILIES = tuple(dict.fromkeys(kind.family for kind in FAULTS.values() if kind.kind not in _OTHERS))


def main() -> int:
    """Run the requested parts; return 0 if nothing failed and nothing was left behind."""
    arguments, console, home = (
        _parse_arguments(),
        Console(width=200, highlight=False, markup=False),
        Home.from_environment(),
    )
    home.ensure_writable()
    for capability in Capability:
        if missing := missing_capability(capability):
            console.print(
                f"left out: faults that need {capability}; {missing.reason} -> {missing.remedy}"
            )
    before = machine_state(home.root)
    failures = (
        list(_run_schedules(arguments.schedules, arguments.seed, console))
        if arguments.schedules
        else []
    )
    failures += kill_in_each(arguments.families, console)
    left = machine_state(home.root).added_since(before)
    for line in (*failures, *(f"left behind: {line}" for line in left)):
        console.print(line, style="bold red")
    console.print(f"{len(failures)} failures, {len(left)} leftovers")
    return 1 if failures or left else 0


def _run_schedules(count: int, seed: int, console: Console) -> Iterator[str]:
    """Run the schedules as one sweep; yield a line for each failed or pending trial."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "soak.yaml"
        path.write_text(soak_experiment(count, seed))
        console.print(f"running {count} schedules of seed {seed}, one trial each")
        ran = subprocess.run([COMMAND, "run", str(path)], check=False)
    shown = json.loads(
        subprocess.run(
            [COMMAND, "show", "--json"], check=True, capture_output=True, text=True
        ).stdout
    )
    statuses = Counter(trial["status"] for trial in shown["trials"])
    console.print(
        f"{count} schedules of seed {seed}: "
        f"{', '.join(f'{number} {status}' for status, number in sorted(statuses.items()))}; "
        f"exit code {ran.returncode}"
    )
    yield from (
        f"{trial['trial_id']} ({trial['label']}): {trial['reason']}"
        for trial in shown["trials"]
        if trial["status"] == "failed"
    )
    yield from (f"{trial_id}: not run" for trial_id in shown["pending"])


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--families",
        nargs="*",
        choices=FAMILIES,
        default=FAMILIES,
        help="families of faults in which a run is killed; `--families` without a value: none",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
