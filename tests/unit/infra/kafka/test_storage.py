"""A formatted log folder is copied with the ids of the cluster and node that use the copy."""

from pathlib import Path

import pytest

from ackbench.infra.errors import HarnessError
from ackbench.infra.kafka.storage import copy_formatted, replace_ids

META = "#\n#Sat Nov 21 08:38:19 UTC 2026\ncluster.id=c\ndirectory.id=d\nnode.id=1\nversion=1\n"


def test_a_copy_of_a_formatted_folder_gets_its_own_ids(tmp_path: Path) -> None:
    """Cluster, node and directory; the rest is as the storage tool wrote it."""
    formatted = tmp_path / "formatted"
    formatted.mkdir()
    (formatted / "meta.properties").write_text(META)
    (formatted / "bootstrap.checkpoint").write_bytes(b"features")
    (tmp_path / "data").mkdir()
    copy_formatted(formatted, tmp_path / "data", 3, "other")
    lines = (tmp_path / "data" / "meta.properties").read_text().splitlines()
    assert {"cluster.id=other", "node.id=3", "version=1"} <= set(lines)
    assert "directory.id=d" not in lines
    assert (tmp_path / "data" / "bootstrap.checkpoint").read_bytes() == b"features"


def test_an_unknown_format_of_meta_properties_is_an_error() -> None:
    """The broker would refuse a copy with the ids of two nodes, with an unrelated message."""
    with pytest.raises(HarnessError, match=r"0 lines for node\.id"):
        replace_ids("version=2\n", {"node.id": "1"})
