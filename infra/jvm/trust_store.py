"""Certificates that Python trusts, for a JVM to trust as well: behind a company's proxy the bundled ones are not enough."""

from __future__ import annotations

import hashlib
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PASSWORD: Final = "changeit"  # noqa: S105 - Java's customary one: it guards public certificates against accidents only
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2


def write_trust_store(path: Path) -> bool:
    """Write the certificates of Python's default context as a Java key store; return whether there were any."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if certificates:
        path.write_bytes(java_key_store(certificates))
    return bool(certificates)


def java_key_store(certificates: Sequence[bytes]) -> bytes:
    """Return a key store of the format JKS, which every JVM reads, with DER certificates as trusted entries.

    The layout is that of `sun.security.provider.JavaKeyStore`: a header, the entries, and a SHA-1 over password, salt and both.
    """
    store = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        store += (
            struct.pack(">I", _TRUSTED)
            + _text(f"ca{number}")
            + struct.pack(">Q", 0)
            + _text("X.509")
        )
        store += struct.pack(">I", len(certificate)) + certificate
    return (
        store
        + hashlib.sha1(
            PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + store, usedforsecurity=False
        ).digest()
    )


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()
