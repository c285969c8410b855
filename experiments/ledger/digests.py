"""SHA-256 digests of stored files, and JSON documents that contain their own digest.

A document and its digest are one file. So they are replaced together, and neither a crash between
two writes nor an upload in another order can separate them.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from ackbench.experiments.ledger.documents import with_version, without_version

if TYPE_CHECKING:
    import pyarrow.fs as pafs

_BLOCK_BYTES: Final = 1 << 20
_MOST_READ_BYTES: Final = 64 << 20
_SEALED: Final = re.compile(rb'(?P<rest>.*),\n "sha256": "(?P<sha256>[0-9a-f]{64})"\n\}', re.DOTALL)


class InvalidLedger(Exception):
    """A ledger that cannot be measured.

    The message is one line with the trial and the file, or the sum that does not match.
    """


class FileDigest(BaseModel):
    """The size and the SHA-256 of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    sha256: str
    size_bytes: int

    def mismatch(self, found: FileDigest) -> str | None:
        """Return how another file differs from the recorded one, as a clause; `None`: not at all.

        Args:
            found: the digest of the file that is there now.
        """
        if found == self:
            return None
        if found.size_bytes != self.size_bytes:
            return f"it has {found.size_bytes} bytes and not {self.size_bytes}"
        return f"its SHA-256 is {found.sha256[:12]}... and not {self.sha256[:12]}..."


def digest_of(content: bytes) -> FileDigest:
    """Return the digest of content in memory."""
    return FileDigest(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


def digest_file(files: pafs.FileSystem, path: str) -> FileDigest:
    """Return the digest of a file.

    Raises:
        OSError: the file does not exist, is no regular file, or cannot be read.
    """
    require_regular_file(files, path)
    digest, size_bytes = hashlib.sha256(), 0
    with files.open_input_stream(path, compression=None) as stream:
        while block := stream.read_buffer(_BLOCK_BYTES):
            digest.update(block)
            size_bytes += len(block)
    return FileDigest(sha256=digest.hexdigest(), size_bytes=size_bytes)


def require_regular_file(files: pafs.FileSystem, path: str) -> None:
    """Check a file of this machine before it is opened; an object store has nothing else.

    A pipe in a file's place would be waited for, and a device never ends.

    Raises:
        OSError: there is no such file, or it is something else.
    """
    if files.type_name == "local" and not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a text
        raise OSError(f"{path} is no regular file")


def read_bounded(files: pafs.FileSystem, path: str) -> bytes:
    """Return the content of a file that is read into memory: a plan, a record, a lock.

    Raises:
        OSError: the file does not exist, is no regular file, is too large, or cannot be read.
    """
    require_regular_file(files, path)
    with files.open_input_file(path) as stream:
        size_bytes = int(stream.size())
        if size_bytes > _MOST_READ_BYTES:
            raise OSError(f"{path} has {size_bytes:,} bytes")
        return bytes(stream.read())


def with_digest(document: str) -> str:
    """Return a JSON object, indented by one space, with this version and its own SHA-256.

    Both are its last keys; the digest is of the document with the version.
    """
    stamped = with_version(document)
    digest = hashlib.sha256(stamped.encode()).hexdigest()
    return f'{stamped.removesuffix(chr(10) + "}")},\n "sha256": "{digest}"\n}}'


def without_digest(content: bytes) -> tuple[bytes, bool]:
    """Return a document as it was before `with_digest`, and whether it had a digest.

    A document without a digest may have a version all the same.

    Raises:
        ValueError: the digest is not that of the document; the message is a clause.
    """
    found = _SEALED.fullmatch(content)
    if found is None:
        return without_version(content), False
    document = found["rest"] + b"\n}"
    if hashlib.sha256(document).hexdigest() != found["sha256"].decode():
        raise ValueError("was altered after it was written: its SHA-256 does not match its content")
    return without_version(document), True
