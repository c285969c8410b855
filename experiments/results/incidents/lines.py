"""Lines of log files of brokers, controllers and clients, whatever their layout.

A line begins with a moment: Kafka's `[2026-11-27 11:08:31,811] INFO ...`, that of an application's
logger, librdkafka's `%4|1700000000.123|...`, or JSON. Lines without one belong to the one before:
stack traces, and the settings that programs print when they start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Final

from ackbench.infra.errors import InputError

MOST_BYTES: Final = 500_000_000
"""Of one file; the rest is left out, and it is said."""
LONGEST_LINE: Final = 4_096
"""In characters; the rest of a line is left out."""
_HEAD: Final = 80
"""A moment stands within so many characters."""
_GZIP: Final = b"\x1f\x8b"
_MOMENT: Final = re.compile(
    r"(?P<day>20\d\d-\d\d-\d\d|20\d\d/\d\d/\d\d)[T ](?P<time>\d\d:\d\d:\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_RDKAFKA: Final = re.compile(r"%[0-7]\|(?P<seconds>\d{9,11})\.(?P<ms>\d{3})\|")
_JSON_TEXT: Final = ("message", "msg", "log")
_JSON_MOMENT: Final = ("@timestamp", "timestamp", "time", "ts")


@dataclass(frozen=True)
class LogLine:
    """One line with its moment."""

    at_s: float
    """Seconds since the epoch, UTC."""
    number: int
    """In its file, from 1 on."""
    text: str


@dataclass
class LogFile:
    """What a reader has to know of a file, once its lines were read."""

    path: Path
    lines: int = 0
    without_zone: bool = False
    """Whether moments have no time zone."""
    left_out_bytes: int = 0
    """Of its end, which was not read."""
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    """What programs printed when they started: values by name, by the head of the list, such as
    `KafkaConfig`."""

    @property
    def name(self) -> str:
        """How lines of it are named."""
        return (
            f"{self.path.parent.name}/{self.path.name}" if self.path.parent.name else str(self.path)
        )

    def read(
        self, zone: timedelta = timedelta(), most_bytes: int = MOST_BYTES
    ) -> Generator[LogLine]:
        """Yield the lines that have a moment.

        Args:
            zone: how far moments without a time zone are ahead of UTC.
            most_bytes: the rest of the file is left out.

        Raises:
            InputError: it cannot be read, or is no text; one line.
        """
        try:
            if not self.path.is_file():
                raise InputError(f"{self.path}: no file")
            size = self.path.stat().st_size
            with self.path.open("rb") as opened:
                if opened.read(2) == _GZIP:
                    raise InputError(f"{self.path}: compressed: unpack it first")
                opened.seek(0)
                try:
                    yield from self._read(opened, zone, most_bytes)
                finally:  # also if the reader has enough
                    self.left_out_bytes = max(0, size - opened.tell())
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})") from error

    def _read(self, opened: BinaryIO, zone: timedelta, most_bytes: int) -> Iterator[LogLine]:
        listed: dict[str, str] | None = None
        last_s: float | None = None
        continued, read_bytes = False, 0
        while raw := opened.readline(LONGEST_LINE):
            read_bytes += len(raw)
            self.lines += continued is False
            if b"\0" in raw:
                raise InputError(f"{self.path}, line {self.lines}: no text")
            continued, was_continued = not raw.endswith(b"\n"), continued
            if was_continued:
                continue
            text = raw.decode("utf-8", "replace").rstrip()
            at_s, text = self._moment(text, zone)
            if at_s is not None:
                listed, last_s = self._list_of(text), at_s
                yield LogLine(at_s, self.lines, text)
            elif listed is not None and (pair := _PAIR.fullmatch(text)):
                listed[pair["name"]] = pair["value"]
            elif last_s is not None and _CAUSE.match(text):
                yield LogLine(last_s, self.lines, text)
            if read_bytes > most_bytes:
                return

    def _list_of(self, text: str) -> dict[str, str] | None:
        head = _LIST.search(text)
        return self.settings.setdefault(head[1], {}) if head else None

    def _moment(self, text: str, zone: timedelta) -> tuple[float | None, str]:
        """Return when a line was written, and what it says."""
        if text.startswith("{"):
            return self._moment_of_json(text, zone)
        if found := _RDKAFKA.search(text[:_HEAD]):
            return int(found["seconds"]) + int(found["ms"]) / 1000, text
        if found := _MOMENT.search(text[:_HEAD]):
            return self._seconds(found, zone), text
        return None, text

    def _moment_of_json(self, text: str, zone: timedelta) -> tuple[float | None, str]:
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return None, text
        if not isinstance(document, dict):
            return None, text
        message = next((str(document[one]) for one in _JSON_TEXT if one in document), text)
        moment = next((str(document[one]) for one in _JSON_MOMENT if one in document), "")
        found = _MOMENT.search(moment) or _MOMENT.search(message[:_HEAD])
        return (self._seconds(found, zone) if found else None), message

    def _seconds(self, found: re.Match[str], zone: timedelta) -> float | None:
        try:
            moment = datetime.strptime(
                f"{found['day'].replace('/', '-')} {found['time']}", "%Y-%m-%d %H:%M:%S"
            ).replace(tzinfo=UTC)
        except ValueError:
            return None
        written = found["zone"]
        if written is None:
            self.without_zone, ahead = True, zone
        else:
            ahead = zone_of(written)
        fraction = float(f"0.{found['fraction'] or 0}")
        return moment.timestamp() + fraction - ahead.total_seconds()


_LIST: Final = re.compile(r"\b(\w+Config) values:")
"""Kafka's programs print their settings when they start, one below the other."""
_CAUSE: Final = re.compile(r"(?:Caused by: )?[\w.$]+(?:Exception|Error)\b")
"""How the first line of a stack trace begins."""
_PAIR: Final = re.compile(r"\t(?P<name>[\w.-]+) = (?P<value>.*)")


def zone_of(text: str) -> timedelta:
    """Return how far a time zone, `Z` or `+02:00`, is ahead of UTC.

    Raises:
        InputError: it is neither.
    """
    if text == "Z":
        return timedelta()
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", text)
    if not found:
        raise InputError(f"time zone {text!r}; allowed: Z, or hours as in +02:00")
    ahead = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return -ahead if found[1] == "-" else ahead
