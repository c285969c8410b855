"""A home of its own for each test, in a folder with a space, with the clone's caches; and small experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e.command import Bench

from experiments.commands.setup import make_ready
from infra.machine.home import Home


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Return a new home with warm caches; whatever a failed test left running is ended."""
    clone = Home.from_environment()
    make_ready(clone, print)
    home = Home(tmp_path / "a home")
    home.root.mkdir()
    home.cache.symlink_to(clone.cache)
    bench = Bench(home)
    yield bench
    bench.run("clean", "--force")


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[..., str]:
    """Write small experiment files."""

    def write(
        fault: str, *, acks: str = "[1, all]", duration_s: float = 4, controls: bool = False
    ) -> str:
        path = tmp_path / "small.yaml"
        path.write_text(
            f"name: small\ntitle: Small\nquestion: Does the whole path work?\n"
            f"axes: {{acks: {acks}, enable.idempotence: false, replication.factor: 3, partitions: 2, fault: {fault}}}\n"
            f"topic: {{min.insync.replicas: majority}}\n"
            f"workload: {{rate_records_per_s: 2000, record_size_bytes: 100, duration_s: {duration_s}, keys: 8, producers: 2}}\n"
            f"seed: 7\ncontrols: {str(controls).lower()}\n"
        )
        return str(path)

    return write
