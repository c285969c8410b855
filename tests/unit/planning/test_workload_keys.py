"""Keys, pairs and partitions in an experiment: valid and invalid settings."""

from typing import Any

import pytest

from ackbench.experiments.ledger.trial_manifest import KeyOptions
from ackbench.experiments.messages.errors import ExperimentError
from ackbench.experiments.planning.experiment import parse_experiment
from ackbench.experiments.planning.planner import plan
from ackbench.experiments.sweep.plan import TrialSpec
from ackbench.infra.errors import InputError


def planned(keys: dict[str, Any], **rest: Any) -> TrialSpec:
    """Return the first trial of an experiment with these keys."""
    experiment = {
        "name": "x",
        "title": "x",
        "question": "x",
        "controls": False,
        "axes": {"fault": "none"},
        "keys": keys,
        **rest,
    }
    return plan(parse_experiment(experiment, "x"), "x").trials[0]


def test_a_trial_without_key_measures_records_no_key_options() -> None:
    """Keys are then used in turn, and Spark computes no key measures."""
    assert planned({"count": 64}).keying() is None


@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_the_record_has_the_keys_and_their_format(client: str) -> None:
    """Java's programs write a key as text."""
    options = planned({"count": 100, "placement": True}, client=client).keying()
    assert options == KeyOptions(count=100, placement=True, text=client == "java")


def test_pairs_are_an_axis() -> None:
    """The record has what the measures need to distinguish the first record from the second."""
    options = planned(
        {"count": 100, "pair_apart_records": 50}, axes={"keys.pairs": ["common"]}
    ).keying()
    assert options == KeyOptions(count=100, pairs="common", pair_apart_records=50)


@pytest.mark.parametrize(
    ("keys", "client", "message"),
    [
        (
            {"pairs": "own", "count": 1},
            "librdkafka",
            "keys.pairs is own and keys.count is 1; allowed: 2 keys or more",
        ),
        (
            {"hot_key_share": 0.5, "count": 0},
            "librdkafka",
            "keys.hot_key_share is 0.5 and keys.count is 0; allowed: 2 keys or more",
        ),
        (
            {"hot_key_share": 0.5, "pairs": "own"},
            "librdkafka",
            "keys.pairs is own and keys.hot_key_share is 0.5; allowed: one of them",
        ),
        ({"hot_key_share": 1.0}, "librdkafka", "hot_key_share"),
        (
            {"round_robin": True},
            "librdkafka",
            "keys.round_robin is true and keys.count is 64; allowed: 0",
        ),
        (
            {"pairs": "common"},
            "java",
            "keys.pairs is common with client java; allowed: leave it out",
        ),
        (
            {"round_robin": True, "count": 0},
            "java",
            "keys.round_robin is true with client java; allowed: leave it out",
        ),
    ],
)
def test_invalid_settings_of_keys_are_refused_in_one_line(
    keys: dict[str, Any], client: str, message: str
) -> None:
    """The line names what is allowed."""
    with pytest.raises(ExperimentError, match=message) as refused:
        planned(keys, client=client)
    assert "\n" not in str(refused.value)


def test_a_clients_rules_apply_to_its_own_cells_only() -> None:
    """Partitioners of both clients can be compared; Java's client with CRC32 is refused."""
    base: dict[str, Any] = {"name": "x", "title": "x", "question": "x", "controls": False}
    axes = [
        {"client": "librdkafka", "partitioner": "consistent"},
        {"client": "java", "partitioner": "murmur2"},
    ]
    assert len(plan(parse_experiment({**base, "axes": axes}, "x"), "x").trials) == 2
    with pytest.raises(
        InputError,
        match="partitioner consistent exists in librdkafka only; "
        "allowed with client java: murmur2, murmur2_random",
    ):
        plan(
            parse_experiment(
                {**base, "axes": {"client": ["librdkafka", "java"], "partitioner": "consistent"}},
                "x",
            ),
            "x",
        )
