"""Locations of sweeps: folders and URIs, without credentials, and with errors of one line."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from ackbench.experiments.ledger.location import Location, LocationError, is_uri, open_location


class ObjectsOfAnyKey:
    """A file system that lists these files."""

    def __init__(self, *paths: str) -> None:
        self.infos = [pafs.FileInfo(path, type=pafs.FileType.File, size=1) for path in paths]

    def get_file_info(self, _: pafs.FileSelector) -> list[pafs.FileInfo]:
        """Return the same files for every selector."""
        return self.infos


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/sweeps", True),
        ("file:/sweeps", True),
        ("quick-20260102T030405-ab12", False),
        ("/sweeps/a:b", False),
        ("./a:b", False),
    ],
)
def test_a_text_with_a_scheme_is_a_uri(text: str, expected: bool) -> None:
    """Ids and paths are none."""
    assert is_uri(text) is expected


def test_a_folder_is_named_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have another working directory."""
    monkeypatch.chdir(tmp_path)
    location = open_location("sweeps")
    assert (location.uri, location.path) == (str(tmp_path / "sweeps"),) * 2
    assert location.at("a b").uri == str(tmp_path / "sweeps" / "a b")


def test_the_uri_of_a_subfolder_is_escaped_and_keeps_the_options() -> None:
    """The options say where the store is."""
    location = open_location("s3://bucket/sweeps/?region=eu-west-1&endpoint_override=127.0.0.1:1")
    below = location.at("a b")
    assert below.uri == "s3://bucket/sweeps/a%20b?region=eu-west-1&endpoint_override=127.0.0.1:1"
    assert (below.path, below.name) == ("bucket/sweeps/a b", "a b")
    assert open_location(below.uri).path == below.path


def test_a_uri_of_a_folder_may_have_a_space() -> None:
    """It is the same location as with `%20`."""
    location = open_location("file:///a folder/sweeps")
    assert location == open_location("file:///a%20folder/sweeps")
    assert location.path == "/a folder/sweeps"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3a://bucket/x", "unknown scheme s3a:// of a sweep's location; write s3://"),
        ("az://c/x", "unknown scheme az:// of a sweep's location; write abfs://"),
        (
            "ftp://host/x",
            "unknown scheme ftp:// of a sweep's location; allowed: a folder, file://, s3://, gs://,",
        ),
        ("file:sweeps", "file:sweeps cannot be opened: File URI cannot be relative"),
        ("s3://", "s3:// names no folder: write s3://<bucket>/<folder>"),
        ("s3:///x", "s3:///x cannot be opened: Missing bucket name in S3 URI"),
        ("s3://b c/x", "s3://b c/x cannot be opened: Cannot parse URI"),
        ("s3://[b/x", "s3://... is no valid URI: Invalid IPv6 URL"),
        ("s3://b/x?foo=1", "s3://b/x: unknown option foo; allowed: endpoint_override, scheme,"),
        ("abfs://c/x", "abfs://c/x cannot be opened: AzureOptions doesn't contain a valid account"),
    ],
)
def test_an_invalid_location_is_refused_with_one_line(text: str, message: str) -> None:
    """It says what is allowed."""
    with pytest.raises(LocationError) as refused:
        open_location(text)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3://key:SECRET@bucket/x",
        "s3://key:SEC/RET@bucket/x",
        "s3://SECRET@bucket/x",
        "gs://SECRET@bucket/x",
        "abfs://account:SECRET@account.dfs.core.windows.net/x",
        "abfs://c@account.dfs.core.windows.net/x?client_secret=SECRET",
        "s3://bucket/x?secret_key=SECRET",
    ],
)
def test_a_uri_with_credentials_is_refused_and_not_repeated(text: str) -> None:
    """It would be stored in the sweep's folder and printed in messages and logs."""
    with pytest.raises(
        LocationError, match=r"AWS_ACCESS_KEY_ID|GOOGLE_APP|AZURE_CLIENT"
    ) as refused:
        open_location(text)
    assert "SEC" not in str(refused.value).replace("CLIENT_SECRET", "").replace("SECRET_ACC", "")


@pytest.mark.parametrize(
    "text",
    [
        "abfs://container@account.dfs.core.windows.net/x",
        "abfss://container@account.dfs.core.windows.net/x",
        "gs://bucket/x",
        "gs://anonymous@bucket/x",
        "s3://bucket/x?region=us-east-1",
    ],
)
def test_every_store_of_arrow_is_opened(text: str) -> None:
    """Opening one makes no request."""
    assert open_location(text).path.endswith("/x")


