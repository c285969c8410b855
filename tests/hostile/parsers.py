"""Random edits of what a stranger sends or stores, for every parser of ackbench that reads it.

The law: a parser returns, or raises an error of one line, within `LIMIT_S`.
"""

from __future__ import annotations

import random
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow.fs as pafs
from hostile.figures import Figures
from hostile.fuzzing import LIMIT_S, TimeLimitExceeded, time_limit
from support.builders.records import a_spec
from support.builders.sweep_folders import measured_sweep_folder

from ackbench.experiments.ledger.digests import (
    InvalidLedger,
    digest_of,
    with_digest,
    without_digest,
)
from ackbench.experiments.ledger.planned import PLAN, parse_planned
from ackbench.experiments.ledger.results_manifest import ResultsManifest, parse_results_manifest
from ackbench.experiments.ledger.trial_manifest import TRIAL_MANIFEST, parse_trial_manifest
from ackbench.experiments.ledger.validation import validate_trial
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.results.rows import read_table
from ackbench.experiments.trial.clients.java.log import read_java_log
from ackbench.experiments.trial.clients.librdkafka.log import read_client_log
from ackbench.infra.errors import AckbenchError
from ackbench.infra.kafka import addresses, wire
from ackbench.infra.kafka.api_versions import read_features
from ackbench.infra.kafka.frames import FrameSplitter, read_transactional_request
from ackbench.infra.kafka.logs import read_broker_log
from ackbench.infra.machine.home import Home

Parse = Callable[[bytes], object]
_REFUSALS: Final = (AckbenchError, InvalidLedger, LedgerError)
_TRIAL, _TOPIC, _AT_NS = "000-aaaaa0", "orders", 1_795_263_366_000_000_000
_MOST_EDITS: Final = 4
_BYTES: Final = (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff" * 5, b"\xff" * 4_096)
_WORDS: Final = (b"[" * 50_000, b'{"a":' * 50_000, b"\\ud800", b"1e999", b"9" * 5_000, b"\n", b"-")
_BROKER_LOG: Final = (
    "[2026-11-21T12:24:54,612Z] INFO [QuorumController id=1] Fencing broker 3 at epoch 11 because "
    "its session has timed out. (org.apache.kafka.controller.ReplicationControlManager)\n"
    f"[2026-11-21T12:24:57,290Z] INFO [Partition {_TOPIC}-0 broker=1] ISR updated to 2,1,3  and "
    "version updated to 2 (kafka.cluster.Partition)\n"
    f"[2026-11-21T12:24:57,093Z] INFO [UnifiedLog partition={_TOPIC}-0, dir=/data] Truncating to "
    "offset 15103 (org.apache.kafka.storage.internals.log.UnifiedLog)\n"
)
_CLIENT_LOG: Final = (
    f"{_AT_NS} 7 BROKER [thrd:main]: {_TOPIC} [0]: leader 3 epoch 0 -> leader 1 epoch 1\n"
    f"{_AT_NS} 4 REQTMOUT [thrd:127.0.0.1:21753/1]: 127.0.0.1:21753/1: Timed out 42 in-flight, "
    "0 retry-queued, 0 out-queue, 0 partially-sent requests\n"
    f"{_AT_NS} 4 FAIL [thrd:127.0.0.1:21759/3]: 127.0.0.1:21759/3: Disconnected: connection reset "
    "by peer (after 3660ms in state UP)\n"
)
_JAVA_LOG: Final = (
    "[2026-11-21T15:36:31,062Z] INFO [Producer clientId=p] Disconnecting from node 3 due to "
    "request timeout. (org.apache.kafka.clients.NetworkClient)\n"
    "[2026-11-21T15:36:31,071Z] INFO [Producer clientId=p] Cancelled in-flight PRODUCE request "
    "with correlation id 9 due to node 3 being disconnected (elapsed time since creation: 1008ms) "
    "(org.apache.kafka.clients.NetworkClient)\n"
    "[2026-11-21T15:36:32,000Z] INFO [Producer clientId=p] Node 3 disconnected. "
    "(org.apache.kafka.clients.NetworkClient)\n"
)


def run(count: int, seed: int, say: Callable[[str], None]) -> Figures:
    """Give `count` edited inputs to each parser, and print the figures of each."""
    began_s, failures, tried = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (parse, samples) in _parsers(Home(Path(folder))).items():
            found = list(_failures(name, parse, samples, random.Random(f"{seed}.{name}"), count))  # noqa: S311 - seeded on purpose
            hangs = sum(kind is TimeLimitExceeded for kind, _ in found)
            say(f"{name}: {count:,} inputs, {len(found) - hangs} exceptions, {hangs} hangs")
            failures += [line for _, line in found]
            tried += count
    return Figures(
        "inputs of parsers",
        f"read, or one line, within {LIMIT_S:.0f} s of CPU time",
        tried,
        tuple(failures),
        time.monotonic() - began_s,
    )


def _failures(
    name: str, parse: Parse, samples: Sequence[bytes], chooser: random.Random, count: int
) -> Iterator[tuple[type[BaseException], str]]:
    for number in range(count):
        content = _edited(chooser.choice(samples), chooser)
        try:
            with time_limit():
                parse(content)
        except _REFUSALS as error:
            if len(str(error).splitlines()) > 1:
                yield type(error), f"{name} {number}: several lines: {str(error)[:200]!r}"
        except TimeLimitExceeded as error:
            yield type(error), f"{name} {number}: took more than {LIMIT_S:.0f} s of CPU time"
        except Exception as error:  # noqa: BLE001 - any other exception is a finding
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename}:{place.lineno}"
            yield type(error), f"{name} {number}: {type(error).__name__}: {error!s:.120} at {where}"


