"""Parts that the three Python adapters share: options, settings, schedule and output lines.

`docs/clients.md` specifies the options and the lines.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Parser = Callable[[str], Any]
Setting = tuple[str, Parser]
"""The library's name of a setting, and the function that parses its value."""

_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_LONGEST_SLEEP_S = 0.1


class InvalidSettingError(Exception):
    """A property that the library cannot do; the adapter exits with code 2."""


@dataclass(frozen=True)
class Options:
    """The command line, and the properties of the `--command-config` file."""

    role: str
    bootstrap_server: str
    topic: str
    max_messages: int
    """-1: no limit."""
    throughput: float
    """Records per second; 0 or less: as fast as possible."""
    value_prefix: str | None
    repeating_keys: int | None
    group_id: str | None
    enable_autocommit: bool
    properties: Mapping[str, str]

    def key(self, number: int) -> str | None:
        """Return the key of a record."""
        return str(number % self.repeating_keys) if self.repeating_keys else None

    def value(self, number: int) -> str:
        """Return the value of a record."""
        return str(number) if self.value_prefix is None else f"{self.value_prefix}.{number}"


def read_options() -> Options:
    """Return the options of the command line; block until the configuration file is complete.

    The file may be a FIFO. It is opened once.
    """
    parser = argparse.ArgumentParser()
    roles = parser.add_subparsers(dest="role", required=True)
    for role in ("producer", "consumer"):
        options = roles.add_parser(role)
        options.add_argument("--bootstrap-server", required=True)
        options.add_argument("--topic", required=True)
        options.add_argument("--command-config", type=Path)
        options.add_argument("--max-messages", type=int, default=-1)
        options.add_argument("--throughput", type=float, default=-1)
        options.add_argument("--value-prefix")
        options.add_argument("--repeating-keys", type=int)
        options.add_argument("--group-id", required=role == "consumer")
        options.add_argument("--verbose", action="store_true")
        options.add_argument("--enable-autocommit", action="store_true")
    given = vars(parser.parse_args())
    file = given.pop("command_config")
    del given["verbose"]  # record_data is always written.
    return Options(**given, properties=_properties(file.read_text()) if file else {})