@pytest.mark.parametrize(
    ("uri", "raised", "message"),
    [
        (
            "s3://b/x",
            OSError("AWS Error NO_SUCH_BUCKET during ListObjectsV2: none (Request ID: 18EA)"),
            "s3://b/x: there is no bucket ",
        ),
        (
            "s3://b/x",
            OSError("AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject: no (Request ID: 18EA)"),
            "AWS_SECRET_ACCESS_KEY (AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject: no)",
        ),
        (
            "s3://b/x",
            OSError("AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7"),
            "s3://b/x: the store does not answer at store:9000 (AWS_ENDPOINT_URL): AWS Error",
        ),
        (
            "gs://b/x",
            OSError(
                "google::cloud::Status(UNAVAILABLE: Retry policy exhausted, with a last message of "
                "Could not create a OAuth2 access token to authenticate the request. The request "
                "was not sent, as it is required. Learn more at https://example/authentication. "
                "The underlying error message was: CURL error [6] error_info={reason=,\n}"
            ),
            "(Could not create a OAuth2 access token to authenticate the request. CURL error [6])",
        ),
        (
            "abfs://c@a.dfs.core.windows.net/x",
            pa.ArrowException(
                "Unknown error: Failed to get token from DefaultAzureCredential.\nSee Azure::Core"
            ),
            "abfs://c@a.dfs.core.windows.net/x: no credentials for the store: set AZURE_TENANT_ID",
        ),
        (
            "file:///x",
            OSError(28, "No space left on device"),
            "file:///x cannot be written: [Errno 28] No space left on device",
        ),
    ],
)
def test_an_error_of_a_store_is_one_line_with_the_remedy(
    uri: str, raised: Exception, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's own messages have several lines, request ids and no remedy."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:SECRET@store:9000")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)

    def fail(*_: object) -> None:
        raise raised

    location = Location(uri, pafs.LocalFileSystem(), f"{tmp_path}/b/x")
    monkeypatch.setattr(Location, "_copy", fail)
    with pytest.raises(LocationError) as failed:
        location.upload(tmp_path / "a", "a")
    assert message in str(failed.value)
    assert "\n" not in str(failed.value)


def test_missing_credentials_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 stores answer requests without credentials as they answer those with wrong ones."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    location = Location("s3://b/x", pafs.LocalFileSystem(), str(tmp_path))

    def fail(*_: object) -> None:
        raise OSError("AWS Error ACCESS_DENIED during PutObject operation: Access Denied.")

    monkeypatch.setattr(Location, "_copy", fail)
    with pytest.raises(LocationError, match="refuses access without credentials: set AWS_ACCESS"):
        location.upload(tmp_path / "a", "a")


def test_files_are_listed_with_their_sizes_and_without_hidden_ones(tmp_path: Path) -> None:
    """A hidden file is one that is being written."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_text("xy")
    (tmp_path / "a" / ".b.123").write_text("x")
    (tmp_path / ".c").mkdir()
    (tmp_path / ".c" / "d").write_text("x")
    assert open_location(tmp_path.as_uri()).list_files() == {"a/b": 2}
    assert open_location((tmp_path / "none").as_uri()).list_files() == {}


def test_objects_whose_keys_are_no_relative_paths_are_left_out() -> None:
    """An object store accepts any key; a copy of a sweep must stay in its folder."""
    files = ObjectsOfAnyKey("b/s/a", "b/s//etc/passwd", "b/s/../x", "b/s/t/../../x", "b/s/t//x")
    assert Location("s3://b/s", files, "b/s").list_files() == {"a": 1}


def test_a_folder_with_a_file_of_unknown_time_is_never_old() -> None:
    """Pruning deletes a folder that was provably left alone for a day."""
    use = Location("s3://b/s", ObjectsOfAnyKey("b/s/a"), "b/s").use()
    assert use.last_written_s == math.inf
    assert Location("s3://b/s", ObjectsOfAnyKey(), "b/s").use().last_written_s == 0


def test_a_file_of_a_file_system_appears_complete(tmp_path: Path) -> None:
    """It is written under a hidden name; a folder that is missing is created."""
    source, seen = tmp_path / "source", []
    source.write_text("content")
    location = open_location((tmp_path / "a" / "store").as_uri())
    original = Location._copy

    def copy(self: Location, file: Path, target: str) -> None:
        original(self, file, target)
        seen.append((self.list_files(), Path(target).name[:2]))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Location, "_copy", copy)
        location.upload(source, "b/c")
    assert seen == [({}, ".c")]
    assert (location.read("b/c"), location.read("b/none")) == (b"content", None)


def test_nothing_is_left_of_an_upload_that_failed(tmp_path: Path) -> None:
    """Its hidden file would take the space that a full disk lacks, and nobody would delete it."""
    source = tmp_path / "source"
    source.write_text("content")
    original = Location._copy

    def copy(self: Location, file: Path, target: str) -> None:
        original(self, file, target)
        raise OSError(errno.ENOSPC, "No space left on device")

    location = open_location((tmp_path / "store").as_uri())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Location, "_copy", copy)
        with pytest.raises(LocationError, match="No space left on device"):
            location.upload(source, "b/c")
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_deleting_a_file_is_idempotent(tmp_path: Path) -> None:
    """The second call finds nothing."""
    (tmp_path / "a").write_text("x")
    location = open_location(tmp_path.as_uri())
    location.delete("a")
    location.delete("a")
    assert location.list_files() == {}