def _edited(content: bytes, chooser: random.Random) -> bytes:
    """Return some bytes after edits: replaced, inserted, cut out, repeated, cut off."""
    for _ in range(chooser.randint(1, _MOST_EDITS)):
        begin = chooser.randrange(len(content) + 1)
        end = min(begin + chooser.choice((0, 1, 1, 2, 4, 30)), len(content))
        piece = chooser.choice(
            (
                b"",
                chooser.randbytes(max(end - begin, 1)),
                chooser.choice(_BYTES),
                chooser.choice(_WORDS),
                content[begin:end] * chooser.randint(2, 50),
            )
        )
        content = content[:begin] + piece + content[end:]
        if not chooser.randrange(6):
            content = content[: chooser.randrange(len(content) + 1)]
    return content


def _parsers(home: Home) -> Mapping[str, tuple[Parse, Sequence[bytes]]]:
    """Return each parser by name, with samples of what it can read."""
    sweep = measured_sweep_folder(
        home,
        "fuzzed",
        [a_spec(trial_id=f"000-aaaaa{repeat}", repeat=repeat) for repeat in (0, 1)],
        lambda _: {},
    )
    trial = sweep.trial(_TRIAL)
    plan, _ = without_digest((sweep.root / PLAN).read_bytes())
    record, _ = without_digest((trial / TRIAL_MANIFEST).read_bytes())
    manifest, _ = without_digest(_manifest().to_json().encode())
    return {
        "frames": (_split, [_frame(_metadata()), *_requests()]),
        "requests": (read_transactional_request, _requests()),
        "Metadata": (wire.read_metadata, [_metadata()]),
        "ApiVersions": (read_features, [_features()]),
        "quorum": (wire.read_quorum, [_quorum()]),
        "ListOffsets": (wire.read_list_offsets, [_offsets()]),
        "reassignment": (wire.read_reassignment, [_reassigned()]),
        "leader candidates": (wire.read_leader_candidates, [_candidates()]),
        "relayed responses": (_relay, [_frame(_metadata()), _frame(_offsets())]),
        "brokers' logs": (
            lambda text: read_broker_log(_text(text), 1, _TOPIC),
            _lines(_BROKER_LOG),
        ),
        "librdkafka's logs": (
            lambda text: list(read_client_log(_text(text), "producer", _TOPIC)),
            _lines(_CLIENT_LOG),
        ),
        "Java clients' logs": (
            lambda text: list(read_java_log(_text(text), "producer", _TOPIC, 0)),
            _lines(_JAVA_LOG),
        ),
        "trial.json": (lambda content: parse_trial_manifest(_sealed(content), _TRIAL), [record]),
        "plan.json": (
            lambda content: _with_file(sweep.root / PLAN, _sealed(content), sweep.plan),
            [plan],
        ),
        "planned trials": (lambda content: parse_planned(_sealed(content)), [plan]),
        "manifest.json": (lambda content: parse_results_manifest(_sealed(content)), [manifest]),
        "ledgers": (
            lambda content: _with_file(
                trial / "attempts.parquet",
                content,
                lambda: validate_trial(pafs.LocalFileSystem(), str(trial)),
            ),
            [(trial / "attempts.parquet").read_bytes()],
        ),
        "result tables": (
            lambda content: _with_file(
                sweep.results / "trials.parquet", content, lambda: read_table(sweep, "trials")
            ),
            [(sweep.results / "trials.parquet").read_bytes()],
        ),
    }


