"""Format a log folder once with Kafka's storage tool, and copy it for each node.

This saves one JVM start per node. With a static quorum the tool writes two files:
`bootstrap.checkpoint`, the feature levels of a new cluster, without ids, and `meta.properties`,
with ids as text (KIP-631, KIP-858). So a copy with other ids equals what the tool would have
written.
"""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ackbench.infra.errors import HarnessError
from ackbench.infra.jvm.runtime import java_environment
from ackbench.infra.kafka.kraft import NodeAddress, node_properties, properties_text
from ackbench.infra.machine.files import exclusive_lock, move_into_place, sync
from ackbench.infra.machine.scratch import FORMATTING, scratch_folder

META_PROPERTIES: Final = "meta.properties"
"""Holds the ids of the cluster, the node and the log folder."""
_BOOTSTRAP: Final = "bootstrap.checkpoint"
_TIMEOUT_S: Final = 120.0


def random_uuid() -> str:
    """Return a random id like `org.apache.kafka.common.Uuid`: 22 characters, no leading dash."""
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
    """Return a formatted folder to copy from, which is formatted if it is not cached.

    Each version, command and set of features has its own folder.

    Args:
        cache: the home's cache folder.
        version: the Kafka version.
        storage_tool: the command that runs `kafka.tools.StorageTool`.
        features: feature levels that differ from the default levels of the Kafka version.

    Raises:
        HarnessError: the tool failed.
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
    """Copy the formatted folder into a node's empty log folder, with the node's ids.

    Raises:
        HarnessError: `meta.properties` has an unknown format.
    """
    shutil.copyfile(formatted / _BOOTSTRAP, data / _BOOTSTRAP)
    text = (formatted / META_PROPERTIES).read_text()
    (data / META_PROPERTIES).write_text(
        replace_ids(
            text, {"cluster.id": cluster_id, "node.id": str(node_id), "directory.id": random_uuid()}
        )
    )
    for path in (data / _BOOTSTRAP, data / META_PROPERTIES, data):
        sync(path)  # so that the ids outlive a power cut in the node's first seconds


def replace_ids(meta: str, ids: dict[str, str]) -> str:
    """Return the text of `meta.properties` with other ids.

    Raises:
        HarnessError: the text does not have each id exactly once.
    """
    for key, value in ids.items():
        meta, count = re.subn(rf"(?m)^{re.escape(key)}=.*$", f"{key}={value}", meta)
        if count != 1:
            raise HarnessError(
                f"{META_PROPERTIES} has {count} lines for {key} (expected: 1); "
                "this Kafka version uses an unknown storage format"
            )
    return meta


def _format(target: Path, format_command: Sequence[str]) -> None:
    node = NodeAddress(1, 1, 2, 3)
    with scratch_folder(target.parent.parent, FORMATTING) as partial:
        (partial / "server.properties").write_text(properties_text(node_properties(node, [node])))
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
                f"Kafka's storage tool failed with exit code {ran.returncode}: "
                f"{(ran.stdout + ran.stderr)[-2000:]}"
            )
        shutil.rmtree(target, ignore_errors=True)
        move_into_place(partial / "data", target)
