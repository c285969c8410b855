"""The process that `settings_check` asks: it creates a producer with settings and destroys it.

It imports nothing of the project, so that it starts in a few milliseconds with `python -I -S`. Its
argument is the path of the librdkafka library. It answers each line of settings on its stdin, a
socket, with one line: librdkafka's reason for rejecting them, or null.
"""

from __future__ import annotations

import ctypes
import json
import resource
import socket
import sys

_TEXT_BYTES = 512
_PRODUCER = 0
"""RD_KAFKA_PRODUCER."""


def main() -> None:
    """Answer until the other end of the socket is closed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    library = load(sys.argv[1])
    with socket.socket(fileno=0).makefile("rwb") as asking:
        for line in asking:
            asking.write(json.dumps(refusal(library, json.loads(line))).encode() + b"\n")
            asking.flush()


def load(path: str) -> ctypes.CDLL:
    """Return librdkafka with the types of the functions that are called here."""
    library = ctypes.CDLL(path)
    address, text = ctypes.c_void_p, ctypes.c_char_p
    library.rd_kafka_conf_new.restype = address
    library.rd_kafka_conf_destroy.argtypes = [address]
    library.rd_kafka_conf_set_log_cb.argtypes = [address, address]
    library.rd_kafka_conf_set.argtypes = [address, text, text, text, ctypes.c_size_t]
    library.rd_kafka_new.restype = address
    library.rd_kafka_new.argtypes = [ctypes.c_int, address, text, ctypes.c_size_t]
    library.rd_kafka_destroy.argtypes = [address]
    return library


def refusal(library: ctypes.CDLL, settings: dict[str, str]) -> str | None:
    """Return librdkafka's reason for rejecting a producer's settings; `None` if it accepts them."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    conf = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set_log_cb(conf, None)
    for name, value in settings.items():
        if library.rd_kafka_conf_set(conf, name.encode(), value.encode(), text, len(text)):
            library.rd_kafka_conf_destroy(conf)
            return f"{name}={value}: {text.value.decode(errors='replace')}"
    client = library.rd_kafka_new(_PRODUCER, conf, text, len(text))
    if not client:
        library.rd_kafka_conf_destroy(conf)
        return text.value.decode(errors="replace")
    library.rd_kafka_destroy(client)
    return None


if __name__ == "__main__":
    main()
