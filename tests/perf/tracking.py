"""The cost of MLflow's store as it grows: `python tests/perf/tracking.py [RUNS ...]`.

An embedded store is filled with runs as sweeps have them, up to each number of runs (by default
1,000 and 10,000). Then one more sweep is written to it, through a server with one request at a time
and with several, written again without a change, shown as the saved view asks for it, and deleted.
The server is also asked through a proxy that keeps each answer for 20 ms, as a network would.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import threading
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from ackbench.experiments.ledger.quantities import CELL_PLACES, TRIAL_PLACES
from ackbench.experiments.orchestration.services import mlflow_service
from ackbench.experiments.orchestration.tracking import store
from ackbench.experiments.orchestration.tracking.cell_runs import CELL
from ackbench.experiments.orchestration.tracking.deletion import delete_runs
from ackbench.experiments.orchestration.tracking.run_writer import REQUESTS_AT_A_TIME, write_runs
from ackbench.experiments.orchestration.tracking.runs import SUMMARY, TRIAL, Point, RunContent
from ackbench.experiments.sweep.lookup import pruned_folder
from ackbench.infra.machine.home import Home
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.process.waiting import wait_until

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

RUNS: Final = (1_000, 10_000)
_TRIALS, _CELLS = 20, 10
_PARAMS: Final = 140
_SLOTS: Final = 120
_FAR_S: Final = 0.02
_PAGE: Final = 100
"""Runs that MLflow's page asks for at a time."""


@dataclass(frozen=True)
class TrackingCost:
    """Seconds that a store of so many runs takes."""

    runs: int
    database_bytes: int
    write_s: float
    write_near_one_s: float
    """To a server on this machine, one request at a time."""
    write_near_s: float
    """As ackbench does it."""
    write_far_one_s: float
    """To one whose answers take 20 ms longer."""
    write_far_s: float
    write_again_s: float
    show_s: float
    delete_s: float


def sweep_runs(sweep_id: str) -> list[RunContent]:
    """Return the runs of a sweep of twenty trials in ten cells, with values of its own."""
    own = float(hash(sweep_id) % 1000)
    params = {f"setting.{number}": "a value" for number in range(_PARAMS)}
    course = [Point(100 * slot, 100 * slot, own + slot) for slot in range(_SLOTS)]
    series = {f"timeline_{name}_records_per_s": course for name in ("acked", "read")}
    tags = {"sweep_id": sweep_id, "experiment": "planted", "fault": "leader-crash"}
    runs = [
        RunContent(
            f"acks=all #{number}",
            {**tags, "kind": TRIAL, "trial_id": f"{number:03d}-abcdef"},
            {**params, "fault": "leader-crash"},
            {place.name: own + number for place in TRIAL_PLACES},
            series,
        )
        for number in range(_TRIALS)
    ]
    runs += [
        RunContent(
            f"acks=all {number}",
            {**tags, "kind": CELL, "trial_id": f"{CELL} {number}"},
            {"acks": "all", "fault": "leader-crash"},
            {place.name: own + number for place in CELL_PLACES},
        )
        for number in range(_CELLS)
    ]
    return [*runs, RunContent("summary", {**tags, "kind": SUMMARY, "trial_id": SUMMARY})]


def tracking_costs(
    counts: Sequence[int], say: Callable[[str], None] = print
) -> Iterator[TrackingCost]:
    """Yield the cost of a store that grows to each number of runs.

    Args:
        counts: numbers of runs, rising.
        say: called with a line while the store is filled.
    """
    with tempfile.TemporaryDirectory() as place:
        home = Home(Path(place))
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        store.ensure_store(home, say)
        client = store.open_client(home)
        experiment = client.create_experiment("ackbench/planted", str(home.mlflow / "artifacts"))
        ids = (f"planted-20260101T000000-{number:04x}" for number in count())
        written = 0
        for runs in counts:
            while written < runs:
                written += _write(client, experiment, next(ids))
            say(f"{written:,} runs")
            yield _cost(home, client, experiment, ids, written)


