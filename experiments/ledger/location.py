"""Where a sweep is: a folder of this machine, or a URI of an object store that Arrow opens.

`pyarrow.fs.FileSystem.from_uri` takes `file:`, `s3:`, `gs:` and `abfs:`. The credentials are in the
environment. A URI with credentials is refused, so every URI may be stored and printed.
"""

from __future__ import annotations

import io
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import pyarrow as pa
import pyarrow.fs as pafs

from ackbench.experiments.ledger.digests import InvalidLedger, read_bounded, require_regular_file

_URI: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):")
_SCHEMES: Final = ("file", "s3", "gs", "gcs", "abfs", "abfss")
_ALLOWED: Final = "file://, s3://, gs://, abfs://"
_INSTEAD: Final = {"s3a": "s3", "s3n": "s3", "az": "abfs", "wasb": "abfs", "wasbs": "abfs"}
"""Schemes of Hadoop and of other libraries, and what Arrow calls them."""
_CREDENTIALS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "abfs": "AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
}
"""The environment variables of each store's own client library."""
_OPTIONS: Final = {
    "s3": ("endpoint_override", "scheme", "region", "tls_ca_file_path"),
    "gs": ("endpoint_override", "scheme", "project_id", "retry_limit_seconds"),
    "abfs": ("blob_storage_authority", "dfs_storage_authority", "enable_tls"),
}
"""Options in a URI's query that hold no credentials."""
_GS_RETRY_LIMIT_S: Final = 10
"""The library's default is 15 minutes, also when there are no credentials."""
_COPY_BYTES: Final = 8 << 20
_CONNECTION: Final = re.compile(
    "NETWORK_CONNECTION|CURL error|resolve host|connect to server|Connection refused|TransportExc"
)
_NO_BUCKET: Final = re.compile(
    "NO_SUCH_BUCKET|bucket does not exist|ContainerNotFound|container does not exist"
)
_NO_CREDENTIALS: Final = re.compile("OAuth2 access token|Credential|credentials file")
_REFUSED: Final = re.compile(
    "ACCESS_DENIED|SIGNATURE_DOES_NOT_MATCH|INVALID_ACCESS_KEY|INVALID_CLIENT_TOKEN|EXPIRED_TOKEN"
    "|UNRECOGNIZED_CLIENT|PERMISSION_DENIED|UNAUTHENTICATED|AuthorizationFailure|AuthenticationF"
    "|Forbidden"
)
_NOISE: Final = re.compile(
    r" *\(Request ID:[^)]*\)| *error_info=.*| *See Azure::Core.*|google::cloud::Status\(\w+: "
    r"|Retry policy exhausted, with a last message of "
    r"|The request was not sent.*?/authentication\. |The underlying error message was: "
    r"|Unknown error: ",
    re.DOTALL,
)
"""Parts of messages that help nobody."""
_ArrowErrors: Final = (OSError, pa.ArrowException)


class LocationError(InvalidLedger):
    """A location is invalid, or its storage cannot be read or written.

    The message is one line with the URI, the reason and what to do; it has no credentials.
    """


def is_uri(text: str) -> bool:
    """Return whether a text begins with a scheme, as in `s3://bucket/sweeps`; no path does."""
    return _URI.match(text) is not None


class FolderUse(NamedTuple):
    """The files of a folder."""

    files: dict[str, int]
    """As of `Location.list_files`."""
    last_written_s: float
    """By the clock of the store, seconds since the epoch, also of a hidden file; 0: none is;
    infinite: the store does not say when one was."""


