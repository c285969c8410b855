"""A held request between real sockets: it is delivered in the next transaction, however late."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from support.golden_files import Says

from ackbench.infra.errors import ImpairmentConflict
from ackbench.infra.kafka.frames import API_KEYS, TransactionalApi
from ackbench.infra.network.impairment import HeldRequest, RelayAction, RequestHold
from ackbench.infra.network.relay import Relay, RelayMechanism, RelayTarget
from ackbench.infra.network.request_hold import RequestHoldMechanism
from ackbench.infra.network.reservations import reserve_ports

TIMEOUT_S = 10.0
VERSIONS = {"Produce": 7, "EndTxn": 1, "AddPartitionsToTxn": 0}


def string(text: str) -> bytes:
    """Return a STRING."""
    return struct.pack(">h", len(text)) + text.encode()


def request(api: TransactionalApi, correlation_id: int, transactional_id: str = "t-0") -> bytes:
    """Return a complete request."""
    body = struct.pack(">hhi", API_KEYS[api], VERSIONS[api], correlation_id) + string("client")
    body += string(transactional_id) + bytes(11)
    return struct.pack(">i", len(body)) + body


def response(api: str, correlation_id: int, error_code: int) -> bytes:
    """Return a complete response."""
    body = struct.pack(">i", correlation_id)
    if api != "Produce":
        body += struct.pack(">i", 0)
    if api != "EndTxn":
        body += struct.pack(">i", 1) + string("topic") + struct.pack(">ii", 1, 0)
    body += struct.pack(">h", error_code)
    return struct.pack(">i", len(body)) + body


@dataclass
class KafkaNode:
    """A node that answers these requests, and records them as kind and correlation id."""

    errors: dict[int, int] = field(default_factory=dict)
    """The error code by correlation id; all others succeed."""
    received: list[tuple[str, int]] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until the other end closes it."""
        self.connections += 1
        names = {key: name for name, key in API_KEYS.items()}
        try:
            while True:
                size = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(size))
                key, _, correlation_id = struct.unpack_from(">hhi", frame)
                self.received.append((names[key], correlation_id))
                error_code = self.errors.get(correlation_id, 0)
                writer.write(response(names[key], correlation_id, error_code))
        except asyncio.IncompleteReadError:
            pass
        finally:
            self.connections -= 1
            writer.close()


@dataclass
class Client:
    """A client's connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def call(self, api: TransactionalApi, correlation_id: int) -> None:
        """Send a request and wait for its response."""
        self.writer.write(request(api, correlation_id))
        size = await self.reader.readexactly(4)
        answer = await self.reader.readexactly(int.from_bytes(size))
        assert int.from_bytes(answer[:4]) == correlation_id


@dataclass
class Cluster:
    """Two nodes behind relays."""

    nodes: tuple[KafkaNode, ...]
    relays: tuple[Relay, ...]
    ports: tuple[int, ...]

    async def connect(self, node: int) -> Client:
        """Connect a client to a node's relay."""
        return Client(*await asyncio.open_connection("127.0.0.1", self.ports[node - 1]))

    def hold(self, api: TransactionalApi = "EndTxn") -> RequestHoldMechanism:
        """Hold the producer's next request of this kind."""
        mechanism = RequestHoldMechanism(RequestHold(api, "t-0"), self.relays)
        mechanism.apply()
        return mechanism


async def until(condition: Callable[[], bool]) -> None:
    """Return when the condition is true."""
    while not condition():  # noqa: ASYNC110 - of sockets in other tasks
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running_cluster() -> AsyncIterator[Cluster]:
    """Start two nodes and their relays."""
    reservation = reserve_ports(4)
    ports = reservation.ports
    nodes = (KafkaNode(), KafkaNode())
    servers = [
        await asyncio.start_server(node.serve, "127.0.0.1", port)
        for node, port in zip(nodes, ports[2:], strict=True)
    ]
    relays = tuple(
        Relay(number, ("127.0.0.1", ports[number - 1]), RelayTarget("127.0.0.1", ports[number + 1]))
        for number in (1, 2)
    )
    for relay in relays:
        await relay.start()
    try:
        yield Cluster(nodes, relays, ports[:2])
    finally:
        for relay in relays:
            relay.close()
        for server in servers:
            server.close()
        reservation.release()


