"""The limit of a cluster: Produce requests that were encoded before, sent by almost no client.

A process connects to each partition's leader, gets a producer id (KIP-98) and encodes all batches.
Then it writes them to the sockets and reads the responses, as fast as the brokers take them: per
connection at most five requests in flight, as an idempotent client has.

    python tests/perf/replay.py '{"topic": ..., "leaders": {"0": ["127.0.0.1", 9092], ...}, ...}'
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numba import njit

sys.path.insert(0, str(Path(__file__).parents[1]))

from ackbench.infra.kafka.replica_files import HEADER_BYTES, MAGIC, crc32c_table
from ackbench.infra.kafka.wire import encode_request
from ackbench.infra.process.waiting import wait_until

IN_FLIGHT: Final = 5
_PRODUCE: Final = 0, 7
_INIT_PRODUCER_ID: Final = 22, 1
_CRC_START: Final = 21
_SEQUENCE_AT: Final = 53
_CRC_AT: Final = 17
_COORDINATOR_LOAD_IN_PROGRESS: Final = 14
_TIMEOUT_MS: Final = 60_000
_KEY_BYTES: Final = 8
_TABLE: Final = np.array(crc32c_table(), dtype=np.uint32)


@dataclass(frozen=True)
class ReplayJob:
    """The records, as a generator under comparison sends them."""

    topic: str
    leaders: Mapping[str, tuple[str, int]]
    """The address of each partition's leader, by the partition's number."""
    records: int
    record_bytes: int
    batch_records: int
    """Records per batch; a request has one batch."""

    def to_json(self) -> str:
        """Return the job as the process gets it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Replayed:
    """The cost of a replay, from the first request to the last response."""

    records: int
    seconds: float
    cpu_s: float
    """Of the replaying process."""