@dataclass(frozen=True)
class Location:
    """A folder in a file system of Arrow's; it need not exist yet."""

    uri: str
    """A path or a URI that opens the same folder on another machine with the same storage."""
    files: pafs.FileSystem
    path: str
    """The folder in `files`; in an object store it begins with the bucket."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]

    def at(self, name: str) -> Location:
        """Return a folder below this one."""
        path = f"{self.path}/{name}"
        if not is_uri(self.uri):
            return Location(path, self.files, path)
        parts = urlsplit(self.uri)
        uri = urlunsplit(parts._replace(path=f"{parts.path}/{quote(name)}"))
        return Location(uri, self.files, path)

    @property
    def parent(self) -> Location:
        """The folder that this one is in."""
        path = self.path.rpartition("/")[0]
        if not is_uri(self.uri):
            return Location(path, self.files, path)
        parts = urlsplit(self.uri)
        uri = urlunsplit(parts._replace(path=parts.path.rpartition("/")[0]))
        return Location(uri, self.files, path)

    def list_files(self) -> dict[str, int]:
        """Return the sizes in bytes of all files below the folder, by path relative to it.

        Hidden files are left out: `upload` writes such files to a file system. So are objects whose
        keys are no relative paths (`a//b`, `../a`).

        Raises:
            LocationError: the bucket does not exist, or the store cannot be read.
        """
        return self.use().files

    def use(self) -> FolderUse:
        """Return the files below the folder, and when the newest was written, by one listing.

        Raises:
            LocationError: as `list_files`.
        """
        selector = pafs.FileSelector(self.path, recursive=True)
        with self._errors("read"):
            try:
                infos = self.files.get_file_info(selector)
            except FileNotFoundError:
                self._require_bucket()
                return FolderUse({}, 0.0)
        names = {info.path[len(self.path) + 1 :]: info for info in infos if info.is_file}
        files = {
            name: info.size
            for name, info in names.items()
            if not any(not part or part.startswith(".") for part in name.split("/"))
        }
        times_ns = (info.mtime_ns for info in names.values())
        written_s = max((math.inf if ns is None else ns / 1e9 for ns in times_ns), default=0.0)
        return FolderUse(files, written_s)

    def list_folders(self) -> tuple[str, ...]:
        """Return the names of the folders in this one, sorted.

        Raises:
            LocationError: as `list_files`.
        """
        selector = pafs.FileSelector(self.path, allow_not_found=True)
        with self._errors("read"):
            infos = self.files.get_file_info(selector)
        return tuple(
            sorted(info.base_name for info in infos if info.type == pafs.FileType.Directory)
        )

    def require_access(self) -> None:
        """Check that the store answers, knows the credentials and has the bucket.

        Raises:
            LocationError: it does not.
        """
        with self._errors("read"):
            try:
                self.files.get_file_info(pafs.FileSelector(f"{self.path}/.ackbench"))
            except FileNotFoundError:
                self._require_bucket()

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; `None`: there is no such file.

        Raises:
            LocationError: the store cannot be read, or the file is no small one.
        """
        path = f"{self.path}/{name}"
        with self._errors("read"):
            try:
                return read_bounded(self.files, path)
            except FileNotFoundError:
                return None

    def download(self, name: str, target: Path) -> None:
        """Copy a file to a local path; its folder must exist.

        Raises:
            LocationError: the file cannot be read.
        """
        path = f"{self.path}/{name}"
        with self._errors("read"):
            require_regular_file(self.files, path)
            with self.files.open_input_stream(path) as source, target.open("wb") as copy:
                shutil.copyfileobj(source, copy, _COPY_BYTES)

    def upload(self, source: Path, name: str) -> None:
        """Copy a local file to `name`, which then exists with all of its content.

        An object appears when it is complete. A file system's file is written under a hidden name
        and renamed.

        Raises:
            LocationError: the file cannot be written.
        """
        self._put(source, name)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which then exists with all of its content.

        Raises:
            LocationError: the file cannot be written.
        """
        self._put(content, name)

    def delete(self, name: str) -> None:
        """Delete a file, if there is one.

        Raises:
            LocationError: the file cannot be deleted.
        """
        with self._errors("written"):
            try:
                self.files.delete_file(f"{self.path}/{name}")
            except FileNotFoundError:
                return

    def delete_folder(self) -> None:
        """Delete the folder with what is left in it.

        In S3 that is an empty object for each folder, which Arrow writes when it deletes the last
        file in one.

        Raises:
            LocationError: it cannot be deleted.
        """
        with self._errors("written"), suppress(FileNotFoundError):
            self.files.delete_dir(self.path)

    def _put(self, content: Path | bytes, name: str) -> None:
        target = f"{self.path}/{name}"
        folder, base = target.rsplit("/", 1)
        with self._errors("written"):
            if self._is_object_store:
                self._copy(content, target)
                return
            self.files.create_dir(folder)
            partial = f"{folder}/.{base}.{os.getpid()}"
            try:
                self._copy(content, partial)
                self.files.move(partial, target)
            except BaseException:
                with suppress(*_ArrowErrors):  # it takes what little space there is
                    self.files.delete_file(partial)
                raise

    def _copy(self, content: Path | bytes, target: str) -> None:
        source = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
        with source, self.files.open_output_stream(target) as stream:
            shutil.copyfileobj(source, stream, _COPY_BYTES)

    @property
    def _is_object_store(self) -> bool:
        return self.files.type_name in {"s3", "gcs", "abfs"}

    def _require_bucket(self) -> None:
        """Raise if the bucket is known not to exist; its users may be denied to look at it."""
        if not self._is_object_store:
            return
        bucket = self.path.split("/", 1)[0]
        try:
            exists = self.files.get_file_info(bucket).type != pafs.FileType.NotFound
        except _ArrowErrors:
            return
        if not exists:
            raise LocationError(_no_bucket(self.uri, bucket))

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Raise Arrow's errors as one line with the URI, the reason and the remedy."""
        try:
            yield
        except _ArrowErrors as error:
            raise LocationError(_explain(self, what, error)) from error


