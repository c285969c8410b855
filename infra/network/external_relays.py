"""Relays in front of the brokers of an external cluster, for the clients of one trial.

They run on a thread of the trial's process and end with it. Brokers of an external cluster
advertise their own addresses, so the relays replace these in every response that names some
(`infra.kafka.addresses`): clients never connect to a broker. Clients connect in plain text, on
loopback; where the cluster wants TLS, the relays speak it, with the clients' certificate. SASL
passes through. As a certificate would serve whoever connects, only clients of this user may.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, TypeVar

from ackbench.infra.errors import HarnessError, SupervisorError
from ackbench.infra.kafka.addresses import Address, AddressTranslator
from ackbench.infra.kafka.kraft import LOOPBACK
from ackbench.infra.network.failures import LoopFailures
from ackbench.infra.network.impairment import ImpairableNetwork, Impairment, ImpairmentCounts
from ackbench.infra.network.relay import Relay, RelayTarget
from ackbench.infra.network.relayed import relay_mechanism
from ackbench.infra.network.tcp_connections import is_of_this_user
from ackbench.infra.process.exits import ProcessExit

MOST_RELAYS: Final = 500
"""A response may name as many nodes as it likes; each takes a socket of the trial."""
_CALL_TIMEOUT_S: Final = 10.0
_LOG: Final = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())

Result = TypeVar("Result")


class ExternalRelays:
    """One relay per broker, on a thread of their own. Its methods may be called by any thread."""

    def __init__(self, brokers: Mapping[int, Address], tls: ssl.SSLContext | None) -> None:
        """Listen for clients.

        Args:
            brokers: host and port of each, by node id.
            tls: what connects to the brokers; `None`: plain text.

        Raises:
            OSError: there is no free port.
        """
        self._tls = tls
        self._relays: dict[int, Relay] = {}
        self._addresses: dict[int, Address] = {}
        self._starting: set[asyncio.Task[None]] = set()
        self._network = ImpairableNetwork(
            lambda impairment: relay_mechanism(impairment, self._relays)
        )
        self._loop, self._failures = asyncio.new_event_loop(), LoopFailures("a relay")
        self._loop.set_exception_handler(self._failures.note)
        self._thread = threading.Thread(
            target=self._run, name="relays of an external cluster", daemon=True
        )
        self._thread.start()
        try:
            self._call(lambda: [self._relay_address(*broker) for broker in brokers.items()])
        except BaseException:
            self.close()
            raise

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the relays, as `bootstrap.servers`."""
        return ",".join(f"{host}:{port}" for host, port in self._addresses.values())

    def impair(self, name: str, impairments: Sequence[Impairment]) -> None:
        """Apply impairments, as `ImpairableNetwork.impair`."""
        self._call(lambda: self._network.impair(name, impairments))

    def impairment_counts(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Return what they affected so far, as `ImpairableNetwork.impairment_counts`."""
        return self._call(lambda: self._network.impairment_counts(name))

    def heal(self, name: str) -> tuple[ImpairmentCounts, ...]:
        """Remove them and return the final counts, as `ImpairableNetwork.heal`."""
        return self._call(lambda: self._network.heal(name))

    def failures(self) -> tuple[ProcessExit, ...]:
        """Return what has failed on the thread of the relays, and the thread itself."""
        return self._failures.so_far

    def close(self) -> None:
        """Reset all connections and end the thread. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_CALL_TIMEOUT_S)

    def _run(self) -> None:
        try:
            self._loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - the trial that uses the relays is void
            self._failures.add(error)
        try:
            self._loop.run_until_complete(self._end())
        finally:
            self._loop.close()

    async def _end(self) -> None:
        for relay in self._relays.values():
            relay.close()
        unfinished = asyncio.all_tasks() - {asyncio.current_task()}
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)

    def _call(self, function: Callable[[], Result]) -> Result:
        """Call a function on the thread of the relays and return its result, or raise its error."""
        future: Future[Result] = Future()

        def call() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
                future.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError as error:  # the loop is closed
            ended = ", ".join(map(str, self._failures.so_far)) or "they were closed"
            raise SupervisorError(f"the relays have ended: {ended}") from error
        return future.result(_CALL_TIMEOUT_S)

    def _relay_address(self, node_id: int, address: Address) -> Address:
        """Return the address of a node's relay; a node that is new gets one.

        A node may come back with another address, for example in another pod: its relay connects
        to the one that was named last.
        """
        target = RelayTarget(*address, self._tls)
        if node_id in self._relays:
            self._relays[node_id].target = target
            return self._addresses[node_id]
        if len(self._relays) >= MOST_RELAYS:
            raise HarnessError(f"the cluster names more than {MOST_RELAYS:,} nodes")
        listening = socket.create_server((LOOPBACK, 0))
        host, port = listening.getsockname()[:2]
        relay = Relay(
            node_id,
            (host, port),
            target,
            lambda: AddressTranslator(self._relay_address),
            is_of_this_user,
        )
        self._relays[node_id], self._addresses[node_id] = relay, (host, port)
        starting = self._loop.create_task(relay.start(listening))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        _LOG.info("node %s at %s:%s has the relay %s:%s", node_id, *address, host, port)
        return host, port