def _cost(
    home: Home, client: MlflowClient, experiment: str, ids: Iterator[str], runs: int
) -> TrackingCost:
    from mlflow.tracking import MlflowClient

    doomed = next(ids)
    write_s = _seconds(lambda: _write(client, experiment, doomed))
    again_s = _seconds(lambda: _write(client, experiment, doomed))
    show_s = _seconds(lambda: _show(client, experiment))
    with _server(home) as address, _far(address) as far_address:
        near, far = MlflowClient(address), MlflowClient(far_address)
        _show(near, experiment)  # its first answer takes seconds
        near_one_s, near_s, far_one_s, far_s = [
            _seconds(partial(_write, server, experiment, next(ids), at_a_time))
            for server in (near, far)
            for at_a_time in (1, REQUESTS_AT_A_TIME)
        ]
    pruned_folder(home).mkdir(parents=True, exist_ok=True)
    (pruned_folder(home) / f"{doomed}.json").write_text("{}")
    size = store.database_of_store(home).stat().st_size
    delete_s = _seconds(lambda: delete_runs(home, [doomed]))
    return TrackingCost(
        runs=runs,
        database_bytes=size,
        write_s=write_s,
        write_near_one_s=near_one_s,
        write_near_s=near_s,
        write_far_one_s=far_one_s,
        write_far_s=far_s,
        write_again_s=again_s,
        show_s=show_s,
        delete_s=delete_s,
    )


def _write(
    client: MlflowClient, experiment: str, sweep_id: str, at_a_time: int = REQUESTS_AT_A_TIME
) -> int:
    runs = sweep_runs(sweep_id)
    return len(write_runs(client, experiment, sweep_id, runs, {}, at_a_time))


def _show(client: MlflowClient, experiment: str) -> None:
    found = client.search_runs(
        [experiment], f"tags.kind = '{CELL}'", max_results=_PAGE, order_by=["params.fault ASC"]
    )
    assert found


def _seconds(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


@contextmanager
def _server(home: Home) -> Iterator[str]:
    """Serve the store as `ackbench up` does; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = mlflow_service(home, port)
    with (home.root / "server.log").open("wb") as log:
        process = spawn_dying_with_parent(
            service.command, env={**os.environ, **service.environment}, stdout=log, stderr=log
        )
        try:
            wait_until(service.healthy, awaiting="MLflow's server", timeout_s=120, every_s=0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def _far(address: str) -> Iterator[str]:
    """Yield the address of a proxy that keeps each part of an answer for a while."""
    near = address.removeprefix("http://").encode()

    async def copy(source: StreamReader, target: StreamWriter, delay_s: float) -> None:
        while part := await source.read(1 << 16):
            await asyncio.sleep(delay_s)
            target.write(part.replace(far, near))  # MLflow's server refuses another Host
        target.close()

    async def serve(asked: StreamReader, answered: StreamWriter) -> None:
        answers, asks = await asyncio.open_connection("127.0.0.1", int(near.partition(b":")[2]))
        with suppress(asyncio.CancelledError):
            await asyncio.gather(copy(asked, asks, 0), copy(answers, answered, _FAR_S))

    async def end() -> None:
        open_ones = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    far = b"127.0.0.1:%d" % server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{far.decode()}"
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def tracking_table(costs: Sequence[TrackingCost]) -> Table:
    """Return the table of the stores; the ratios compare each with the smallest."""
    table = Table("runs", "MB", "step", "s", "/ smallest store", title="MLflow's store, a sweep")
    steps = {
        "write_s": "write 31 runs to SQLite",
        "write_near_one_s": "... to a server here, one at a time",
        "write_near_s": "... to a server here",
        "write_far_one_s": "... to a server 20 ms away, one at a time",
        "write_far_s": "... to a server 20 ms away",
        "write_again_s": "write them again, unchanged",
        "show_s": "show the 100 first cells by fault",
        "delete_s": "delete them for good",
    }
    for cost in costs:
        for field, step in steps.items():
            seconds, smallest = getattr(cost, field), getattr(costs[0], field)
            table.add_row(
                f"{cost.runs:,}",
                f"{cost.database_bytes / 1e6:,.0f}",
                step,
                f"{seconds:.2f}",
                f"{seconds / smallest:.2f}",
            )
    return table


def main() -> int:
    """Measure and print the table."""
    counts = tuple(map(int, sys.argv[1:])) or RUNS
    Console().print(tracking_table([*tracking_costs(counts)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
