"""Each test has its own home with the repository's caches, and writes small experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e.command import AckbenchCommand

from experiments.commands.setup import make_ready
from infra.machine.home import Home


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[AckbenchCommand]:
    """Return the command with a new home; processes of a failed test are ended afterwards."""
    repository_home = Home.from_environment()
    make_ready(repository_home, print)
    home = Home(tmp_path / "a home")
    home.root.mkdir()
    (home.root / "cache").symlink_to(repository_home.cache)
    bench = AckbenchCommand(home)
    yield bench
    bench.run("clean", "--force")


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[..., str]:
    """Return a function that writes a small experiment and returns its path."""

    def write(
        fault: str, *, acks: str = "[1, all]", duration_s: float = 4, controls: bool = False
    ) -> str:
        path = tmp_path / "small.yaml"
        path.write_text(
            f"name: small\ntitle: Small\nquestion: Does a sweep run from start to finish?\n"
            f"axes: {{acks: {acks}, enable.idempotence: false, replication.factor: 3,\n"
            f"       partitions: 2, fault: {fault}}}\n"
            f"topic: {{min.insync.replicas: majority}}\n"
            f"workload: {{rate_records_per_s: 2000, record_size_bytes: 100,\n"
            f"           duration_s: {duration_s}, keys: 8, producers: 2}}\n"
            f"seed: 7\ncontrols: {str(controls).lower()}\n"
        )
        return str(path)

    return write
