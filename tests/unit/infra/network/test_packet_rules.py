"""Tests of the nftables rules and counters, and of how impairments reach the supervisor."""

from __future__ import annotations

import json

import pytest

from ackbench.infra.cluster.supervisor_protocol import (
    ImpairRequest,
    SupervisorReply,
    decode_reply,
    decode_request,
    encode,
)
from ackbench.infra.errors import SupervisorError
from ackbench.infra.network.impairment import (
    HeldRequest,
    ImpairmentCounts,
    PacketDrop,
    RelayAction,
    RequestHold,
    TrafficShaping,
)
from ackbench.infra.network.packet_rules import drop_rules, parse_counters, shaping_rules

ADDRESSES = {1: "198.18.0.2", 2: "198.18.0.3", 3: "198.18.0.4"}


def lines(drop: PacketDrop) -> list[str]:
    """Return the rules and chains of the impairment's table."""
    return [line.strip() for line in drop_rules("t", drop, ADDRESSES, 9092).splitlines()]


def test_packets_from_and_to_peers_are_matched_by_address() -> None:
    """They are counted and dropped; all others are accepted."""
    rules = lines(PacketDrop(1, (2, 3)))
    assert "ip saddr { 198.18.0.3, 198.18.0.4 } counter drop" in rules
    assert "ip daddr { 198.18.0.3, 198.18.0.4 } counter drop" in rules
    assert len([rule for rule in rules if "policy accept" in rule]) == 2


def test_packets_of_clients_are_matched_by_the_client_listeners_port() -> None:
    """Requests and responses; the other listeners are not affected."""
    rules = lines(PacketDrop(1, clients=True))
    assert {"tcp dport 9092 counter drop", "tcp sport 9092 counter drop"} == {
        rule for rule in rules if "drop" in rule
    }


def test_one_way_drop_has_rules_for_one_direction() -> None:
    """Only outgoing packets have a chain."""
    rules = lines(PacketDrop(1, clients=True, incoming=False))
    assert [rule for rule in rules if "hook" in rule] == [
        "type filter hook output priority 0; policy accept;"
    ]


def test_share_of_packets_is_rounded_to_a_ten_thousandth() -> None:
    """One in eight is 1250 of 10000."""
    assert "tcp sport 9092 numgen random mod 10000 < 1250 counter drop" in lines(
        PacketDrop(1, clients=True, share=0.125)
    )


def test_shaping_matches_packets_to_peers_and_clients() -> None:
    """Responses to the harness are not matched: it uses another listener."""
    table = shaping_rules("t", TrafficShaping(1, (2,)), "1:a", ADDRESSES, 9092)
    assert "ip daddr { 198.18.0.3 } meta priority set 1:a counter" in table
    assert "tcp sport 9092 meta priority set 1:a counter" in table


def rule_with_counter(chain: str, packets: int) -> dict[str, object]:
    """Return a rule as in the output of `nft -j`."""
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


def test_counters_are_summed_by_direction() -> None:
    """A chain that dropped nothing has a count of 0."""
    output = json.dumps(
        {
            "nftables": [
                {"table": {}},
                rule_with_counter("incoming", 2),
                rule_with_counter("incoming", 3),
                rule_with_counter("outgoing", 0),
            ]
        }
    )
    assert parse_counters(1, output) == (
        ImpairmentCounts(1, "incoming packets dropped", 5, 500),
        ImpairmentCounts(1, "outgoing packets dropped", 0, 0),
    )


@pytest.mark.parametrize("output", ["", "{}", '{"nftables": [{"rule": {}}]}'])
def test_output_without_rules_is_an_error(output: str) -> None:
    """It must not be taken for counters of 0."""
    with pytest.raises(SupervisorError, match="no list of rules"):
        parse_counters(1, output)


def test_impairments_and_counts_survive_the_supervisor_protocol() -> None:
    """Requests and replies decode to what was encoded, with `None` for what is not counted."""
    impairments = (
        PacketDrop(1, (2, 3), share=0.5),
        TrafficShaping(2, (1,), rate_kbit_per_s=100),
        RelayAction(3, "requests", "hold"),
        RequestHold("EndTxn", "trial-0"),
    )
    request = ImpairRequest("leader-isolated", impairments)
    assert decode_request(encode(request)) == request
    reply = SupervisorReply(
        impairment_counts=(
            ImpairmentCounts(1, "incoming packets dropped", 1, 2),
            ImpairmentCounts(3, "requests held", bytes=0, connections=4),
            ImpairmentCounts(
                2, "requests held", request=HeldRequest(2, "EndTxn", 1, 5, 9, True, 48)
            ),
        ),
        active_impairments=("leader-isolated",),
    )
    assert decode_reply(encode(reply)) == reply


def test_counts_of_zero_are_no_evidence_of_an_effect() -> None:
    """One reset connection is enough."""
    assert not ImpairmentCounts(1, "incoming packets dropped", 0, 0).any_traffic
    assert ImpairmentCounts(1, "responses dropped", bytes=0, connections=1).any_traffic
    assert (
        str(ImpairmentCounts(1, "responses dropped", bytes=7, connections=1))
        == "node 1, responses dropped: 7 bytes, 1 connections reset"
    )