def _properties(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def known_settings(
    role: str, library_name: Callable[[str], str], own: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Return the settings that the library has, by Kafka's names: those of `adapter.json`.

    Args:
        role: producer or consumer.
        library_name: returns the library's name of a property.
        own: settings whose names or values are others than by that rule.
    """
    names: Mapping[str, str] = _adapter()[role]
    return {name: own.get(name) or (library_name(name), _PARSERS.get(name, int)) for name in names}


def snake_case(name: str) -> str:
    """Return a property's name with underscores, as kafka-python and its kin have it."""
    return name.replace(".", "_")


def library_settings(properties: Mapping[str, str], known: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the library's settings for Kafka's properties.

    Args:
        properties: Kafka's names and values.
        known: as of `known_settings`.

    Raises:
        InvalidSettingError: a property is unknown, or its value is not allowed.
    """
    settings = {}
    for name, value in properties.items():
        if name not in known:
            raise InvalidSettingError(f"unknown property {name}={value}")
        library_name, parse = known[name]
        try:
            settings[library_name] = parse(value)
        except ValueError as error:
            raise InvalidSettingError(f"invalid property {name}={value}: {error}") from error
    return settings


def effective_settings(options: Options, version: str) -> dict[str, str]:
    """Return the settings in effect by Kafka's names, as far as they are known.

    `adapter.json` has the defaults of one release of the library; another may have others.
    """
    adapter = _adapter()
    defaults = adapter[options.role] if version == adapter["version"] else {}
    settings: dict[str, str] = {name: value for name, value in defaults.items() if value}
    settings.update(options.properties)
    return settings


def _adapter() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(Path(__file__).with_name("adapter.json").read_text())
    return described


def boolean(value: str) -> bool:
    """Parse a boolean property."""
    return one_of("true", "false")(value.lower()) == "true"


def acks(value: str) -> int | str:
    """Parse `acks`: 0, 1 or "all"."""
    value = one_of("0", "1", "-1", "all")(value)
    return "all" if value in {"-1", "all"} else int(value)


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a parser that allows these values only."""

    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"not one of {', '.join(allowed)}")
        return value

    return parse


def pure_python_codec(value: str) -> str | None:
    """Parse a compression codec; the others than gzip need further packages."""
    return None if one_of("none", "gzip")(value) == "none" else value


def assignors(value: str) -> list[str]:
    """Return the protocol names of a list of Java's assignors, as `range`."""
    names = [name.strip().rpartition(".")[2] for name in value.split(",")]
    return [_ASSIGNORS.get(name, name) for name in names]


_PARSERS: dict[str, Parser] = {
    "acks": acks,
    "auto.offset.reset": one_of("earliest", "latest", "none"),
    "check.crcs": boolean,
    "client.id": str,
    "client.rack": str,
    "enable.auto.commit": boolean,
    "enable.idempotence": boolean,
    "group.instance.id": str,
    "isolation.level": one_of("read_committed", "read_uncommitted"),
}
"""By Kafka's name of a property; all others are whole numbers."""


class StopRequest:
    """True after SIGTERM or SIGINT.

    Made after the options were read: a signal still ends a program that waits for its FIFO.
    """

    def __init__(self) -> None:
        self._requested = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request)

    def _request(self, *_: object) -> None:
        self._requested = True

    def __bool__(self) -> bool:
        return self._requested


def due_records(
    options: Options, stop: StopRequest, wait: Callable[[float], Any] = time.sleep
) -> Iterator[int]:
    """Yield each record's number when it is due, at start + number / throughput.

    Args:
        options: of the producer.
        stop: ends the schedule.
        wait: waits for so many seconds at most.
    """
    start = time.monotonic()
    number = 0
    while number != options.max_messages:
        while (left_s := due_in_s(options, start, number)) > 0 and not stop:
            wait(left_s)
        if stop:
            return
        yield number
        number += 1


def due_in_s(options: Options, start: float, number: int) -> float:
    """Return for how long to wait for a record; at most so long that a stop is soon noticed.

    Args:
        options: of the producer.
        start: when record 0 was due, by `time.monotonic()`.
        number: of the record.
    """
    after_start_s = number / options.throughput if options.throughput > 0 else 0
    return min(start + after_start_s - time.monotonic(), _LONGEST_SLEEP_S)


def line(name: str, **fields: Any) -> Line:
    """Return an output line with the present time."""
    return {"timestamp": time.time_ns() // 1_000_000, "name": name, **fields}


_stdout_lock = threading.Lock()


def emit(*lines: Line) -> None:
    """Write whole lines to standard output at once; end the program if that is not possible.

    Libraries log exceptions of callbacks and go on, which would lose outcomes.
    """
    text = "".join(json.dumps(line) + "\n" for line in lines)
    try:
        with _stdout_lock:
            sys.stdout.write(text)
            sys.stdout.flush()
    except OSError as error:
        sys.stderr.write(f"standard output: {error}\n")
        os._exit(1)


@dataclass
class SentRecord:
    """A record that was given to the library; reports its outcome."""

    topic: str
    key: str | None
    value: str
    sent_ns: int

    def acknowledged(self, partition: int, offset: int | None) -> None:
        """Report the library's success; the offset is -1 where the library knows none."""
        known = offset if offset is not None and offset >= 0 else -1
        emit(line("producer_send_success", **self._fields(), partition=partition, offset=known))

    def failed(
        self, exception: str, message: str, code: int | None = None, *, rejected: bool = False
    ) -> None:
        """Report the library's error.

        Args:
            exception: the error's name.
            message: its text.
            code: Kafka's error number.
            rejected: the record never left the application: no attempt can have been stored.
        """
        extra: dict[str, Any] = {"outcome": "rejected"} if rejected else {}
        if code is not None and code > 0:
            extra["code"] = code
        emit(
            line(
                "producer_send_error",
                **self._fields(),
                exception=exception,
                message=message,
                **extra,
            )
        )

    def _fields(self) -> dict[str, Any]:
        return vars(self) | {"acked_ns": time.time_ns()}


def record_data(
    topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None
) -> Line:
    """Return the line of a consumed record."""
    return line(
        "record_data",
        topic=topic,
        partition=partition,
        offset=offset,
        key=_text(key),
        value=_text(value),
        received_ns=time.time_ns(),
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def emit_records(records: Sequence[Line]) -> None:
    """Write the lines of a poll's records, and their summary; write nothing if there are none."""
    if not records:
        return
    offsets: dict[tuple[str, int], list[int]] = {}
    for record in records:
        offsets.setdefault((record["topic"], record["partition"]), []).append(record["offset"])
    partitions = [
        {
            "topic": topic,
            "partition": partition,
            "count": len(of_partition),
            "minOffset": min(of_partition),
            "maxOffset": max(of_partition),
        }
        for (topic, partition), of_partition in offsets.items()
    ]
    emit(*records, line("records_consumed", count=len(records), partitions=partitions))


def emit_commit(offsets: Mapping[tuple[str, int], int], error: object = None) -> None:
    """Write the result of a commit.

    Args:
        offsets: the next offset to read, for each topic and partition.
        error: the library's; `None` if the commit succeeded.
    """
    emit(
        line(
            "offsets_committed",
            success=error is None,
            error=None if error is None else str(error),
            offsets=[
                {"topic": topic, "partition": partition, "offset": offset}
                for (topic, partition), offset in offsets.items()
            ],
        )
    )


def emit_assignment(change: str, partitions: Sequence[tuple[str, int]]) -> None:
    """Write that partitions were `assigned` or `revoked`.

    Clients name no partition where a member gets none, or revokes none before its first one.
    """
    if change == "revoked" and not partitions:
        return
    listed = [{"topic": topic, "partition": partition} for topic, partition in partitions]
    emit(line(f"partitions_{change}", partitions=listed))


def run(main: Callable[[], None]) -> None:
    """Run an adapter and exit: with code 2 for an invalid setting, 1 for any other error."""
    code = 0
    try:
        main()
    except InvalidSettingError as error:
        sys.stderr.write(f"{error}\n")
        code = 2
    except Exception:  # noqa: BLE001 - the report of any error is the exit code
        traceback.print_exc()
        code = 1
    # A library's threads neither keep the process alive nor write after the reason: the heartbeat
    # thread of kafka-python 2.2 may outlive the consumer's close().
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
