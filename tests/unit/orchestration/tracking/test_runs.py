"""The metrics of the summary run."""

from __future__ import annotations

from support.builders.findings import finding_input, planted_truth

from ackbench.experiments.orchestration.tracking.runs import verdict_metrics

MLFLOW_NAME_LIMIT = 250


def test_long_cell_names_are_cut_to_unique_names_within_mlflows_limit() -> None:
    """Names that differ only after the cut stay distinct."""
    results = finding_input(planted_truth({"acks": 1}), planted_truth({"acks": "all"})).results
    cells = [
        cell.model_copy(
            update={"label": f"{'controller.quorum.fetch.timeout.ms=1500 ' * 9}{place}"}
        )
        for place, cell in enumerate(results.cells)
    ]
    names = [
        name
        for name, _ in verdict_metrics(results.model_copy(update={"cells": tuple(cells)}))
        if name.startswith("loss_share_high/")
    ]

    assert len(set(names)) == len(names) == sum(cell.loss is not None for cell in cells) > 1
    assert max(map(len, names)) <= MLFLOW_NAME_LIMIT
