"""The process that tries out a librdkafka of another version; `versions` starts it.

It sends a record to librdkafka's own mock cluster, asks for its metadata, and compares what the C
structures hold with what was sent: so a version with another layout is found before a trial reads
nonsense. It prints one line of JSON: the fields of `versions.LibraryVersion` that it knows.
"""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import CFUNCTYPE, POINTER, c_void_p, cast
from typing import Final

from ackbench.experiments.messages.errors import ClientLibraryError
from ackbench.experiments.trial.clients.librdkafka.library import (
    COPY_PAYLOAD,
    NO_ERROR,
    PRODUCER,
    ListedPartition,
    Message,
    Metadata,
    PartitionList,
    error_buffer,
    lacking_functions,
    library,
    version,
)
from ackbench.experiments.trial.clients.librdkafka.properties import table_rows
from ackbench.infra.process.waiting import wait_until

_TOPIC: Final = b"probe"
_KEY, _VALUE, _OPAQUE, _PARTITION = b"key of it", b"value of the record", 4711, 1
_SETTINGS: Final = {
    b"test.mock.num.brokers": b"1",
    b"bootstrap.servers": b"127.0.0.1:1",
    b"message.timeout.ms": b"20000",
}
_TIMEOUT_S: Final = 30.0
_Report = tuple[int, int, bytes, bytes, int, int | None]
_REPORT: Final = CFUNCTYPE(None, c_void_p, POINTER(Message), c_void_p)


def main() -> None:
    """Print what is known of the library, or raise what is wrong with it."""
    reports: list[_Report] = []
    callback = _REPORT(lambda _client, message, _: reports.append(_read_report(message.contents)))
    client = _new_client(cast(callback, c_void_p))
    _compare_partition_list()
    _compare_report(client, reports)
    _compare_metadata(client)
    library().rd_kafka_destroy(client)
    described = {
        "version": version(),
        "lacks": lacking_functions(library()),
        "properties": table_rows(),
    }
    sys.stdout.write(json.dumps(described))


def _new_client(delivery_report: c_void_p) -> int:
    text, conf = error_buffer(), library().rd_kafka_conf_new()
    for name, value in _SETTINGS.items():
        if library().rd_kafka_conf_set(conf, name, value, text, len(text)):
            raise ClientLibraryError(f"it has no {name.decode()}: {text.value.decode()}")
    library().rd_kafka_conf_set_log_cb(conf, None)
    library().rd_kafka_conf_set_dr_msg_cb(conf, delivery_report)
    client: int | None = library().rd_kafka_new(PRODUCER, conf, text, len(text))
    if not client:
        raise ClientLibraryError(text.value.decode())
    return client


def _read_report(message: Message) -> _Report:
    return (
        message.err,
        message.partition,
        ctypes.string_at(message.key, message.key_len),
        ctypes.string_at(message.payload, message.len),
        message.offset,
        message._private,  # noqa: SLF001 - rdkafka.h's name
    )


def _compare_report(client: int, reports: list[_Report]) -> None:
    """Compare the fields of a delivery report with those of the record."""
    topic = library().rd_kafka_topic_new(client, _TOPIC, None)
    sent = library().rd_kafka_produce(
        topic, _PARTITION, COPY_PAYLOAD, _VALUE, len(_VALUE), _KEY, len(_KEY), _OPAQUE
    )
    if sent != 0:
        raise ClientLibraryError("its producer refuses a record for its mock cluster")
    wait_until(
        lambda: library().rd_kafka_poll(client, 100) > 0 and reports,
        awaiting="the delivery report of a record",
        timeout_s=_TIMEOUT_S,
    )
    library().rd_kafka_topic_destroy(topic)
    _require("rd_kafka_message_t", reports[0], (NO_ERROR, _PARTITION, _KEY, _VALUE, 0, _OPAQUE))


def _compare_partition_list() -> None:
    partitions = library().rd_kafka_topic_partition_list_new(1)
    library().rd_kafka_topic_partition_list_add(partitions, _TOPIC, _PARTITION)
    library().rd_kafka_topic_partition_list_set_offset(partitions, _TOPIC, _PARTITION, _OPAQUE)
    listed = PartitionList.from_address(partitions)
    element: ListedPartition = listed.elems[0]
    found = (listed.cnt, element.topic, element.partition, element.offset, element.err)
    library().rd_kafka_topic_partition_list_destroy(partitions)
    _require("rd_kafka_topic_partition_t", found, (1, _TOPIC, _PARTITION, _OPAQUE, NO_ERROR))


def _compare_metadata(client: int) -> None:
    response = c_void_p()
    code = library().rd_kafka_metadata(client, 1, None, ctypes.byref(response), 10_000)
    if code != NO_ERROR:
        raise ClientLibraryError(f"its mock cluster answers no metadata: error {code}")
    metadata = Metadata.from_address(response.value or 0)
    topics = {
        metadata.topics[index].topic: [
            metadata.topics[index].partitions[number].id
            for number in range(metadata.topics[index].partition_cnt)
        ]
        for index in range(metadata.topic_cnt)
    }
    found = (metadata.broker_cnt, [*topics], _PARTITION in topics.get(_TOPIC, ()))
    library().rd_kafka_metadata_destroy(response)
    _require("rd_kafka_metadata_t", found, (1, [_TOPIC], True))


def _require(structure: str, found: object, sent: object) -> None:
    if found != sent:
        raise ClientLibraryError(f"its {structure} has another layout: {found} instead of {sent}")


if __name__ == "__main__":
    main()
