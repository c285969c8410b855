"""The checkpoints of leader epochs, as Kafka writes them into each replica's folder."""

from pathlib import Path

import pytest

from infra.errors import HarnessError
from infra.kafka.replica_files import parse_leader_epochs, read_leader_epochs
from infra.kafka.spec import LeaderEpoch

FILE = Path("leader-epoch-checkpoint")


def replica(data: Path, name: str, text: str) -> None:
    """Make a replica's folder with a checkpoint."""
    (data / name).mkdir()
    (data / name / FILE).write_text(text)


def test_every_replica_of_the_topic_is_read(tmp_path: Path) -> None:
    """By partition and epoch; other topics, also those that begin like it, and replicas under deletion are not."""
    replica(tmp_path, "orders-1", "0\n1\n0 0\n")
    replica(tmp_path, "orders-0", "0\n2\n0 0\n3 88120\n")
    for other in ("orders-old-0", "order-0", "orders-2.b7c3-delete"):
        replica(tmp_path, other, "0\n1\n9 9\n")
    assert list(read_leader_epochs(tmp_path, 2, "orders")) == [
        LeaderEpoch(2, 0, 0, 0),
        LeaderEpoch(2, 0, 3, 88120),
        LeaderEpoch(2, 1, 0, 0),
    ]


def test_a_replica_that_nobody_led_yet_has_none(tmp_path: Path) -> None:
    """Its file is there, and empty of entries or altogether; or it is not there yet."""
    replica(tmp_path, "orders-0", "0\n0\n")
    replica(tmp_path, "orders-1", "")
    (tmp_path / "orders-2").mkdir()
    assert list(read_leader_epochs(tmp_path, 2, "orders")) == []


@pytest.mark.parametrize(
    "text", ["0\n", "0\n2\n0 0\n", "1\n1\n0 0\n", "0\n1\n0\n", "0\n1\nzero 0\n"]
)
def test_what_is_cut_short_or_unknown_is_refused_by_name(text: str) -> None:
    """It must not be taken for a log with fewer epochs."""
    with pytest.raises(HarnessError, match="leader-epoch-checkpoint"):
        parse_leader_epochs(text, FILE)
