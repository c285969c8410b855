"""A disk that fills while a ledger is sealed: the trial fails, and its reason names the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.needed_programs import skip_without

SEAL_ON_A_FULL_DISK = """
import os, subprocess, sys
from pathlib import Path
from support.builders.records import a_spec
from support.builders.sweep_folders import realistic_trial
from support.fakes.cluster import MemoryCluster
from ackbench.experiments.messages.errors import TrialFailed
from ackbench.experiments.trial.events.journal import Journal
from ackbench.experiments.ledger.seal import seal
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.trial.disturbances import Disturbances
from ackbench.experiments.trial.run import _create_empty, _kept_on_failure

disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], check=True)
sweep, spec, trial = SweepFolder(disk / "sweep"), a_spec(), realistic_trial(20_000)
partial = _create_empty(sweep.partial(spec.trial_id))
free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
(disk / "filler").write_bytes(bytes(free - 4096))  # one page is left
try:
    with _kept_on_failure(sweep, spec, partial, Disturbances(MemoryCluster(), Journal())):
        seal(partial, sweep.trial(spec.trial_id), trial.record("sweep"), trial.tables())
except TrialFailed as error:
    print(error)
print((sweep.failed(spec.trial_id) / "reason.txt").read_text())
print(sorted(path.name for path in (disk / "sweep" / "trials").iterdir()))
"""


@pytest.mark.root
def test_a_disk_that_fills_while_a_ledger_is_sealed_is_the_reason_of_the_failed_trial(
    tmp_path: Path,
) -> None:
    """In a mount namespace of its own, which ends with the process."""
    skip_without("unshare")
    tests = Path(__file__).parents[2]
    ran = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", SEAL_ON_A_FULL_DISK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{tests}:{tests.parent}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "Operation not permitted" in ran.stderr or "permission denied" in ran.stderr:
        pytest.skip("mounting is not allowed here")
    message, reason, _, folders = ran.stdout.splitlines()
    assert "No space left on device" in message
    assert f"the disk of {tmp_path}/sweep is full" in message
    assert f"the disk of {tmp_path}/sweep is full" in reason
    assert folders == "['000-abcdef.failed']"
