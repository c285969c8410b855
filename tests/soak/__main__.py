"""`make soak`: seeded random schedules of faults, one trial each, in a row; and the run killed with -9 during a fault of each family.

Afterwards the machine must be as it was: no process, namespace, rule, mount or loop device left, and no trial failed by the harness.
Run it as root: whoever is not has no faults of disks and of the network, and is told so.
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

from experiments.faults import FAULTS
from infra.cluster.capabilities import Capability, missing_capability
from infra.machine.home import Home

FAMILIES = tuple(dict.fromkeys(kind.family for kind in FAULTS.values() if kind.kind != "none"))


def main() -> int:
    """Run what is asked for; return 0 when nothing was left behind and nothing failed."""
    asked, console, home = (
        _asked(),
        Console(width=200, highlight=False, markup=False),
        Home.from_environment(),
    )
    home.ensure_writable()
    for means in Capability:
        if lack := missing_capability(means):
            console.print(f"left out, faults that need {means}: {lack.reason} -> {lack.remedy}")
    before = machine_state(home.root)
    failures = list(_schedules(asked.schedules, asked.seed, console)) if asked.schedules else []
    failures += kill_in_each(asked.families, console)
    left = machine_state(home.root).left_since(before)
    for line in (*failures, *(f"left behind: {line}" for line in left)):
        console.print(line, style="bold red")
    console.print(f"{len(failures)} failures, {len(left)} things left behind")
    return 1 if failures or left else 0


def _schedules(count: int, seed: int, console: Console) -> Iterator[str]:
    """Run the schedules as one sweep; yield a line for each trial that the harness failed, or did not run."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "soak.yaml"
        path.write_text(soak_experiment(count, seed))
        console.print(
            f"{count} schedules of seed {seed}, one trial each; the sweep tells how far it is"
        )
        ran = subprocess.run([COMMAND, "run", str(path)], check=False)
    shown = json.loads(
        subprocess.run(
            [COMMAND, "show", "--json"], check=True, capture_output=True, text=True
        ).stdout
    )
    ended = Counter(trial["status"] for trial in shown["trials"])
    console.print(
        f"{count} schedules of seed {seed}: {', '.join(f'{number} {status}' for status, number in sorted(ended.items()))}; exit code {ran.returncode}"
    )
    yield from (
        f"{trial['trial_id']} ({trial['label']}): {trial['reason']}"
        for trial in shown["trials"]
        if trial["status"] == "failed"
    )
    yield from (f"{trial_id}: not run" for trial_id in shown["pending"])


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--schedules", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--families",
        nargs="*",
        choices=FAMILIES,
        default=FAMILIES,
        help="in whose faults a run is killed; none: --families alone",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
