"""Reads, writes and verdicts of a sweep: an asset of Airflow, and datasets of OpenLineage.

OpenLineage's packages are imported by functions that only its provider calls.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from airflow.sdk import Asset

SCHEME: Final = "ackbench"
"""Of the assets' URIs; in OpenLineage, the namespace of what has no address that lasts."""
VERDICTS: Final[Mapping[str, bool]] = {"HELD": True, "VIOLATED": False}
"""Verdicts that are assertions; all others say neither."""


def finished_sweeps(dag_id: str) -> Asset:
    """Return the asset that a DAG's complete sweeps update, for the DAGs that follow them."""
    return Asset(name=f"{dag_id}_finished", uri=f"{SCHEME}://{dag_id}", group=SCHEME)


def update_outlets(context: Mapping[str, Any], extra: Mapping[str, str | None]) -> None:
    """Let the events of a task's assets have what a DAG that follows needs."""
    for outlet in context.get("outlets") or ():
        if isinstance(outlet, Asset):
            context["outlet_events"][outlet].extra.update(extra)


@dataclass(frozen=True)
class SweepLineage:
    """The data that a task has read and written of a sweep."""

    sweep: str
    """Its id, or its URI."""
    servers: str | None
    """The addresses of the external cluster; `None`: ackbench starts and destroys clusters."""
    ledger: str | None
    """The URI of the sweep's folder; `None`: it is in ackbench's default home."""
    cells: tuple[Mapping[str, Any], ...] = field(default=())
    """With their labels and judgements, as `ackbench show --json` has them."""

    @property
    def sweep_id(self) -> str:
        """The sweep's id."""
        return self.sweep.partition("?")[0].rpartition("/")[2]

    def topics(self) -> tuple[str, str]:
        """Return namespace and name of the sweep's topics.

        In an external cluster their names begin so. A cluster that ackbench starts has no address
        that lasts: its topics are those of the experiment.
        """
        if self.servers:
            return f"kafka://{self.servers.split(',')[0].strip()}", f"ackbench-{self.sweep_id}-"
        return SCHEME, f"{self.sweep_id.rsplit('-', 2)[0]}/topics"

    def assertions(self) -> Iterator[tuple[str, bool]]:
        """Yield each guarantee of a cell that held or was violated, and whether it held."""
        for cell in self.cells:
            for judged in cell["judgements"]:
                if judged["verdict"] in VERDICTS:
                    yield f"{judged['guarantee']}: {cell['label']}", VERDICTS[judged["verdict"]]


def ledger_uri(sweep: str, variables: Mapping[str, str]) -> str | None:
    """Return where the folder of a sweep is: in its store, or in the home; `None`: not known.

    Args:
        sweep: its id, or its URI.
        variables: of ackbench's process.
    """
    if "://" in sweep:
        return sweep.partition("?")[0]
    store, home = variables.get("ACKBENCH_STORE"), variables.get("ACKBENCH_HOME")
    parent = store or (posixpath.join(home, "sweeps") if home else None)
    if not parent:
        return None
    uri = parent if "://" in parent else f"file://{parent}"
    return f"{uri.partition('?')[0].rstrip('/')}/{sweep}"


def dataset_name(uri: str) -> tuple[str, str]:
    """Return namespace and name of a folder, as OpenLineage names files and objects."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"


def openlineage(found: SweepLineage | None) -> Any:
    """Return the `OperatorLineage` of a task; an empty one: Airflow takes the task's assets."""
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import data_quality_assertions_dataset as quality

    if found is None:
        return OperatorLineage()
    namespace, name = found.topics()
    judged = [quality.Assertion(assertion=text, success=held) for text, held in found.assertions()]
    facet = quality.DataQualityAssertionsDatasetFacet(assertions=judged)
    facets = {"dataQualityAssertions": facet} if judged else {}
    outputs = [OutputDataset(*dataset_name(found.ledger))] if found.ledger else []
    return OperatorLineage(
        inputs=[InputDataset(namespace, name, inputFacets=facets)], outputs=outputs
    )


def asset_dataset(asset: Asset, lineage_context: Any) -> Any:
    """Return the dataset of an asset of complete sweeps: Airflow calls this by the scheme."""
    from openlineage.client.event_v2 import Dataset

    del lineage_context
    return Dataset(SCHEME, urlsplit(asset.uri).netloc)
