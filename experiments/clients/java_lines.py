"""What Kafka's VerifiableProducer and VerifiableConsumer report: a JSON object a line, each with the millisecond in which it was made."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import json as pa_json

_NS_PER_MS: Final = 1_000_000
LINES: Final = pa.schema(
    [
        pa.field("timestamp", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("value", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("exception", pa.string()),
    ]
)
"""What is kept of a line; null where it does not say so. The names are the programs' own."""


def lines_of(reported: bytes, *names: str) -> pa.Table:
    """Return the lines of some names, in their order; schema `LINES`.

    A line that was cut off by the program's death is left out, and so is what is no JSON object: both programs call that to be ignored.

    Args:
        reported: the program's standard output.
        names: which lines: `producer_send_success`, ...
    """
    wanted = [f'"{name}"'.encode() for name in names]
    whole = reported[: reported.rfind(b"\n") + 1]
    lines = [line for line in whole.split(b"\n") if line.startswith(b"{") and any(name in line for name in wanted)]
    if not lines:
        return LINES.empty_table()
    options = pa_json.ParseOptions(explicit_schema=LINES, unexpected_field_behavior="ignore")
    read = pa_json.read_json(io.BytesIO(b"\n".join(lines)), pa_json.ReadOptions(use_threads=False, block_size=max(map(len, lines)) + (1 << 20)), options)
    return read.filter(pa.compute.is_in(read["name"], pa.array(names)))


class Tail:
    """The lines of a growing file, each once; those of some names only."""

    def __init__(self, path: Path, *names: str) -> None:
        """Begin at the file's begin."""
        self._path, self._read_bytes = path, 0
        self._names = [f'"{name}"'.encode() for name in names]

    def more(self) -> list[dict[str, Any]]:
        """Return the lines that are whole by now and were not returned before."""
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            found = file.read()
        whole = found[: found.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return [json.loads(line) for line in whole.split(b"\n") if line.startswith(b"{") and any(name in line for name in self._names)]


def epoch_ns(wall_ms: int, ahead_ns: int) -> int:
    """Return a millisecond of the wall clock on the trial's clock."""
    return wall_ms * _NS_PER_MS + ahead_ns
