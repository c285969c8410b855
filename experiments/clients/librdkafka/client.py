"""One librdkafka client: configured, made, its log in a file, and destroyed for certain."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from experiments.clients.librdkafka.library import (
    NO_ERROR,
    Metadata,
    error_text,
    library,
    text_buffer,
)
from experiments.clients.settings.librdkafka import FIRST_NAME
from experiments.clients.settings.security import filled, is_reference
from experiments.events.clock import anchor_ns
from infra.errors import HarnessError
from infra.process.waiting import wait_until

_LOG: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p
)
_ON_NEW: Final = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_char_p,
    ctypes.c_size_t,
)
_OWN: Final = b"ackbench"

_UNKNOWN_TOPIC_OR_PART: Final = 3
"""RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART."""


class ConfigRejected(HarnessError):
    """librdkafka does not take a setting, or not together with the others; the text is its own."""


@dataclass(frozen=True)
class Callbacks:
    """C functions that a producer calls for each record."""

    delivered: int
    """Called by poll() for a settled record (`dr_msg_cb`)."""
    acknowledged: int
    """Called by a broker's own thread at the moment a record settles, whoever polls (`on_acknowledgement`)."""
    opaque: int
    """The address that both get."""


class Interceptor(NamedTuple):
    """A C function that a client calls for each record, beside its callbacks (rdkafka.h, interceptors)."""

    method: str
    """`on_send`: inside produce(), before the partitioner. `on_acknowledgement`: as `Callbacks.acknowledged`. `on_consume`: before the application gets it."""
    name: str
    """None has two of one name."""
    function: int
    opaque: int
    """The address that it gets."""


class Client:
    """A context manager around `rd_kafka_t`.

    Args:
        kind: `librdkafka.PRODUCER` or `CONSUMER`.
        settings: all that is passed.
        log: the file that librdkafka's log is appended to; without one there is none.
        callbacks: of a producer.
        interceptors: what is called besides.
        prepare: called with the address of the configuration before the client is made of it.
        clock_ns: epoch = this + monotonic clock, in the log; the trial's, so that all its clients tell one time.

    Raises:
        Refused: librdkafka does not take these settings.
        OSError: the log cannot be written.
    """

    def __init__(
        self,
        kind: int,
        settings: Mapping[str, str],
        *,
        log: Path | None = None,
        callbacks: Callbacks | None = None,
        interceptors: Sequence[Interceptor] = (),
        clock_ns: int | None = None,
        prepare: Callable[[int], None] | None = None,
    ) -> None:
        self._clock_ns = anchor_ns() if clock_ns is None else clock_ns
        self._log_fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644) if log else None
        self._kept: list[Any] = []
        """Callbacks that C holds and Python must not free."""
        self._topics: dict[str, int] = {}
        conf = library().rd_kafka_conf_new()
        try:
            self._references = {
                name: value for name, value in settings.items() if is_reference(name, value)
            }
            """What it was told of secrets; their values are nobody's business."""
            self._configure(conf, settings)
            self._add_callbacks(conf, callbacks, interceptors)
            if prepare is not None:
                prepare(conf)
            self.address = _make(kind, conf)
        except BaseException:
            library().rd_kafka_conf_destroy(conf)
            self._close_log()
            raise

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Destroy it: no callback comes after this."""
        for topic in self._topics.values():
            library().rd_kafka_topic_destroy(topic)
        library().rd_kafka_destroy(self.address)
        self._close_log()

    def topic(self, name: str) -> int:
        """Return the address of the topic's handle."""
        if name not in self._topics:
            made = library().rd_kafka_topic_new(self.address, name.encode(), None)
            if not made:
                raise ConfigRejected(f"topic {name}: {error_text(library().rd_kafka_last_error())}")
            self._topics[name] = made
        return self._topics[name]

    def leaders(self, name: str, timeout_s: float) -> tuple[int, ...]:
        """Return the leader of each of the topic's partitions, -1 where there is none, as a broker's metadata tells.

        Raises:
            HarnessError: no broker answered in time, or the one that answered does not know the topic, and did not get to know it.
        """
        awaiting = f"the broker that answers to know topic {name}"
        return wait_until(
            lambda: self._leaders_told(name, timeout_s), awaiting=awaiting, timeout_s=timeout_s
        )

    def _leaders_told(self, name: str, timeout_s: float) -> tuple[int, ...] | None:
        """Return what a broker tells; `None` when it does not know the topic: one that was let in a moment ago may not, though others do."""
        answer = ctypes.c_void_p()
        code = library().rd_kafka_metadata(
            self.address, 0, self.topic(name), ctypes.byref(answer), int(timeout_s * 1000)
        )
        if code != NO_ERROR:
            raise HarnessError(
                f"asked for the metadata of topic {name} for {timeout_s:g} s: {error_text(code)}"
            )
        try:
            return _leaders(name, Metadata.from_address(answer.value or 0))
        finally:
            library().rd_kafka_metadata_destroy(answer)

    def poll(self, timeout_ms: int) -> int:
        """Serve what has come, or wait for it; return how many events it was."""
        served: int = library().rd_kafka_poll(self.address, timeout_ms)
        return served

    def flush(self, timeout_ms: int) -> None:
        """Send what waits for company (linger.ms), and serve reports, for a while."""
        library().rd_kafka_flush(self.address, timeout_ms)

    def effective_settings(self) -> dict[str, str]:
        """Return all of its settings, its own defaults and what it made of them among them (`rd_kafka_conf_dump`)."""
        topic = library().rd_kafka_default_topic_conf_dup(self.address)
        try:
            of_topic = _dumped(library().rd_kafka_topic_conf_dump, topic)
        finally:
            library().rd_kafka_topic_conf_destroy(topic)
        return {
            **_dumped(library().rd_kafka_conf_dump, library().rd_kafka_conf(self.address)),
            **of_topic,
            **self._references,
        }

    def fatal_error(self) -> tuple[int, str] | None:
        """Return the error, with its text, after which the client takes nothing more; `None` while there is none."""
        text = text_buffer()
        code = library().rd_kafka_fatal_error(self.address, text, len(text))
        return None if code == NO_ERROR else (code, text.value.decode(errors="replace"))

    def _configure(self, conf: int, settings: Mapping[str, str]) -> None:
        text = text_buffer()
        for name, value in filled(settings).items():
            if (
                library().rd_kafka_conf_set(conf, name.encode(), value.encode(), text, len(text))
                != NO_ERROR
            ):
                raise ConfigRejected(
                    f"{name}={settings[name]}: {text.value.decode(errors='replace')}"
                )

    def _add_callbacks(
        self, conf: int, callbacks: Callbacks | None, interceptors: Sequence[Interceptor]
    ) -> None:
        library().rd_kafka_conf_set_log_cb(
            conf, self._keep(_LOG(self._write_log)) if self._log_fd is not None else None
        )
        if callbacks is not None:
            library().rd_kafka_conf_set_opaque(conf, callbacks.opaque)
            library().rd_kafka_conf_set_dr_msg_cb(conf, callbacks.delivered)
            interceptors = (
                Interceptor(
                    "on_acknowledgement", "ackbench", callbacks.acknowledged, callbacks.opaque
                ),
                *interceptors,
            )
        if interceptors:
            on_new = self._keep(_ON_NEW(_adds(interceptors)))
            library().rd_kafka_conf_interceptor_add_on_new(conf, _OWN, on_new, None)

    def _keep(self, callback: Any) -> ctypes.c_void_p:
        self._kept.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p)

    def _write_log(self, _client: int, level: int, facility: bytes, text: bytes) -> None:
        if self._log_fd is not None:
            os.write(
                self._log_fd,
                b"%d %d %s %s\n" % (self._clock_ns + time.monotonic_ns(), level, facility, text),
            )

    def _close_log(self) -> None:
        if self._log_fd is not None:
            os.close(self._log_fd)
            self._log_fd = None