def run_scenario(scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """Run a scenario with a timeout."""

    async def run() -> None:
        async with running_cluster() as cluster:
            await asyncio.wait_for(scenario(cluster), TIMEOUT_S)

    asyncio.run(run())


def held_by(mechanism: RequestHoldMechanism) -> HeldRequest:
    """Return the request that was held."""
    (counts,) = mechanism.counts()
    assert counts.request is not None
    return counts.request


async def give_up(cluster: Cluster, api: TransactionalApi = "EndTxn") -> RequestHoldMechanism:
    """Send a request to node 1, which is held, and close the connection."""
    mechanism = cluster.hold(api)
    client = await cluster.connect(1)
    client.writer.write(request(api, 1))
    await until(lambda: bool(mechanism.counts()))
    client.writer.close()
    return mechanism


@pytest.mark.parametrize("api", ["EndTxn", "AddPartitionsToTxn", "Produce"])
def test_a_held_request_is_delivered_in_the_next_transaction(api: TransactionalApi) -> None:
    """It outlives its connection, and its answer is recorded."""

    async def scenario(cluster: Cluster) -> None:
        cluster.nodes[0].errors[1] = 48
        mechanism = await give_up(cluster, api)
        coordinator, leader = await cluster.connect(1), await cluster.connect(2)
        await leader.call("Produce", 1)
        await coordinator.call("EndTxn", 2)
        assert held_by(mechanism).released_ns is None
        await leader.call("Produce", 2)
        await until(lambda: held_by(mechanism).error_code is not None)
        held = held_by(mechanism)
        assert (held.node_id, held.request, held.version, held.error_code) == (
            1,
            api,
            VERSIONS[api],
            48,
        )
        assert held.in_next_transaction
        assert cluster.nodes[0].received == [("EndTxn", 2), (api, 1)]
        mechanism.remove()

    run_scenario(scenario)


def test_a_retry_that_fails_does_not_end_the_transaction() -> None:
    """The client retries after CONCURRENT_TRANSACTIONS, for example."""

    async def scenario(cluster: Cluster) -> None:
        cluster.nodes[0].errors[2] = 51
        mechanism = await give_up(cluster)
        coordinator, leader = await cluster.connect(1), await cluster.connect(2)
        await coordinator.call("EndTxn", 2)
        await leader.call("Produce", 2)
        assert held_by(mechanism).released_ns is None
        mechanism.remove()

    run_scenario(scenario)


def test_a_record_that_is_refused_is_not_stored() -> None:
    """The hold goes on until a record of the next transaction is."""

    async def scenario(cluster: Cluster) -> None:
        cluster.nodes[1].errors[2] = 6
        mechanism = await give_up(cluster)
        coordinator, leader = await cluster.connect(1), await cluster.connect(2)
        await coordinator.call("EndTxn", 2)
        await leader.call("Produce", 2)
        assert held_by(mechanism).released_ns is None
        await leader.call("Produce", 3)
        await until(lambda: held_by(mechanism).released_ns is not None)
        mechanism.remove()

    run_scenario(scenario)


def test_at_the_time_limit_the_request_is_delivered_outside_a_next_transaction() -> None:
    """As a network would; the record says so."""

    async def scenario(cluster: Cluster) -> None:
        mechanism = await give_up(cluster)
        mechanism.remove()
        assert not held_by(mechanism).in_next_transaction
        await until(lambda: cluster.nodes[0].received == [("EndTxn", 1)])

    run_scenario(scenario)


def test_requests_of_other_producers_and_other_kinds_pass() -> None:
    """One request of one kind of one producer is held, and no second one."""

    async def scenario(cluster: Cluster) -> None:
        mechanism = cluster.hold()
        client = await cluster.connect(1)
        await client.call("Produce", 1)
        client.writer.write(request("EndTxn", 2, "other"))
        await until(lambda: ("EndTxn", 2) in cluster.nodes[0].received)
        assert mechanism.counts() == ()
        mechanism.remove()

    run_scenario(scenario)


def test_what_follows_on_the_connection_stays_behind_the_held_request() -> None:
    """TCP keeps the order within a connection."""

    async def scenario(cluster: Cluster) -> None:
        mechanism = cluster.hold()
        client = await cluster.connect(1)
        client.writer.write(request("EndTxn", 1) + request("Produce", 2)[:9])
        await until(lambda: bool(mechanism.counts()))
        client.writer.write(request("Produce", 2)[9:])
        mechanism.remove()
        await until(lambda: len(cluster.nodes[0].received) == 2)
        assert cluster.nodes[0].received == [("EndTxn", 1), ("Produce", 2)]

    run_scenario(scenario)


def test_the_connection_to_the_node_is_closed_once_the_answer_is_there() -> None:
    """Nothing of it is left."""

    async def scenario(cluster: Cluster) -> None:
        mechanism = await give_up(cluster)
        mechanism.remove()
        await until(lambda: cluster.nodes[0].connections == 0)

    run_scenario(scenario)


def test_a_relay_has_one_fault_at_a_time() -> None:
    """Either way round; and after a conflict no relay is watched."""

    async def scenario(cluster: Cluster) -> None:
        action = RelayMechanism(RelayAction(2, "requests", "hold"), cluster.relays[1])
        action.apply()
        with pytest.raises(ImpairmentConflict, match="another fault acts on the relay of node 2"):
            cluster.hold()
        assert cluster.relays[0].watcher is None
        action.remove()
        mechanism = cluster.hold()
        with pytest.raises(ImpairmentConflict, match="watches requests already"):
            action.apply()
        mechanism.remove()

    run_scenario(scenario)


def test_the_evidence_names_request_version_time_and_answer(says: Says) -> None:
    """It says whether the request was delivered in the next transaction."""
    held = HeldRequest(2, "EndTxn", 1, 0, 1_520_000_000, in_next_transaction=True, error_code=0)
    says(str(held))
    says(str(HeldRequest(2, "EndTxn", 1, 0)))
    says(str(HeldRequest(2, "Produce", 9, 0, 10**9)))
