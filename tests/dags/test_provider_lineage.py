"""The data that a sweep reads and writes, as OpenLineage names them."""

from __future__ import annotations

from typing import Any

import pytest

from ackbench.experiments.sweep.plan import external_prefix
from ackbench.infra.machine.home import Home

SWEEP = "of-a-team-20260102T030405-ab12"


@pytest.fixture
def lineage(airflow: Home) -> Any:
    """Return the provider's module, imported in Airflow's environment."""
    del airflow
    from airflow_provider_ackbench import lineage

    return lineage


def test_the_topics_of_an_external_cluster_begin_with_the_sweep_s_prefix(lineage: Any) -> None:
    """Of the first address; those of ackbench's own clusters have no address that lasts."""
    found = lineage.SweepLineage(SWEEP, "kafka-1:9093, kafka-2:9093", None)
    assert found.topics() == ("kafka://kafka-1:9093", external_prefix(SWEEP))
    uri = f"s3://bench/sweeps/{SWEEP}?region=eu"
    assert lineage.SweepLineage(uri, None, None).topics() == ("ackbench", "of-a-team/topics")


def test_an_assertion_says_no_more_than_the_verdict(lineage: Any) -> None:
    """None for a verdict that is unknown or not guaranteed, or for none."""
    verdicts = ("HELD", "VIOLATED", "UNKNOWN", "NOT GUARANTEED")
    judged = [{"guarantee": name.lower(), "verdict": name} for name in verdicts]
    found = lineage.SweepLineage(SWEEP, None, None, ({"label": "acks=1", "judgements": judged},))
    assert [*found.assertions()] == [("held: acks=1", True), ("violated: acks=1", False)]


@pytest.mark.parametrize(
    ("sweep", "variables", "dataset"),
    [
        (SWEEP, {"ACKBENCH_HOME": "/data/bench"}, ("file", f"/data/bench/sweeps/{SWEEP}")),
        (SWEEP, {"ACKBENCH_STORE": "/shared"}, ("file", f"/shared/{SWEEP}")),
        (
            SWEEP,
            {"ACKBENCH_HOME": "/data/bench", "ACKBENCH_STORE": "s3://bench/sweeps/?region=eu"},
            ("s3://bench", f"sweeps/{SWEEP}"),
        ),
        (f"gs://bench/x/{SWEEP}", {}, ("gs://bench", f"x/{SWEEP}")),
    ],
)
def test_a_ledger_is_named_by_its_store_or_its_folder(
    lineage: Any, sweep: str, variables: dict[str, str], dataset: tuple[str, str]
) -> None:
    """As OpenLineage's naming has files and objects."""
    assert lineage.dataset_name(lineage.ledger_uri(sweep, variables)) == dataset


def test_a_ledger_in_the_default_home_has_no_address(lineage: Any) -> None:
    """Only ackbench knows where it is."""
    assert lineage.ledger_uri(SWEEP, {}) is None