def _explain(location: Location, what: str, error: Exception) -> str:
    """Return Arrow's error as one line with the URI, the reason and the remedy."""
    uri, text = location.uri, " ".join(_NOISE.sub("", str(error)).split())
    variables = _CREDENTIALS.get(_store(urlsplit(uri).scheme))
    if _NO_BUCKET.search(text):
        return _no_bucket(uri, location.path.split("/", 1)[0])
    if variables and _NO_CREDENTIALS.search(text):
        return f"{uri}: no credentials for the store: set {variables} ({text})"
    if variables and _CONNECTION.search(text):
        return f"{uri}: the store does not answer{_endpoint(uri)}: {text}"
    if uri.startswith("s3:") and _REFUSED.search(text) and not os.environ.get("AWS_ACCESS_KEY_ID"):
        return f"{uri}: the store refuses access without credentials: set {variables} ({text})"
    if variables and _REFUSED.search(text):
        return f"{uri}: the store refuses the credentials: check {variables} ({text})"
    return f"{uri} cannot be {what}: {text}"


def open_location(text: str) -> Location:
    """Return the location of a folder or a URI. Nothing is read yet.

    Args:
        text: a path of this machine, or a URI: `file:///folder`, `s3://bucket/folder`,
            `gs://bucket/folder`, `abfs://container@account.dfs.core.windows.net/folder`.

    Raises:
        LocationError: the scheme is not one of these, the URI is malformed, or it has credentials.
    """
    if not is_uri(text):
        try:
            path = str(Path(text).expanduser().resolve())
        except (RuntimeError, ValueError) as error:  # no such user; a null character
            raise LocationError(f"{text!r} is no path of this machine: {error}") from error
        return Location(path, pafs.LocalFileSystem(), path)
    uri = _without_end_slash(text)
    scheme = _checked_scheme(uri)
    if scheme == "file":  # people write the folder as it is named; Arrow's parser takes no space
        uri = uri.replace(" ", "%20")
    _refuse_credentials(uri, scheme)
    try:
        files, path = pafs.FileSystem.from_uri(_with_retry_limit(uri, scheme))
    except _ArrowErrors as error:
        nowhere = Location(uri, pafs.LocalFileSystem(), "")
        raise LocationError(_explain(nowhere, "opened", error)) from error
    if not path.strip("/"):
        raise LocationError(f"{scheme}:// names no folder: write {scheme}://<bucket>/<folder>")
    return Location(uri, files, path.rstrip("/"))


def _without_end_slash(uri: str) -> str:
    address, mark, query = uri.partition("?")
    return address.rstrip("/") + mark + query


def _checked_scheme(uri: str) -> str:
    found = _URI.match(uri)
    scheme = found["scheme"].lower() if found else ""
    if scheme in _SCHEMES:
        return scheme
    instead = _INSTEAD.get(scheme)
    remedy = f"write {instead}://" if instead else f"allowed: a folder, {_ALLOWED}"
    raise LocationError(f"unknown scheme {scheme}:// of a sweep's location; {remedy}")


def _refuse_credentials(uri: str, scheme: str) -> None:
    """Refuse a URI with a user, a password or an option that may be a secret; it is not printed."""
    store = _store(scheme)
    variables = _CREDENTIALS.get(store)
    if variables is None:
        return
    try:
        parts = urlsplit(uri)
        options = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError as error:
        raise LocationError(f"{scheme}://... is no valid URI: {error}") from error
    user, at, host = parts.netloc.rpartition("@")
    named = {"s3": at or ":" in host, "gs": at and user != "anonymous", "abfs": ":" in user}
    if named[store]:
        raise LocationError(
            f"{scheme}://***: a URI with credentials would be stored and printed; remove them and "
            f"set {variables}"
        )
    for name, _ in options:
        if name not in _OPTIONS[store]:
            raise LocationError(
                f"{scheme}://{parts.netloc}{parts.path}: unknown option {name}; allowed: "
                f"{', '.join(_OPTIONS[store])} (credentials: {variables})"
            )


def _with_retry_limit(uri: str, scheme: str) -> str:
    if _store(scheme) != "gs":
        return uri
    parts = urlsplit(uri)
    options: Mapping[str, object] = {
        "retry_limit_seconds": _GS_RETRY_LIMIT_S,
        **dict(parse_qsl(parts.query)),
    }
    return urlunsplit(parts._replace(query=urlencode(options)))


def _store(scheme: str) -> str:
    return {"gcs": "gs", "abfss": "abfs"}.get(scheme, scheme)


def _no_bucket(uri: str, bucket: str) -> str:
    return f"{uri}: there is no bucket {bucket}: create it, or correct the URI"


def _endpoint(uri: str) -> str:
    """Return the endpoint of an S3 URI, with the place where it was set; empty: AWS itself."""
    parts = urlsplit(uri)
    override = dict(parse_qsl(parts.query)).get("endpoint_override")
    if override:
        return f" at {override} (endpoint_override)"
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if parts.scheme == "s3" and os.environ.get(name):
            return f" at {urlsplit(os.environ[name]).netloc.rpartition('@')[2]} ({name})"
    return ""