def _dumped(dump: Callable[..., Any], conf: int) -> dict[str, str]:
    """Return settings by first name; callbacks and pointers, whose names hold an underscore, left out."""
    count = ctypes.c_size_t()
    words = dump(conf, ctypes.byref(count))
    try:
        texts = [words[index].decode() for index in range(count.value)]
    finally:
        library().rd_kafka_conf_dump_free(words, count)
    return {
        FIRST_NAME.get(name, name): value
        for name, value in zip(texts[::2], texts[1::2], strict=True)
        if "_" not in name
    }


def _make(kind: int, conf: int) -> int:
    text = text_buffer()
    made: int | None = library().rd_kafka_new(kind, conf, text, len(text))
    if not made:
        raise ConfigRejected(text.value.decode(errors="replace"))
    return made


def _adds(interceptors: Sequence[Interceptor]) -> Callable[[int, int, int, bytes, int], int]:
    """The only place where librdkafka lets these be added is inside rd_kafka_new()."""

    def on_new(client: int, _conf: int, _opaque: int, _text: bytes, _text_bytes: int) -> int:
        for one in interceptors:
            add = getattr(library(), f"rd_kafka_interceptor_add_{one.method}")
            code: int = add(client, one.name.encode(), one.function, one.opaque)
            if code != NO_ERROR:
                return code
        return NO_ERROR

    return on_new


def _leaders(name: str, metadata: Metadata) -> tuple[int, ...] | None:
    topic = metadata.topics[0]
    if topic.err == _UNKNOWN_TOPIC_OR_PART:
        return None
    if topic.err != NO_ERROR:
        raise HarnessError(f"topic {name}: {error_text(topic.err)}")
    partitions = [topic.partitions[index] for index in range(topic.partition_cnt)]
    return tuple(
        partition.leader
        for partition in sorted(partitions, key=lambda partition: int(partition.id))
    )
