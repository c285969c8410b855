"""`ackbench publish`: upload a sweep of this home to a folder or an object store."""

from __future__ import annotations

from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.results.history.shared import publish_history
from ackbench.experiments.results.history.warehouse import files_of
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.published import (
    finished_sweep,
    keep_store,
    open_store,
    publish_sweep,
    published_location,
    storage_errors,
)
from ackbench.infra.errors import InputError
from ackbench.infra.machine.home import Home


def publish(home: Home, named: str, store: str | None) -> int:
    """Upload what is not published yet, and print the URI of the published sweep.

    Args:
        home: the home of the sweep.
        named: the sweep.
        store: a URI or a folder to publish to from now on; `None`: the one that the sweep has.

    Returns:
        The exit code.

    Raises:
        UnknownName: there is no such sweep.
        InputError: the sweep has no store.
        StorageError: the store cannot be written; the text says what is not published.
        LedgerError: its results cannot be read; the sweep itself is published.
    """
    sweep = finished_sweep(home, named, echo_error)
    sweep.plan()
    if store:
        keep_store(sweep, open_store(store))
    target = published_location(sweep)
    if target is None:
        raise InputError(
            f"sweep {sweep.sweep_id} has no store: name it, as in "
            f"`ackbench publish {sweep.sweep_id} s3://bucket/sweeps`"
        )
    publish_sweep(sweep, target)
    if sweep.results.is_dir():
        files = files_of(sweep, read_results(sweep))
        with storage_errors():
            publish_history(sweep, files, target)
    echo(target.uri)
    return 0
