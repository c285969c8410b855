"""Sweeps that were stored when a load was one flat `workload` are read with its sections.

So are clusters, whose access to an external one was not a section either.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.builders.flat_loads import flat_access, flat_cell, flat_load, flat_settings
from support.builders.nights import a_night
from support.builders.records import a_spec, record_of
from support.builders.result_tables import loss_counts, write_results

from ackbench.experiments.ledger.digests import with_digest
from ackbench.experiments.ledger.planned import parse_planned
from ackbench.experiments.ledger.trial_manifest import (
    Cell,
    Keys,
    TrialManifest,
    parse_trial_manifest,
)
from ackbench.experiments.results.history.kept import read_summary
from ackbench.experiments.results.history.trend import trend_of
from ackbench.experiments.results.read import read_results
from ackbench.experiments.results.trials import settings_of_trial
from ackbench.experiments.sweep.cell_names import cell_label
from ackbench.experiments.sweep.folder import SweepFolder, parse_plan
from ackbench.experiments.sweep.plan import ClusterNeed, ExternalAccess, Plan, RefusedCell, Workload
from ackbench.experiments.sweep.workload import Copiers, GroupMembers, Transactions
from ackbench.spark_jobs.planted import PlantedAttempt, PlantedTrial

CELL: Cell = {
    "acks": "all",
    "enable.idempotence": True,
    "replication.factor": 3,
    "partitions": 1,
    "fault": "none",
    "transactions.records": 250,
    "keys.pairs": "own",
    "copy.delivery": "exactly-once",
}
REFUSED: Cell = {**CELL, "acks": 1}
LOADS = {
    "only producers": Workload(keys=Keys(count=0)),
    "transactions": Workload(transactions=Transactions(records=250, abort_every=4)),
    "a group": Workload(group=GroupMembers(consumers=2, groups=3, commit="before")),
    "copiers": Workload(
        copies=Copiers(copiers=2, delivery="exactly-once", slow_members=1, slow_records_per_s=9)
    ),
}


EXTERNAL = ClusterNeed(
    kafka_version="4.3",
    broker={"broker.id": "1"},
    external=ExternalAccess(
        addresses="kafka:9093",
        cluster_id="the-cluster",
        java_client_version="4.0.2",
        security={"ssl.key.password": "$SECRET"},
    ),
)


def planned(load: Workload, cluster: ClusterNeed = a_spec().cluster) -> Plan:  # noqa: B008 - frozen
    """Return a plan of one trial, and of a cell that its client refuses."""
    spec = a_spec(cell=CELL, label=cell_label(CELL), workload=load, cluster=cluster)
    return Plan(
        sweep_id=spec.sweep_id,
        experiment="stored",
        question="?",
        seed=1,
        repeats=1,
        trials=(spec,),
        refused=(
            RefusedCell(
                trial_id="001-refused", cell=REFUSED, label=cell_label(REFUSED), reason="no"
            ),
        ),
    )


def stored(document: Plan | TrialManifest, load: Workload) -> bytes:
    """Return a document as it was stored, with its digest."""

    def flat(value: Any) -> Any:
        if isinstance(value, list):
            return [flat(one) for one in value]
        if not isinstance(value, dict):
            return value
        lowered = {name: flat(one) for name, one in value.items()}
        if "cell" in value:
            cell = flat_cell(value["cell"])
            lowered |= {"cell": cell, "label": cell_label(cell)}
        if "workload" in value:
            lowered["workload"] = flat_load(load)
        if "external" in value:
            lowered |= flat_access(value["external"])
        if value.get("keying"):
            lowered["keying"]["keys"] = lowered["keying"].pop("count")
        return lowered

    text = json.dumps(flat(document.model_dump(mode="json")), indent=1)
    assert "transactions.records" not in text
    assert "workload.transaction_records" in text
    return with_digest(text).encode()


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_stored_plan_is_the_plan_with_sections(tmp_path: Path, load: Workload) -> None:
    """Its cells, labels and refused cells too; the file stays as it is."""
    plan, sweep = planned(load), SweepFolder(tmp_path / "sweep")
    content = stored(plan, load)
    sweep.root.mkdir()
    (sweep.root / "plan.json").write_bytes(content)
    assert sweep.plan() == plan
    assert (sweep.root / "plan.json").read_bytes() == content


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_stored_trial_is_that_of_its_stored_plan_and_of_a_new_one(load: Workload) -> None:
    """The manifest is compared with the plan by cell and label."""
    plan = planned(load)
    (spec,) = plan.trials
    manifest = record_of(spec, keying=spec.keying())
    old = parse_trial_manifest(stored(manifest, load), spec.trial_id)
    assert old == manifest
    for document in (stored(plan, load), with_digest(plan.model_dump_json(indent=1)).encode()):
        assert parse_planned(document).why_foreign(old) is None


def test_stored_results_are_those_of_the_cells(tmp_path: Path) -> None:
    """A result table names a cell by its axes; the file stays as it is."""
    plan = planned(LOADS["transactions"])
    (spec,) = plan.trials
    sweep = SweepFolder(tmp_path / spec.sweep_id)
    sweep.write_plan(plan)
    PlantedTrial(spec.trial_id, [PlantedAttempt(0, 0)], cell=CELL).plant(sweep.root)
    write_results(sweep, {spec.trial_id: loss_counts(100, 7)})
    cells = read_results(sweep).cells
    assert [cell.loss is None for cell in cells] == [False, True]

    file = sweep.results / "cells.parquet"
    table = pq.read_table(file)
    texts = [
        json.dumps(flat_cell(json.loads(one)), sort_keys=True) for one in table["cell"].to_pylist()
    ]
    assert texts != table["cell"].to_pylist()
    pq.write_table(table.set_column(table.column_names.index("cell"), "cell", [texts]), file)
    assert read_results(sweep).cells == cells


def test_a_stored_plan_on_an_external_cluster_has_its_access_in_one_section() -> None:
    """And a trial of Java's client is compared with the version that was planned."""
    load = LOADS["only producers"]
    plan = planned(load, EXTERNAL)
    old = parse_plan(stored(plan, load), "plan.json")
    assert old == plan
    (spec,) = old.trials
    java = spec.model_copy(update={"client": "java"})
    foreign = record_of(java, client="java 4.0.1")
    content = stored(plan.model_copy(update={"trials": (java,)}), load)
    assert parse_planned(content).why_foreign(record_of(java)) is None
    assert "client version 4.0.1" in str(parse_planned(content).why_foreign(foreign))


