"""A rule between real sockets: which requests it meets, what becomes of them, and its evidence."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Any, cast, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from support.builders.kafka_messages import framed
from support.golden_files import Says
from support.tiers import examples

from ackbench.infra.errors import ImpairmentConflict
from ackbench.infra.kafka.addresses import AddressTranslator
from ackbench.infra.kafka.messages import API_KEYS
from ackbench.infra.network.impairment import RelayAction, decode_impairment
from ackbench.infra.network.relay import Connection, Relay, RelayMechanism, RelayTarget
from ackbench.infra.network.request_rules import RequestRuleMechanism
from ackbench.infra.network.reservations import reserve_ports
from ackbench.infra.network.rule_actions import ACTIONS, RequestRule, RuleAction
from ackbench.infra.network.treatment import FrameTreatment

API_VERSIONS = API_KEYS["ApiVersions"]
HEARTBEAT, END_TXN = API_KEYS["Heartbeat"], API_KEYS["EndTxn"]
VERSION = 1
LOST = RequestRule("Heartbeat", "responses", "error", error="UNKNOWN_MEMBER_ID")


@dataclass
class Node:
    """Answers requests with the response of their kind, and records the correlation ids."""

    received: list[int] = field(default_factory=list)
    apis: list[int] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until the other end closes it."""
        try:
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size))
                api_key, version, correlation_id = struct.unpack_from(">hhi", frame)
                self.received.append(correlation_id)
                self.apis.append(api_key)
                if api_key == API_VERSIONS:
                    writer.write(struct.pack(">iihi", 10, correlation_id, 0, 0))
                    continue
                writer.write(response(api_key, version, correlation_id))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def response(api_key: int, version: int, correlation_id: int) -> bytes:
    """Return a response without an error."""
    kind: Any = load_response_schema(api_key, version)
    made = kind(throttle_time=timedelta(0), error_code=ErrorCode.none)
    frame = bytearray(framed(made))
    frame[4:8] = correlation_id.to_bytes(4)
    return bytes(frame)


@dataclass
class Client:
    """A client's connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    throttle_ms: int = 0
    """Of the last response."""

    def send(self, correlation_id: int, api_key: int = HEARTBEAT, more_bytes: int = 20) -> None:
        """Send a request."""
        head = struct.pack(">hhih", api_key, VERSION, correlation_id, 6)
        body = head + b"client" + bytes(more_bytes)
        self.writer.write(struct.pack(">i", len(body)) + body)

    def heartbeat(self, correlation_id: int) -> None:
        """Send a request of a member, with all of its fields."""
        head = struct.pack(">hhih", HEARTBEAT, VERSION, correlation_id, 6) + b"client"
        body = head + struct.pack(">h1sih1s", 1, b"g", 3, 1, b"m")
        self.writer.write(struct.pack(">i", len(body)) + body)

    async def receive(self) -> tuple[int, str]:
        """Return the correlation id and the error of the next response."""
        size = await self.reader.readexactly(4)
        frame = await self.reader.readexactly(int.from_bytes(size))
        kind: Any = load_response_schema(HEARTBEAT, VERSION)
        read, _ = entity_reader(kind)(frame, 4)
        self.throttle_ms = round(read.throttle_time / timedelta(milliseconds=1))
        return int.from_bytes(frame[:4]), read.error_code.name

    async def call(self, correlation_id: int, api_key: int = HEARTBEAT) -> tuple[int, str]:
        """Send a request and return what is received."""
        self.send(correlation_id, api_key)
        async with asyncio.timeout(10):
            return await self.receive()


@asynccontextmanager
async def running(*, translates: bool = False) -> AsyncIterator[tuple[Node, Relay, int]]:
    """Start a node and its relay; yield both and the relay's port."""
    reservation = reserve_ports(2)
    relayed, port = reservation.ports
    node = Node()
    server = await asyncio.start_server(node.serve, "127.0.0.1", port)
    translator = (lambda: AddressTranslator(lambda _node, address: address)) if translates else None
    relay = Relay(1, ("127.0.0.1", relayed), RelayTarget("127.0.0.1", port), translator)
    await relay.start()
    try:
        yield node, relay, relayed
    finally:
        relay.close()
        server.close()
        reservation.release()


