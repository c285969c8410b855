"""Runs the DAG as `ackbench run` does, in a world without brokers: `embedded_run.py <mode>`; the second of three trials hangs, fails or ends."""

import sys
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.fakes.surroundings import FakeSurroundings

from experiments.orchestration import embedded
from infra.machine.home import Home

MODE = sys.argv[1]
SECOND = "001-abcdef"

world = FakeSurroundings(
    Home.from_environment(),
    hangs_at=SECOND if MODE == "hangs" else "",
    fails=frozenset({SECOND} if MODE == "fails" else ()),
)
world.take_the_place_of(lambda name, value: mock.patch(name, value).start())
code = embedded.main([world.sweep(3).sweep_id])
(world.home.root / "did").write_text("\n".join(world.did))
sys.exit(code)
