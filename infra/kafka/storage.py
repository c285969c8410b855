"""Formatted log folders without a JVM each: Kafka's own storage tool formats one, and every node gets a copy with ids of its own.

With a static quorum the tool writes two files: `bootstrap.checkpoint`, the feature levels of a new cluster, which knows neither
cluster nor node, and `meta.properties`, whose ids are text (KIP-631, KIP-858). So a copy with other ids is what the tool would have made.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from infra.errors import HarnessError
from infra.jvm.runtime import java_environment
from infra.kafka.kraft import NodeAddress, node_properties, properties_text
from infra.machine.files import exclusive_lock

META_PROPERTIES: Final = "meta.properties"
"""Who a log folder is."""
_BOOTSTRAP: Final = "bootstrap.checkpoint"
_TIMEOUT_S: Final = 120.0


def random_uuid() -> str:
    """Return a random id as `org.apache.kafka.common.Uuid` writes it: 22 characters, none of them a leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def formatted_folder(
    cache: Path,
    version: str,
    storage_tool: Sequence[str],
    features: Mapping[str, int] = MappingProxyType({}),
) -> Path:
    """Return a formatted folder to copy from; format it first when there is none.

    Args:
        cache: where it is kept.
        version: Kafka's.
        storage_tool: the command that runs `kafka.tools.StorageTool`; another one gets a folder of its own.
        features: the levels of features that are not to be Kafka's own for that version; other ones get a folder of their own too.

    Raises:
        HarnessError: the tool failed; the text has its last words.
    """
    command = [
        *storage_tool,
        "format",
        *(
            word
            for name, level in sorted(features.items())
            for word in ("--feature", f"{name}={level}")
        ),
    ]
    key = hashlib.sha256("\0".join(command).encode()).hexdigest()[:12]
    target = cache / "formatted" / f"{version}-{key}"
    if not (target / META_PROPERTIES).is_file():
        with exclusive_lock(target):
            if not (target / META_PROPERTIES).is_file():
                _format(target, command)
    return target


def copy_formatted(formatted: Path, data: Path, node_id: int, cluster_id: str) -> None:
    """Make a node's empty log folder a formatted one.

    Raises:
        HarnessError: `meta.properties` is not as it was known.
    """
    shutil.copyfile(formatted / _BOOTSTRAP, data / _BOOTSTRAP)
    text = (formatted / META_PROPERTIES).read_text()
    (data / META_PROPERTIES).write_text(
        replace_ids(
            text, {"cluster.id": cluster_id, "node.id": str(node_id), "directory.id": random_uuid()}
        )
    )
    for path in (data / _BOOTSTRAP, data / META_PROPERTIES, data):
        _sync(path)  # a node that loses power in its first seconds knows who it is


def replace_ids(meta: str, ids: dict[str, str]) -> str:
    """Return the text of `meta.properties` with other ids.

    Raises:
        HarnessError: it has not each of them exactly once.
    """
    for key, value in ids.items():
        meta, found = re.subn(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", meta)
        if found != 1:
            raise HarnessError(
                f"{META_PROPERTIES} has {found} lines for {key}, one was expected: this Kafka version formats in another way"
            )
    return meta


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _format(target: Path, format_command: Sequence[str]) -> None:
    node = NodeAddress(1, 1, 2, 3)
    with tempfile.TemporaryDirectory(prefix=".formatting-", dir=target.parent) as partial:
        Path(partial, "server.properties").write_text(
            properties_text(node_properties(node, [node]))
        )
        command = [*format_command, "--cluster-id", random_uuid(), "--config", "server.properties"]
        ran = subprocess.run(
            command,
            cwd=partial,
            env=java_environment(),
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if ran.returncode != 0:
            raise HarnessError(
                f"the storage tool could not format a folder: {(ran.stdout + ran.stderr)[-2000:]}"
            )
        shutil.rmtree(target, ignore_errors=True)
        Path(partial, "data").replace(target)