def _with_file(path: Path, content: bytes, read: Callable[[], object]) -> object:
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return read()


def _sealed(content: bytes) -> bytes:
    """Return an edited document with the digest that its editor would give it."""
    return with_digest(_text(content)).encode()


def _manifest() -> ResultsManifest:
    return ResultsManifest(
        tables={"trials.parquet": digest_of(b"")}, trials={_TRIAL: "0" * 64}, left_out={"x": "torn"}
    )


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _lines(log: str) -> Sequence[bytes]:
    return [log.encode(), *(line.encode() for line in log.splitlines())]


def _split(content: bytes) -> None:
    splitter = FrameSplitter()
    for begin in range(0, len(content), 1_000):
        splitter.split(content[begin : begin + 1_000])


def _relay(frame: bytes) -> None:
    for api_key, newest in addresses.NEWEST_READABLE.items():
        for version in range(newest + 1):
            request = addresses.RequestHead(api_key, version, 1)
            try:
                addresses.replace_addresses(frame, request, lambda *_: ("127.0.0.1", 9092))
            except AckbenchError:
                continue


def _frame(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def _requests() -> Sequence[bytes]:
    return [
        _frame(struct.pack(">hhih", api, version, 7, 1) + b"c\x00" + wire.compact_string("tx-1"))
        for api, version in ((0, 9), (24, 3), (26, 3), (28, 3))
    ]


def _metadata() -> bytes:
    """Return a response of one broker and a topic with a partition (version 12)."""
    ids = wire.compact_array(struct.pack(">i", number) for number in (1, 2))
    partition = struct.pack(">hiii", 0, 0, 1, 7) + ids + ids + b"\x01\x00"
    topic = struct.pack(">h", 0) + wire.compact_string(_TOPIC) + bytes(17)
    topic += wire.compact_array([partition]) + struct.pack(">ib", -1, 0)
    broker = struct.pack(">i", 1) + wire.compact_string("127.0.0.1") + struct.pack(">i", 9092)
    return (
        struct.pack(">ibi", 1, 0, 0)
        + wire.compact_array([broker + b"\x00\x00"])
        + wire.compact_string("cluster")
        + struct.pack(">i", 1)
        + wire.compact_array([topic])
        + b"\x00"
    )


def _features() -> bytes:
    """Return a response with an API and a supported feature (version 3)."""
    feature = wire.compact_string("metadata.version") + struct.pack(">hh", 7, 30) + b"\x00"
    tagged = wire.compact_array([feature])
    return (
        struct.pack(">ih", 1, 0)
        + wire.compact_array([struct.pack(">hhh", 18, 0, 4) + b"\x00"])
        + struct.pack(">i", 0)
        + bytes([1, 0, len(tagged)])
        + tagged
    )


def _quorum() -> bytes:
    topic = b"\x13__cluster_metadata\x02" + struct.pack(">ihii", 0, 0, 3, 42)
    return struct.pack(">ibh", 1, 0, 0) + b"\x02" + topic


def _offsets() -> bytes:
    """Return a response with the log end offset of a partition (version 1)."""
    topic = struct.pack(">h", len(_TOPIC)) + _TOPIC.encode()
    return struct.pack(">ii", 1, 1) + topic + struct.pack(">iihqq", 1, 0, 0, -1, 42)


def _reassigned() -> bytes:
    """Return a response that refuses to reassign a partition."""
    partition = struct.pack(">ih", 3, 39) + wire.compact_string("no such node") + b"\x00"
    topic = wire.compact_string(_TOPIC) + wire.compact_array([partition]) + b"\x00"
    return struct.pack(">ibihb", 1, 0, 0, 0, 0) + wire.compact_array([topic]) + b"\x00"


def _candidates() -> bytes:
    """Return a response with a partition whose ISR is empty."""
    ids = wire.compact_array(struct.pack(">i", number) for number in (1, 2))
    partition = struct.pack(">hiii", 5, 0, -1, 7) + ids + b"\x01" + ids + b"\x00" + ids + b"\x00"
    topic = struct.pack(">h", 0) + wire.compact_string(_TOPIC) + bytes(17)
    topic += wire.compact_array([partition]) + struct.pack(">ib", -1, 0)
    return struct.pack(">ibi", 1, 0, 0) + wire.compact_array([topic]) + b"\xff\x00"
