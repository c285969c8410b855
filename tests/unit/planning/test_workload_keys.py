"""Keys, pairs and partitions are asked for in the workload; what cannot be had is refused in one line."""

from typing import Any

import pytest

from experiments.errors import ExperimentError
from experiments.ledger.record import KeyOptions
from experiments.planning.experiment import experiment_of
from experiments.planning.planner import plan
from experiments.sweep.plan import TrialSpec
from infra.errors import InputError


def planned(workload: dict[str, Any], **rest: Any) -> TrialSpec:
    """Plan one trial."""
    told = {
        "name": "x",
        "title": "x",
        "question": "x",
        "controls": False,
        "axes": {"fault": "none"},
        "workload": workload,
        **rest,
    }
    return plan(experiment_of(told, "x"), "x").trials[0]


def test_nothing_is_said_of_keys_where_nobody_asks() -> None:
    """As it ever was: drawn in turn, and Spark computes nothing of them."""
    assert planned({"keys": 64}).keying() is None


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_the_record_tells_which_keys_there_are_and_how_they_are_written(client: str) -> None:
    """Java's programs write a key as text."""
    found = planned({"keys": 100, "placement": True}, client=client).keying()
    assert found == KeyOptions(keys=100, placement=True, text=client == "java")


def test_pairs_are_an_axis() -> None:
    """With all that the measures need to tell the first from the second."""
    found = planned(
        {"keys": 100, "pair_apart_records": 50}, axes={"workload.pairs": ["common"]}
    ).keying()
    assert found == KeyOptions(keys=100, pairs="common", pair_apart_records=50)


@pytest.mark.parametrize(
    ("workload", "client", "words"),
    [
        (
            {"pairs": "own", "keys": 1},
            "librdkafka",
            "workload.pairs is asked for and workload.keys is 1; allowed: 2 keys or more",
        ),
        (
            {"hot_key_share": 0.5, "keys": 0},
            "librdkafka",
            "workload.hot_key_share is asked for and workload.keys is 0; allowed: 2 keys or more",
        ),
        (
            {"hot_key_share": 0.5, "pairs": "own"},
            "librdkafka",
            "both asked for; allowed: one of them",
        ),
        ({"hot_key_share": 1.0}, "librdkafka", "hot_key_share"),
        (
            {"round_robin": True},
            "librdkafka",
            "workload.round_robin is true and workload.keys is 64; allowed: 0",
        ),
        (
            {"pairs": "common"},
            "java",
            "workload.pairs is asked for; allowed with client java: not at all",
        ),
        (
            {"round_robin": True, "keys": 0},
            "java",
            "workload.round_robin is asked for; allowed with client java: not at all",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    workload: dict[str, Any], client: str, words: str
) -> None:
    """With what would be right."""
    with pytest.raises(ExperimentError, match=words) as refused:
        planned(workload, client=client)
    assert "\n" not in str(refused.value)


def test_each_client_is_asked_about_its_own_cells_alone() -> None:
    """One experiment compares librdkafka's partitioners with Java's built-in one; Java's client in a cell with CRC32 is refused."""
    told: dict[str, Any] = {"name": "x", "title": "x", "question": "x", "controls": False}
    apart = [
        {"client": "librdkafka", "partitioner": "consistent"},
        {"client": "java", "partitioner": "murmur2"},
    ]
    assert len(plan(experiment_of({**told, "axes": apart}, "x"), "x").trials) == 2
    with pytest.raises(
        InputError,
        match="partitioner consistent is librdkafka's alone; with client java: murmur2, murmur2_random",
    ):
        plan(
            experiment_of(
                {**told, "axes": {"client": ["librdkafka", "java"], "partitioner": "consistent"}},
                "x",
            ),
            "x",
        )
