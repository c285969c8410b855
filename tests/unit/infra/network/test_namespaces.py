"""What is done to a node's packets, as nft reads it, and what nft counted; and how it travels to the supervisor and back."""

from __future__ import annotations

import json

import pytest

from infra.cluster.supervisor_protocol import (
    SupervisorReply,
    SupervisorRequest,
    decode_reply,
    decode_request,
    encode,
)
from infra.errors import SupervisorError
from infra.network.impairment import Cut, ImpairmentCounts, Relaying, Shaping
from infra.network.namespaces import cut_table, read_counters, shaping_table

ADDRESSES = {1: "198.18.0.2", 2: "198.18.0.3", 3: "198.18.0.4"}


def lines(cut: Cut) -> list[str]:
    """The rules and chains of a cut's table."""
    return [line.strip() for line in cut_table("t", cut, ADDRESSES, 9092).splitlines()]


def test_a_node_is_cut_off_from_others_by_their_addresses_both_ways() -> None:
    """What comes from them and what goes to them is counted and dropped; all else is accepted."""
    rules = lines(Cut(1, (2, 3)))
    assert "ip saddr { 198.18.0.3, 198.18.0.4 } counter drop" in rules
    assert "ip daddr { 198.18.0.3, 198.18.0.4 } counter drop" in rules
    assert len([rule for rule in rules if "policy accept" in rule]) == 2


def test_clients_are_cut_off_by_the_listener_s_port() -> None:
    """What comes to it, and what it answers: the other listeners are left alone."""
    rules = lines(Cut(1, clients=True))
    assert {"tcp dport 9092 counter drop", "tcp sport 9092 counter drop"} == {
        rule for rule in rules if "drop" in rule
    }


def test_a_one_way_cut_leaves_the_other_way_alone() -> None:
    """Only answers are dropped: nothing is done to what comes in."""
    rules = lines(Cut(1, clients=True, incoming=False))
    assert [rule for rule in rules if "hook" in rule] == [
        "type filter hook output priority 0; policy accept;"
    ]


def test_packets_are_lost_by_chance_to_a_ten_thousandth() -> None:
    """One in eight is 1250 of 10000."""
    assert "tcp sport 9092 numgen random mod 10000 < 1250 counter drop" in lines(
        Cut(1, clients=True, share=0.125)
    )


def test_what_a_node_sends_to_nodes_and_clients_goes_into_its_class() -> None:
    """And nothing that the harness is answered: it asks another listener."""
    table = shaping_table("t", Shaping(1, (2,)), "1:a", ADDRESSES, 9092)
    assert "ip daddr { 198.18.0.3 } meta priority set 1:a counter" in table
    assert "tcp sport 9092 meta priority set 1:a counter" in table


def counter(chain: str, packets: int) -> dict[str, object]:
    """A rule as `nft -j` tells it."""
    return {
        "rule": {
            "chain": chain,
            "expr": [
                {"match": {}},
                {"counter": {"packets": packets, "bytes": packets * 100}},
                {"drop": None},
            ],
        }
    }


def test_counters_are_summed_each_way() -> None:
    """Two rules of one chain are one figure; a chain that dropped nothing says so."""
    told = json.dumps(
        {
            "nftables": [
                {"table": {}},
                counter("incoming", 2),
                counter("incoming", 3),
                counter("outgoing", 0),
            ]
        }
    )
    assert read_counters(1, told) == (
        ImpairmentCounts(1, "incoming packets dropped", 5, 500),
        ImpairmentCounts(1, "outgoing packets dropped", 0, 0),
    )


@pytest.mark.parametrize("told", ["", "{}", '{"nftables": [{"rule": {}}]}'])
def test_what_is_no_list_of_rules_is_told(told: str) -> None:
    """Nothing counted is not nothing dropped."""
    with pytest.raises(SupervisorError, match="no list of rules"):
        read_counters(1, told)


def test_every_impairment_reaches_the_supervisor_as_it_was() -> None:
    """And what was caught comes back, with what is not counted as such."""
    impairments = (
        Cut(1, (2, 3), share=0.5),
        Shaping(2, (1,), rate_kbit_per_s=100),
        Relaying(3, "requests", "hold"),
    )
    request = SupervisorRequest("impair", name="leader-isolated", impairments=impairments)
    assert decode_request(encode(request)) == request
    reply = SupervisorReply(
        impairment_counts=(
            ImpairmentCounts(1, "incoming packets dropped", 1, 2),
            ImpairmentCounts(3, "requests held", bytes=0, connections=4),
        ),
        active_impairments=("leader-isolated",),
    )
    assert decode_reply(encode(reply)) == reply


def test_nothing_caught_is_no_evidence() -> None:
    """A rule that met with nothing did not bite; one reset connection is enough."""
    assert not ImpairmentCounts(1, "incoming packets dropped", 0, 0).anything
    assert ImpairmentCounts(1, "responses dropped", bytes=0, connections=1).anything
    assert (
        str(ImpairmentCounts(1, "responses dropped", bytes=7, connections=1))
        == "node 1, responses dropped: 7 bytes, 1 connections reset"
    )
