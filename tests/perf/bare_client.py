"""librdkafka alone: the same records, sent by a compiled loop that keeps nothing but a count.

What the load generator takes in addition is its ledger, its schedule and its values.

    python tests/perf/bare_client.py '{"bootstrap_servers": ..., "topic": ..., ...}'
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from perf.replay import Replayed

from ackbench.experiments.trial.clients.librdkafka import library as librdkafka
from ackbench.experiments.trial.clients.librdkafka.client import Callbacks, Client
from ackbench.experiments.trial.clients.librdkafka.compiled import (
    carray,
    compiled,
    compiled_callback,
    pointer,
    poll,
    produce,
)
from ackbench.experiments.trial.clients.librdkafka.library import ANY_PARTITION, COPY_PAYLOAD

_POLL_EVERY_RECORDS = 64
_KEY_BYTES = 8
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class BareJob:
    """The records to send, and their topic."""

    bootstrap_servers: str
    topic: str
    settings: Mapping[str, str]
    """Of librdkafka."""
    records: int
    record_bytes: int
    keys: int

    def to_json(self) -> str:
        """Return the job as the process gets it."""
        return json.dumps(asdict(self))


@compiled_callback("void(int64, int64, int64)")
def count_settled(_client: Any, _message: Any, settled: Any) -> None:
    """Count a delivery report."""
    carray(pointer(settled), (1,), np.int64)[0] += 1


@compiled_callback("int32(int64, int64, int64)")
def ignore_acknowledgement(_client: Any, _message: Any, _opaque: Any) -> Any:
    """Keep nothing of an acknowledgement."""
    return 0


@compiled("void(int64, int64, int64, int64, int64, int64)")
def send(client: Any, topic: Any, value: Any, value_bytes: Any, keys: Any, records: Any) -> None:
    """Pass all records to librdkafka, whose queue may be full at times."""
    key = np.zeros(_KEY_BYTES, np.uint8)
    for seq in range(records):
        key[_KEY_BYTES - 1] = seq % keys
        while (
            produce(
                topic,
                ANY_PARTITION,
                COPY_PAYLOAD,
                value,
                value_bytes,
                key.ctypes.data,
                _KEY_BYTES,
                seq + 1,
            )
            != 0
        ):
            poll(client, 1)
        if seq % _POLL_EVERY_RECORDS == 0:
            poll(client, 0)


def main(job: BareJob) -> Replayed:
    """Send the records, and return what it took once all are settled."""
    settled, value = np.zeros(1, np.int64), np.zeros(job.record_bytes, np.uint8)
    callbacks = Callbacks(
        count_settled.address, ignore_acknowledgement.address, settled.ctypes.data
    )
    settings = {**job.settings, "bootstrap.servers": job.bootstrap_servers}
    with Client(librdkafka.PRODUCER, settings, callbacks=callbacks) as client:
        client.leaders(job.topic, _TIMEOUT_S)
        topic = client.topic_handle(job.topic)
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        send(client.address, topic, value.ctypes.data, job.record_bytes, job.keys, job.records)
        while settled[0] < job.records:
            client.poll(100)
        seconds, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    return Replayed(job.records, seconds, cpu_s)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(main(BareJob(**json.loads(sys.argv[1]))))))