async def connected(port: int) -> Client:
    """Return a client that is connected."""
    return Client(*await asyncio.open_connection("127.0.0.1", port))


def ruled(relay: Relay, rule: RequestRule) -> RequestRuleMechanism:
    """Let the relay follow a rule."""
    mechanism = RequestRuleMechanism(rule, (relay,))
    mechanism.apply()
    return mechanism


def test_chosen_responses_get_an_error_and_the_node_has_the_requests() -> None:
    """The second and third of the API; those of other APIs pass."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client = await connected(port)
            rule = ruled(relay, replace(LOST, on_call=2, times=2))
            answers = [await client.call(number) for number in (1, 2, 3, 4)]
            answers.append(await client.call(5, END_TXN))
            assert [error for _, error in answers] == [
                *("none", "unknown_member_id", "unknown_member_id"),
                *("none", "none"),
            ]
            assert [number for number, _ in answers] == node.received == [1, 2, 3, 4, 5]
            (counts,) = rule.remove()
            assert (counts.requests, counts.connections) == (2, 0)
            assert str(counts).startswith(
                "2 Heartbeat responses changed: Heartbeat v1 (correlation id 2) of client to node 1"
            )
            assert await client.call(6) == (6, "none")

    asyncio.run(scenario())


def test_without_a_request_that_meets_it_a_rule_had_no_effect(says: Says) -> None:
    """Its counts say so."""

    async def scenario() -> None:
        async with running() as (_, relay, port):
            client = await connected(port)
            rule = ruled(relay, LOST)
            await client.call(1, END_TXN)
            (counts,) = rule.remove()
            assert not counts.any_traffic
            says(str(counts))

    asyncio.run(scenario())


def test_a_delayed_request_arrives_later_with_what_follows_it() -> None:
    """In order, and nothing else is late."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client, other = await connected(port), await connected(port)
            rule = ruled(
                relay, RequestRule("Heartbeat", "requests", "delay", delay_ms=300, times=1)
            )
            client.send(1)
            client.send(2, END_TXN)
            await asyncio.sleep(0.1)
            assert (await other.call(3))[0] == 3
            assert [await client.receive(), await client.receive()] == [(1, "none"), (2, "none")]
            assert node.received == [3, 1, 2]
            assert rule.remove()[0].requests == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("side", ["requests", "responses"])
def test_what_is_held_is_delivered_when_the_rule_ends(side: str) -> None:
    """The node has a request whose response is held, and not one that is held itself."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client = await connected(port)
            rule = ruled(relay, RequestRule("Heartbeat", side, "hold"))  # type: ignore[arg-type]
            client.send(1)
            await until_acted(rule)
            assert node.received == ([] if side == "requests" else [1])
            rule.remove()
            async with asyncio.timeout(10):
                assert await client.receive() == (1, "none")

    asyncio.run(scenario())


@pytest.mark.parametrize("side", ["requests", "responses"])
def test_a_connection_with_something_dropped_is_silent_and_reset_at_the_end(side: str) -> None:
    """TCP has no gaps: what follows is dropped with it. Another connection is not affected."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client, other = await connected(port), await connected(port)
            rule = ruled(
                relay,
                RequestRule("Heartbeat", side, "drop", times=1),  # type: ignore[arg-type]
            )
            client.send(1)
            await until_acted(rule)
            client.send(2, END_TXN)
            assert await other.call(3) == (3, "none")
            assert 1 in node.received or side == "requests"
            (counts,) = rule.remove()
            assert (counts.requests, counts.connections) == (1, 1)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.receive()
            assert await other.call(4) == (4, "none")

    asyncio.run(scenario())


def test_a_connection_is_reset_with_the_request_that_meets_the_rule() -> None:
    """At once, and the request does not arrive."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client = await connected(port)
            rule = ruled(relay, RequestRule("Heartbeat", "requests", "reset"))
            client.send(1)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await client.receive()
            assert node.received == []
            assert rule.remove()[0].connections == 1

    asyncio.run(scenario())


def test_a_repeated_request_arrives_once_more_and_its_sender_gets_one_response() -> None:
    """On a connection of its own; it counts when the node has answered."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client = await connected(port)
            rule = ruled(
                relay, RequestRule("Heartbeat", "requests", "repeat", delay_ms=100, times=1)
            )
            assert [await client.call(number) for number in (1, 2)] == [(1, "none"), (2, "none")]
            assert (node.received, rule.counts()[0].requests) == ([1, 2], 0)
            await until_acted(rule)
            assert node.received == [1, 2, 1]
            assert str(rule.remove()[0]).startswith("1 Heartbeat requests repeated: Heartbeat v1")
            assert await client.call(3) == (3, "none")

    asyncio.run(scenario())


