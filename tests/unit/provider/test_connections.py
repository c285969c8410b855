"""A Kafka connection of Airflow as an external cluster; what is no connection or no experiment."""

from __future__ import annotations

import json

import pytest
from airflow_provider_ackbench.connections import UnusableConnection, kafka_cluster
from hypothesis import given
from hypothesis import strategies as st

from ackbench.infra.kafka.secrets import is_secret

EXTRA = {"bootstrap.servers": "kafka-1:9093", "security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (None, "connection k: its extra has no bootstrap.servers"),
        ("[1]", "connection k: its extra has no bootstrap.servers"),
        ('{"bootstrap.servers": 5}', "connection k: its extra has no bootstrap.servers"),
        ("{", "connection k: its extra is no JSON"),
    ],
)
def test_a_connection_without_addresses_is_one_line(extra: str | None, message: str) -> None:
    """It names the connection."""
    with pytest.raises(UnusableConnection, match=message):
        kafka_cluster("k", extra)


@pytest.mark.parametrize("text", ["- a", "a: [", ""], ids=["list", "broken", "empty"])
def test_a_file_that_is_no_experiment_is_one_line(text: str) -> None:
    """Before ackbench is started."""
    cluster = kafka_cluster("k", json.dumps(EXTRA))
    with pytest.raises(UnusableConnection, match="the experiment's file is no"):
        cluster.experiment(text)


@given(st.text(st.characters(categories=["Ll"]) | st.just("."), max_size=30))
def test_what_ackbench_takes_for_a_secret_is_a_variable(name: str) -> None:
    """Whatever a property is called."""
    for prefix in ("ssl.", "sasl."):
        for end in ("", ".password", ".key.pem", ".jaas.config", ".secret"):
            given_name = f"{prefix}{name}{end}"
            cluster = kafka_cluster("k", json.dumps({**EXTRA, given_name: "planted"}))
            assert (cluster.security[given_name] == "planted") != is_secret(given_name)