def test_a_trend_goes_from_a_pruned_sweep_to_one_with_sections(tmp_path: Path) -> None:
    """One series of each measure, and nothing has changed between the two."""
    spec = a_spec(cell=CELL, workload=LOADS["transactions"])
    rng = random.Random(1)  # noqa: S311 - not used for secrets
    settings = {" ".join(name): value for name, value in settings_of_trial(spec).items()}
    nights = (a_night(number, rng, settings=settings) for number in (0, 1))
    old, new = (
        night.model_copy(
            update={
                "cells": tuple(
                    one.model_copy(update={"cell": {**one.cell, "transactions.records": 250}})
                    for one in night.cells
                )
            }
        )
        for night in nights
    )
    dumped = old.model_dump(mode="json")
    flat = flat_settings(dumped["settings"], spec.workload)
    cells = [{**one, "cell": flat_cell(one["cell"])} for one in dumped["cells"]]
    file = tmp_path / f"{old.sweep_id}.json"
    file.write_text(json.dumps({**dumped, "settings": flat, "cells": cells}))
    pruned = read_summary(file)
    assert pruned is not None
    trend = trend_of([pruned, new])
    assert [len(series.points) for cell in trend.cells for series in cell.series] != []
    assert {len(series.points) for cell in trend.cells for series in cell.series} == {2}
    assert trend.boundaries == ()