def test_what_is_to_be_repeated_after_the_rule_ends_is_not() -> None:
    """The heal is the end of the fault."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client = await connected(port)
            rule = ruled(relay, RequestRule("Heartbeat", "requests", "repeat", delay_ms=100))
            await client.call(1)
            assert not rule.remove()[0].any_traffic
            await asyncio.sleep(0.2)
            await client.call(2)
            assert node.received == [1, 2]

    asyncio.run(scenario())


def test_a_relay_answers_in_the_order_of_requests_and_the_node_never_gets_the_request() -> None:
    """The second of three requests that are sent at once."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client = await connected(port)
            rule = ruled(
                relay,
                RequestRule(
                    *("Heartbeat", "requests", "respond"),
                    error="NOT_COORDINATOR",
                    on_call=2,
                    times=1,
                ),
            )
            for number in (1, 2, 3):
                client.heartbeat(number)
            async with asyncio.timeout(10):
                answers = [await client.receive() for _ in range(3)]
            assert answers == [(1, "none"), (2, "not_coordinator"), (3, "none")]
            assert node.apis == [HEARTBEAT, API_VERSIONS, HEARTBEAT]
            (counts,) = rule.remove()
            assert str(counts).startswith(
                "1 Heartbeat requests answered by relays: Heartbeat v1 (correlation id 2) of client"
                " to node 1, followed by correlation id 3 after "
            )
            assert await client.call(4) == (4, "none")

    asyncio.run(scenario())


def test_a_relay_that_replaces_addresses_answers_with_its_own() -> None:
    """The node's response to the placeholder is not taken for one to Metadata."""

    async def scenario() -> None:
        async with running(translates=True) as (node, relay, port):
            client = await connected(port)
            error = "LEADER_NOT_AVAILABLE"
            rule = ruled(relay, RequestRule("Metadata", "requests", "respond", error=error))
            head = struct.pack(">hhih", API_KEYS["Metadata"], 1, 5, 6) + b"client"
            body = head + struct.pack(">ih1s", 1, 1, b"t")
            client.writer.write(struct.pack(">i", len(body)) + body)
            async with asyncio.timeout(10):
                size = await client.reader.readexactly(4)
                frame = await client.reader.readexactly(int.from_bytes(size))
            kind: Any = load_response_schema(API_KEYS["Metadata"], 1)
            read, _ = entity_reader(kind)(frame, 4)
            assert [(one.node_id, one.port) for one in read.brokers] == [(1, port)]
            assert [(one.name, one.error_code.name) for one in read.topics] == [
                ("t", error.lower())
            ]
            assert node.apis == [API_VERSIONS]
            assert rule.remove()[0].requests == 1
            assert await client.call(6) == (6, "none")

    asyncio.run(scenario())


def test_an_answer_is_not_lost_when_its_rule_ends_first() -> None:
    """The client never sees the node's response to the placeholder."""

    async def scenario() -> None:
        async with running() as (_, relay, port):
            client = await connected(port)
            rule = ruled(
                relay, RequestRule("Heartbeat", "requests", "respond", error="NOT_COORDINATOR")
            )
            client.heartbeat(1)
            await until_acted(rule)
            rule.remove()
            async with asyncio.timeout(10):
                assert await client.receive() == (1, "not_coordinator")
            assert await client.call(2) == (2, "none")

    asyncio.run(scenario())


