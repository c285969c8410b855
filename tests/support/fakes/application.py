"""An application that copies records from one topic to another, in one of three ways.

`at-least-once` produces, then commits. `exactly-once` does both in one transaction. The planted
defect `commits-first` commits, takes a while, and only then produces: a crash loses what it was at.

A second argument says what it makes of a record: `as-it-is` (the default), another value `with its
headers`, `with its key` or with `its order` out of the JSON that it reads, or `nothing of it`.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer

_WORK_S: Final = 5.0
_BATCH: Final = 200
_TIMEOUT_S: Final = 0.2


def main(delivery: str, made: str = "as-it-is") -> None:
    """Copy until SIGTERM."""
    stopped: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    address, group = os.environ["ACKBENCH_BOOTSTRAP"], os.environ["ACKBENCH_GROUP"]
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            "isolation.level": "read_committed",
        }
    )
    settings = {"bootstrap.servers": address, "enable.idempotence": True}
    if delivery == "exactly-once":
        settings["transactional.id"] = f"{group}-{os.environ['ACKBENCH_INSTANCE']}"
    producer = Producer(settings)
    if delivery == "exactly-once":
        producer.init_transactions()
    copy = {
        "at-least-once": at_least_once,
        "exactly-once": exactly_once,
        "commits-first": commits_first,
    }[delivery]
    consumer.subscribe([os.environ["ACKBENCH_INPUT"]])
    while not stopped:
        batch = [one for one in consumer.consume(_BATCH, _TIMEOUT_S) if not one.error()]
        if batch:
            copy(consumer, producer, partial(produce, producer, batch, made))
    consumer.close()


def produce(producer: Producer, batch: list[Message], made: str) -> None:
    """Copy records, and wait until they are stored."""
    for message in batch:
        producer.produce(os.environ["ACKBENCH_OUTPUT"], **MADE[made](message))
    producer.flush()


MADE: Final[dict[str, Callable[[Message], dict[str, Any]]]] = {
    "as-it-is": lambda read: {"value": read.value(), "key": read.key()},
    "with its headers": lambda read: {"value": b"another", "headers": read.headers()},
    "with its key": lambda read: {"value": b"another", "key": read.key()},
    "its order": lambda read: {"value": order_of(read.value() or b"")},
    "nothing of it": lambda _: {"value": b"another"},
}


def order_of(value: bytes) -> bytes:
    """Return an order with another amount, in another format."""
    order = json.loads(value)
    return f"<order id='{order['order']}' amount='{order['amount'] + 1}'/>".encode()


def at_least_once(consumer: Consumer, _: Producer, copied: Callable[[], None]) -> None:
    """A crash between the two steps repeats the batch."""
    copied()
    consumer.commit(asynchronous=False)


def commits_first(consumer: Consumer, _: Producer, copied: Callable[[], None]) -> None:
    """A crash between the two steps loses the batch."""
    consumer.commit(asynchronous=False)
    time.sleep(_WORK_S)
    copied()


def exactly_once(consumer: Consumer, producer: Producer, copied: Callable[[], None]) -> None:
    """A crash between the two steps aborts both."""
    producer.begin_transaction()
    copied()
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata()
    )
    producer.commit_transaction()


if __name__ == "__main__":
    main(*sys.argv[1:])