@njit(cache=False)
def _crc(data: Any, table: Any) -> Any:
    crc = np.uint32(0xFFFFFFFF)
    for byte in data:
        crc = table[(crc ^ byte) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    return crc ^ np.uint32(0xFFFFFFFF)


def encode_batch(records: int, record_bytes: int, producer_id: int) -> bytearray:
    """Return a record batch with base sequence 0; its CRC is still missing.

    Args:
        records: how many.
        record_bytes: of each value; keys have 8 bytes.
        producer_id: of the idempotent producer; its epoch is 0.
    """
    value = os.urandom(record_bytes)
    body = bytearray()
    for number in range(records):
        key = (number % 64).to_bytes(_KEY_BYTES, "big")
        fields = (
            b"\x00" + _zigzag(0) + _zigzag(number) + _zigzag(len(key)) + key
            + _zigzag(len(value)) + value + _zigzag(0)
        )  # fmt: skip
        body += _zigzag(len(fields)) + fields
    now_ms = time.time_ns() // 1_000_000
    header = struct.pack(
        ">qiibIhiqqqhii",
        0, HEADER_BYTES - 12 + len(body), -1, MAGIC, 0, 0, records - 1, now_ms, now_ms,
        producer_id, 0, 0, records,
    )  # fmt: skip
    return bytearray(header) + body


def _zigzag(number: int) -> bytes:
    number, encoded = (number << 1) ^ (number >> 31), bytearray()
    while number > 0x7F:
        encoded.append((number & 0x7F) | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def requests_of(job: ReplayJob, partition: int, producer_id: int, records: int) -> Iterator[bytes]:
    """Yield the Produce requests of one partition."""
    full = encode_batch(job.batch_records, job.record_bytes, producer_id)
    rest = encode_batch(max(records % job.batch_records, 1), job.record_bytes, producer_id)
    topic = job.topic.encode()
    for sequence in range(0, records, job.batch_records):
        count = min(job.batch_records, records - sequence)
        batch = full if count == job.batch_records else rest
        struct.pack_into(">i", batch, _SEQUENCE_AT, sequence)
        crc = _crc(np.frombuffer(batch, np.uint8)[_CRC_START:], _TABLE)
        struct.pack_into(">I", batch, _CRC_AT, crc)
        body = (
            struct.pack(">hhi", -1, -1, _TIMEOUT_MS)
            + struct.pack(">ih", 1, len(topic)) + topic
            + struct.pack(">iii", 1, partition, len(batch)) + batch
        )  # fmt: skip
        yield encode_request(_PRODUCE, body, flexible=False)


def _receive(connection: socket.socket) -> bytes:
    """Return the next response, without its size."""
    head = _exactly(connection, 4)
    return _exactly(connection, struct.unpack(">i", head)[0])


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise RuntimeError("the broker closed the connection")
        data += piece
    return data


def _producer_id(address: tuple[str, int]) -> int | None:
    """Return a new producer id; `None`: the broker has no block of them yet."""
    with socket.create_connection(address) as connection:
        body = struct.pack(">hi", -1, _TIMEOUT_MS)
        connection.sendall(encode_request(_INIT_PRODUCER_ID, body, flexible=False))
        _, _, error, producer_id, _ = struct.unpack(">iihqh", _receive(connection))
        if error not in (0, _COORDINATOR_LOAD_IN_PROGRESS):
            raise RuntimeError(f"InitProducerId: error {error}")
        return None if error else int(producer_id) or None


class _Connection:
    """One leader's connection, with the requests that it is still to be sent."""

    def __init__(self, address: tuple[str, int], requests: Sequence[bytes]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._waiting = deque(requests)
        self._sending = memoryview(b"")
        self._received = b""
        self.in_flight = 0

    @property
    def is_done(self) -> bool:
        return not (self._waiting or self._sending or self.in_flight)

    @property
    def events(self) -> int:
        may_send = self._sending or (self._waiting and self.in_flight < IN_FLIGHT)
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if may_send else 0)

    def send(self) -> None:
        """Send as much as the socket takes."""
        while self._sending or (self._waiting and self.in_flight < IN_FLIGHT):
            if not self._sending:
                self._sending = memoryview(self._waiting.popleft())
                self.in_flight += 1
            try:
                self._sending = self._sending[self.socket.send(self._sending) :]
            except BlockingIOError:
                return

    def receive(self) -> None:
        """Read responses, and check that each accepts its batch."""
        self._received += self.socket.recv(65_536)
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            response, self._received = self._received[4 : 4 + size], self._received[4 + size :]
            name_bytes = struct.unpack_from(">h", response, 8)[0]
            error = struct.unpack_from(">h", response, 10 + name_bytes + 4 + 4)[0]
            if error:
                raise RuntimeError(f"Produce: error {error}")
            self.in_flight -= 1


def replay(job: ReplayJob) -> Replayed:
    """Encode the records, send them, and return what it took once all are acknowledged.

    Raises:
        RuntimeError: a broker rejected a request.
    """
    addresses = {int(number): (host, port) for number, (host, port) in job.leaders.items()}
    producer_id = wait_until(
        lambda: _producer_id(next(iter(addresses.values()))),
        awaiting="a producer id",
        timeout_s=_TIMEOUT_MS / 1000,
    )
    share = job.records // len(addresses)
    queues: dict[tuple[str, int], list[list[bytes]]] = {}
    for partition, address in addresses.items():
        own = requests_of(job, partition, producer_id, share)
        queues.setdefault(address, []).append(list(own))
    connections = [_Connection(address, _in_turn(own)) for address, own in queues.items()]
    with selectors.DefaultSelector() as selector:
        for one in connections:
            selector.register(one.socket, one.events, one)
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        while not all(one.is_done for one in connections):
            for key, events in selector.select():
                one = key.data
                if events & selectors.EVENT_READ:
                    one.receive()
                one.send()
                selector.modify(one.socket, one.events, one)
        seconds, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    for one in connections:
        one.socket.close()
    return Replayed(share * len(addresses), seconds, cpu_s)


def _in_turn(queues: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Return the requests of several partitions, one of each in turn."""
    return [queue[at] for at in range(max(map(len, queues))) for queue in queues if at < len(queue)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(replay(ReplayJob(**json.loads(sys.argv[1]))))))