def test_fields_of_a_response_are_rewritten_and_others_say_why_they_are_not(says: Says) -> None:
    """The throttle time; a response that has it already does not count."""

    async def scenario() -> None:
        async with running() as (_, relay, port):
            client = await connected(port)
            rewritten = ruled(
                relay,
                RequestRule("Heartbeat", "responses", "rewrite", rewrite="throttle_time_ms:7"),
            )
            await client.call(1)
            assert client.throttle_ms == 7
            assert rewritten.remove()[0].requests == 1
            same = ruled(
                relay, RequestRule("Heartbeat", "responses", "rewrite", rewrite="error_code:NONE")
            )
            await client.call(2)
            (counts,) = same.remove()
            assert not counts.any_traffic
            says(str(counts))

    asyncio.run(scenario())


@pytest.mark.parametrize("action", get_args(RuleAction))
@given(api_key=st.integers(-(2**15), 2**15 - 1), rest=st.binary(max_size=60))
@settings(max_examples=examples(100))
def test_frames_that_no_rule_asks_for_pass_untouched(
    action: RuleAction, api_key: int, rest: bytes
) -> None:
    """Requests of other APIs, and whatever comes back, readable or not."""
    rule = RequestRule("EndTxn", ACTIONS[action].sides[0], action, rewrite="throttle_time_ms:1")
    mechanism, connection = RequestRuleMechanism(rule, ()), cast("Connection", object())
    body = struct.pack(">h", END_TXN + 1 if api_key == END_TXN else api_key) + rest
    request = struct.pack(">i", len(body)) + body
    assert mechanism.treat_request(connection, request) == FrameTreatment(request)
    assert mechanism.treat_response(connection, request) == FrameTreatment(request)
    assert mechanism.treat_response(connection, rest) == FrameTreatment(rest)
    assert not mechanism.counts()[0].any_traffic


def test_every_action_has_an_entry() -> None:
    """And every entry is an action that an experiment can name."""
    assert set(ACTIONS) == set(get_args(RuleAction))


def test_a_slow_connection_is_read_as_slowly_as_the_rule_says() -> None:
    """From the first request on that meets it; the rest waits at its sender."""

    async def scenario() -> None:
        async with running() as (node, relay, port):
            client, other = await connected(port), await connected(port)
            rule = ruled(relay, RequestRule("Heartbeat", "requests", "slow", bytes_per_s=10_000))
            await client.call(1)
            client.send(2, more_bytes=8_000_000)
            assert await other.call(3, END_TXN) == (3, "none")
            await asyncio.sleep(0.2)
            assert node.received == [1, 3]
            assert client.writer.transport.get_write_buffer_size() > 0
            (counts,) = rule.remove()
            assert str(counts).startswith("1 Heartbeat requests on slow connections: Heartbeat v1")
            async with asyncio.timeout(30):
                assert await client.receive() == (2, "none")

    asyncio.run(scenario())


def test_chance_is_the_same_for_the_same_seed() -> None:
    """About half of a hundred, and the same ones again."""

    async def scenario() -> list[str]:
        async with running() as (_, relay, port):
            client = await connected(port)
            ruled(relay, replace(LOST, probability=0.5, seed=3))
            return [(await client.call(number))[1] for number in range(100)]

    first, second = asyncio.run(scenario()), asyncio.run(scenario())
    assert first == second
    assert 25 < first.count("none") < 75


def test_two_faults_cannot_act_on_one_relay() -> None:
    """Neither another rule, nor one of bytes."""

    async def scenario() -> None:
        async with running() as (_, relay, _port):
            rule = ruled(relay, LOST)
            with pytest.raises(ImpairmentConflict):
                ruled(relay, LOST)
            with pytest.raises(ImpairmentConflict):
                RelayMechanism(RelayAction(1, "requests", "hold"), relay).apply()
            rule.remove()
            ruled(relay, LOST)

    asyncio.run(scenario())


def test_a_rule_is_the_same_after_its_way_to_the_supervisor(says: Says) -> None:
    """As each impairment."""
    assert decode_impairment(asdict(LOST)) == LOST
    says(str(LOST))
    late = RequestRule(
        "WriteTxnMarkers", "requests", "repeat", delay_ms=300, listener="replication"
    )
    assert decode_impairment(asdict(late)) == late
    says(str(late))


async def until_acted(rule: RequestRuleMechanism) -> None:
    """Return once the rule has acted."""
    async with asyncio.timeout(10):
        while not rule.counts()[0].requests:  # noqa: ASYNC110 - of sockets in other tasks
            await asyncio.sleep(0.005)
