"""One librdkafka client: configure and create it, log to a file, destroy it with its context."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from ackbench.experiments.trial.clients.librdkafka.library import (
    NO_ERROR,
    Metadata,
    error_buffer,
    error_text,
    library,
)
from ackbench.experiments.trial.clients.librdkafka.token_refresh import TokenRefresh
from ackbench.experiments.trial.clients.settings.librdkafka import CANONICAL_NAMES
from ackbench.experiments.trial.clients.settings.tokens import TOKEN_COMMAND
from ackbench.experiments.trial.events.clock import anchor_ns
from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.secrets import (
    hide_secrets,
    is_reference,
    is_secret,
    redact,
    resolve_references,
)
from ackbench.infra.process.waiting import wait_until

_LOG_CALLBACK: Final = ctypes.CFUNCTYPE(
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
_INTERCEPTOR_NAME: Final = b"ackbench"

_UNKNOWN_TOPIC_OR_PART: Final = 3
"""RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART."""


class ConfigRejected(HarnessError):
    """librdkafka rejected a setting, or a combination of settings; the text is its own."""


@dataclass(frozen=True)
class Callbacks:
    """The addresses of the C functions that a producer calls for each record."""

    delivery_report: int
    """Called by poll() for a settled record (`dr_msg_cb`)."""
    acknowledgement: int
    """Called by a broker's own thread when a record settles, before any poll()
    (`on_acknowledgement`)."""
    opaque: int
    """The address that both receive."""


class Interceptor(NamedTuple):
    """A C function that a client calls for each record, next to its callbacks (rdkafka.h)."""

    method: str
    """`on_send`: inside produce(), before the partitioner. `on_acknowledgement`: as
    `Callbacks.acknowledgement`. `on_consume`: before the application receives the record."""
    name: str
    """Unique among a client's interceptors."""
    function: int
    """The function's address."""
    opaque: int
    """The address that the function receives."""


