"""A second `ackbench up` of a home, of a port, and an upgrade under a running one."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import distribution, version
from pathlib import Path
from typing import Final

from e2e.command import AckbenchCommand, new_bench
from e2e.services import free_ports
from hostile.figures import Figures
from hostile.schedulers import EXPERIMENT, FILE, left_behind
from hostile.services import STOP_TIMEOUT_S, Services, running_services
from support.machine_state import machine_state

from ackbench.infra.errors import WaitTimeout
from ackbench.infra.machine.home import SET_UP_FILE, Home

_LATER: Final = "99.0.0"


def run(rounds: int, say: Callable[[str], None] = lambda _: None) -> Figures:
    """Try each case beside running services, which must go on.

    Args:
        rounds: how often the services are started, and all cases are tried.
        say: called with one line per case.
    """
    start_s, failures, tried = time.monotonic(), list[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        installed = root / "installed"
        installed.mkdir()
        bench = new_bench(root, {"PYTHONPATH": str(installed)})
        file = root / "experiments" / FILE
        file.parent.mkdir()
        file.write_text(EXPERIMENT)
        before = machine_state(bench.home.root)
        for number in range(1, rounds + 1):
            _install(installed, version("ackbench"))
            try:
                with running_services(bench, file.parent) as services:
                    for name, problem in _cases(services, root, file, installed, number):
                        tried += 1
                        failures += [f"{name}: {problem}"] if problem else []
                        say(f"{number} of {rounds}: {name}: {problem or 'held'}")
            except (WaitTimeout, OSError) as error:
                failures.append(str(error))
            failures += left_behind(bench, before)
    return Figures(
        "ups",
        "refused in one line, the first services go on, no other home is made",
        tried,
        tuple(failures),
        time.monotonic() - start_s,
    )


def _install(folder: Path, number: str) -> None:
    """Have new processes find a version of ackbench: the same code, and other metadata."""
    metadata = folder / "ackbench-0.dist-info" / "METADATA"
    metadata.parent.mkdir(exist_ok=True)
    metadata.write_text(f"Metadata-Version: 2.1\nName: ackbench\nVersion: {number}\n")
    entry_points = distribution("ackbench").read_text("entry_points.txt")  # MLflow finds its app
    (metadata.parent / "entry_points.txt").write_text(entry_points or "")


def _cases(
    services: Services, root: Path, file: Path, installed: Path, number: int
) -> list[tuple[str, str]]:
    """Try each case; return its name and what is wrong, which is empty if it held."""
    bench, ports = services.bench, services.ports.options
    other = replace(bench, home=Home(root / "another home"))
    as_root = ("up", "--as-root")
    found = [
        ("a second up", _refused(bench, "already runs for", *as_root, *free_ports().options)),
        ("a second up, same ports", _refused(bench, "already runs for", *as_root, *ports)),
        ("another home, same ports", _refused(other, "in use", *as_root, *ports)),
    ]
    if other.home.root.exists():
        found.append(("another home", "it was made"))
    _install(installed, _LATER)
    set_up = bench.home.root / SET_UP_FILE
    found += [
        ("upgraded, a second up", _refused(bench, "already runs for", *as_root, *ports)),
        ("upgraded, sweeps", _refused(bench, "no sweep in", "sweeps")),
        ("upgraded, dry run", _succeeds(bench, "run", str(file), "--dry-run")),
        ("upgraded, a triggered sweep", _not_planned(services, f"upgraded-{number}")),
    ]
    set_up.write_text(f'{{"ackbench": "{_LATER}", "python": "3.11"}}')
    _install(installed, version("ackbench"))
    found.append(("set up by a later version, run", _refused(bench, _LATER, "run", str(file))))
    set_up.unlink()
    ended = services.process.poll() is not None
    found.append(("the first services", "they have ended" if ended else ""))
    found.append(("the home moved", _ends_when_moved(services)))
    return found


def _ends_when_moved(services: Services) -> str:
    """Move the home, wait for the end of its services, and move it back."""
    root = services.bench.home.root
    moved = root.rename(root.with_name("moved"))
    try:
        _, errors = services.process.communicate(timeout=STOP_TIMEOUT_S)
        made_again = sorted(path.name for path in root.glob("*"))
    finally:
        if root.exists():
            root.rename(root.with_name(f"other {time.monotonic_ns()}"))
        moved.rename(root)
    lines = [line for line in errors.splitlines() if line.startswith("ackbench: ")]
    is_line = services.process.returncode == 2 and f"was moved to {moved}" in "".join(lines)
    if not is_line or "Traceback" in errors:
        return f"exit code {services.process.returncode}: {errors[-300:]!r}"
    return f"another home was made: {made_again}" if made_again else ""


def _refused(bench: AckbenchCommand, reason: str, *arguments: str) -> str:
    ended = bench.run(*arguments)
    lines = ended.stderr.splitlines()
    is_line = ended.returncode == 2 and len(lines) == 1 and reason in lines[0]
    return "" if is_line else f"exit code {ended.returncode}: {ended.stderr[-300:]!r}"


def _succeeds(bench: AckbenchCommand, *arguments: str) -> str:
    ended = bench.run(*arguments)
    return "" if ended.returncode == 0 else f"exit code {ended.returncode}: {ended.stderr[-300:]!r}"


def _not_planned(services: Services, run_id: str) -> str:
    services.trigger(run_id, FILE)
    state, errors = services.wait_for_run(run_id), services.errors_of(run_id)
    says = any(error.startswith("plan: `ackbench up` was started by") for error in errors)
    return "" if state == "failed" and says else f"{state}: {errors}"
