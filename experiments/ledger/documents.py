"""Stored JSON documents say at their end which ackbench wrote them.

So an older ackbench that cannot read one says that, instead of calling it damaged. Documents
without a version are of ackbench before it wrote one.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

WRITER: Final = "ackbench_version"
_KEY: Final = f'"{WRITER}"'.encode()
_LAST: Final = re.compile(_KEY + rb': ?"(?P<version>[^"\\]*)"\s*\}\s*')
_WRITTEN: Final = re.compile(_KEY + rb': ?"(?P<version>[^"\\]*)"')
_RELEASE: Final = re.compile(r"\d+(?:\.\d+)*")


@cache
def this_version() -> str | None:
    """Return the version of this ackbench; `None`: it is not installed, as in Spark's executors."""
    try:
        return version("ackbench")
    except PackageNotFoundError:
        return None


def with_version(document: str) -> str:
    """Return a JSON object, compact or indented by one space, with this version as its last key."""
    this, is_indented = this_version(), document.endswith("\n}")
    if this is None:
        return document
    body = document.removesuffix("}").removesuffix("\n")
    comma, space, end = "" if body == "{" else ",", "\n " * is_indented, "\n" * is_indented
    return f'{body}{comma}{space}"{WRITER}": "{this}"{end}}}'


def without_version(content: bytes) -> bytes:
    """Return a document as it was before `with_version`."""
    at = content.rfind(_KEY)
    if at < 0 or not _LAST.fullmatch(content, at):
        return content
    head = content[:at]
    return head.rstrip().removesuffix(b",") + (b"\n}" if head.endswith(b"\n ") else b"}")


def why_unreadable(content: bytes, otherwise: str) -> str:
    """Return why a document cannot be parsed, as the rest of a sentence about it.

    Args:
        content: the document.
        otherwise: the reason, unless a newer ackbench wrote it.
    """
    found, this = _WRITTEN.match(content, max(content.rfind(_KEY), 0)), this_version()
    if found is None or this is None:
        return otherwise
    written = found["version"].decode(errors="replace")
    if _numbers(written) <= _numbers(this):
        return otherwise
    return (
        f"was written by ackbench {written}, newer than this one ({this}): "
        "read it with that version"
    )


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a release; those of a text without any are the lowest."""
    found = _RELEASE.match(text)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