class Client:
    """A context manager around `rd_kafka_t`.

    Args:
        kind: `library.PRODUCER` or `library.CONSUMER`.
        settings: all settings to pass. References to secrets are resolved here.
        log: the file that librdkafka's log is appended to; without one nothing is logged.
        callbacks: a producer's callbacks.
        interceptors: what is called in addition.
        prepare: called with the address of the configuration before the client is created from it.
        clock_anchor_ns: epoch = this + monotonic clock, for the log's timestamps. Clients of one
            trial share the trial's anchor, so that their logs have one clock.

    Raises:
        ConfigRejected: librdkafka does not accept these settings.
        OSError: the log file is not writable.
        TokenRefused: a command for tokens gives none.
    """

    def __init__(
        self,
        kind: int,
        settings: Mapping[str, str],
        *,
        log: Path | None = None,
        callbacks: Callbacks | None = None,
        interceptors: Sequence[Interceptor] = (),
        clock_anchor_ns: int | None = None,
        prepare: Callable[[int], None] | None = None,
    ) -> None:
        self._clock_anchor_ns = anchor_ns() if clock_anchor_ns is None else clock_anchor_ns
        self._log_fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if log else None
        self._kept_callbacks: list[Any] = []
        """C holds their addresses, so Python must not free them."""
        self._topic_handles: dict[str, int] = {}
        conf = library().rd_kafka_conf_new()
        try:
            self._references = {
                CANONICAL_NAMES.get(name, name): value
                for name, value in settings.items()
                if is_reference(name, value)
            }
            """Settings with secrets, as passed: the values of the secrets are not recorded."""
            resolved = resolve_references(settings)
            token_command = resolved.pop(TOKEN_COMMAND, None)
            self._secrets = {name: value for name, value in resolved.items() if is_secret(name)}
            self._configure(conf, resolved)
            self._add_callbacks(conf, callbacks, interceptors)
            if prepare is not None:
                prepare(conf)
            self.address = self._new_client(kind, conf)
        except BaseException:
            library().rd_kafka_conf_destroy(conf)
            self._close_log()
            raise
        self._token: TokenRefresh | None = None
        if token_command is not None:
            try:
                self._token = TokenRefresh(self.address, token_command)
            except BaseException:
                self._destroy()
                raise

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Destroy the client; no callback is called after this."""
        self._destroy()

    def _destroy(self) -> None:
        if self._token is not None:
            self._token.close()
        for handle in self._topic_handles.values():
            library().rd_kafka_topic_destroy(handle)
        library().rd_kafka_destroy(self.address)
        self._close_log()

    def topic_handle(self, topic: str) -> int:
        """Return the address of the topic's `rd_kafka_topic_t`; create it on first use."""
        if topic not in self._topic_handles:
            handle = library().rd_kafka_topic_new(self.address, topic.encode(), None)
            if not handle:
                reason = error_text(library().rd_kafka_last_error())
                raise ConfigRejected(f"topic {topic}: {reason}")
            self._topic_handles[topic] = handle
        return self._topic_handles[topic]

    def leaders(self, topic: str, timeout_s: float) -> tuple[int, ...]:
        """Return the leader of each partition of a topic from a broker's metadata; -1 for none.

        Waits while the broker that answers does not know the topic: one that was just unfenced may
        not know it yet, although the other brokers do.

        Raises:
            HarnessError: no broker answered in time, or the topic has an error.
            WaitTimeout: the brokers that answered did not know the topic.
        """
        return wait_until(
            lambda: self._request_leaders(topic, timeout_s),
            awaiting=f"a broker's metadata to include topic {topic}",
            timeout_s=timeout_s,
        )

    def poll(self, timeout_ms: int) -> int:
        """Serve callbacks, waiting up to a timeout for the first; return how many were served."""
        served: int = library().rd_kafka_poll(self.address, timeout_ms)
        return served

    def flush(self, timeout_ms: int) -> None:
        """Send queued records without waiting for linger.ms, and serve reports, up to a timeout."""
        library().rd_kafka_flush(self.address, timeout_ms)

    def effective_settings(self) -> dict[str, str]:
        """Return all settings in effect, librdkafka's defaults and adjustments included.

        From `rd_kafka_conf_dump`; secrets are references.
        """
        topic_conf = library().rd_kafka_default_topic_conf_dup(self.address)
        try:
            topic_settings = _dump_settings(library().rd_kafka_topic_conf_dump, topic_conf)
        finally:
            library().rd_kafka_topic_conf_destroy(topic_conf)
        client_conf = library().rd_kafka_conf(self.address)
        return {
            **hide_secrets(_dump_settings(library().rd_kafka_conf_dump, client_conf)),
            **topic_settings,
            **self._references,
        }

    def fatal_error(self) -> tuple[int, str] | None:
        """Return the code and text of the error that ended the client; `None` if there is none."""
        text = error_buffer()
        code = library().rd_kafka_fatal_error(self.address, text, len(text))
        return None if code == NO_ERROR else (code, text.value.decode(errors="replace"))

    def _request_leaders(self, topic: str, timeout_s: float) -> tuple[int, ...] | None:
        """Return the leaders as one broker reports them; `None` if it does not know the topic."""
        response = ctypes.c_void_p()
        code = library().rd_kafka_metadata(
            self.address, 0, self.topic_handle(topic), ctypes.byref(response), int(timeout_s * 1000)
        )
        if code != NO_ERROR:
            raise HarnessError(
                f"no metadata of topic {topic} within {timeout_s:g} s: {error_text(code)}"
            )
        try:
            return _leaders_in(topic, Metadata.from_address(response.value or 0))
        finally:
            library().rd_kafka_metadata_destroy(response)

    def _configure(self, conf: int, settings: Mapping[str, str]) -> None:
        text = error_buffer()
        set_property = library().rd_kafka_conf_set
        for name, value in settings.items():
            code = set_property(conf, name.encode(), value.encode(), text, len(text))
            if code != NO_ERROR:
                reason = text.value.decode(errors="replace")
                raise ConfigRejected(redact(f"{name}={value}: {reason}", self._secrets))

    def _new_client(self, kind: int, conf: int) -> int:
        text = error_buffer()
        address: int | None = library().rd_kafka_new(kind, conf, text, len(text))
        if not address:
            raise ConfigRejected(redact(text.value.decode(errors="replace"), self._secrets))
        return address

    def _add_callbacks(
        self, conf: int, callbacks: Callbacks | None, interceptors: Sequence[Interceptor]
    ) -> None:
        log_callback = None
        if self._log_fd is not None:
            log_callback = self._keep(_LOG_CALLBACK(self._write_log))
        library().rd_kafka_conf_set_log_cb(conf, log_callback)
        if callbacks is not None:
            library().rd_kafka_conf_set_opaque(conf, callbacks.opaque)
            library().rd_kafka_conf_set_dr_msg_cb(conf, callbacks.delivery_report)
            acknowledgement = Interceptor(
                "on_acknowledgement", "ackbench", callbacks.acknowledgement, callbacks.opaque
            )
            interceptors = (acknowledgement, *interceptors)
        if interceptors:
            on_new = self._keep(_ON_NEW(_adder_of(interceptors)))
            library().rd_kafka_conf_interceptor_add_on_new(conf, _INTERCEPTOR_NAME, on_new, None)

    def _keep(self, callback: Any) -> ctypes.c_void_p:
        self._kept_callbacks.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p)

    def _write_log(self, _client: int, level: int, facility: bytes, text: bytes) -> None:
        if self._log_fd is not None:
            at_ns = self._clock_anchor_ns + time.monotonic_ns()
            if self._secrets:
                text = redact(text.decode(errors="replace"), self._secrets).encode()
            os.write(self._log_fd, b"%d %d %s %s\n" % (at_ns, level, facility, text))

    def _close_log(self) -> None:
        if self._log_fd is not None:
            os.close(self._log_fd)
            self._log_fd = None


def _adder_of(interceptors: Sequence[Interceptor]) -> Callable[[int, int, int, bytes, int], int]:
    """Return an `on_new` callback that adds the interceptors.

    librdkafka accepts them only inside rd_kafka_new(), which calls `on_new`.
    """

    def on_new(client: int, _conf: int, _opaque: int, _text: bytes, _text_bytes: int) -> int:
        for interceptor in interceptors:
            add = getattr(library(), f"rd_kafka_interceptor_add_{interceptor.method}")
            code: int = add(
                client, interceptor.name.encode(), interceptor.function, interceptor.opaque
            )
            if code != NO_ERROR:
                return code
        return NO_ERROR

    return on_new


def _dump_settings(dump: Callable[..., Any], conf: int) -> dict[str, str]:
    """Return a configuration's settings by canonical name.

    Callbacks and pointers are omitted; their names contain an underscore.
    """
    count = ctypes.c_size_t()
    entries = dump(conf, ctypes.byref(count))
    try:
        texts = [entries[index].decode() for index in range(count.value)]
    finally:
        library().rd_kafka_conf_dump_free(entries, count)
    return {
        CANONICAL_NAMES.get(name, name): value
        for name, value in zip(texts[::2], texts[1::2], strict=True)
        if "_" not in name
    }


def _leaders_in(name: str, metadata: Metadata) -> tuple[int, ...] | None:
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
