"""The journal returns events by time and appends its own ones to a file at once."""

from __future__ import annotations

import json
from pathlib import Path

from ackbench.experiments.ledger.terms import Source
from ackbench.experiments.trial.events.journal import Event, Journal


def test_the_table_has_events_sorted_by_time() -> None:
    """An event noted late with an earlier time comes first."""
    journal = Journal()
    journal.note("later", at_ns=20)
    journal.note("earlier", at_ns=10, node=2)
    rows = journal.table().select(["at_ns", "kind", "source", "node", "detail"]).to_pylist()
    assert rows == [
        {"at_ns": 10, "kind": "earlier", "source": "trial", "node": 2, "detail": ""},
        {"at_ns": 20, "kind": "later", "source": "trial", "node": None, "detail": ""},
    ]


def test_the_file_has_noted_events_and_no_added_ones(tmp_path: Path) -> None:
    """Events from logs can be read again, so only the trial's own ones are appended."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.note("load_begin", at_ns=20)
    journal.add(Event(10, "fenced", Source.BROKER))
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["load_begin"]
    assert [event.kind for event in journal.events()] == ["fenced", "load_begin"]


def test_the_file_has_observed_events(tmp_path: Path) -> None:
    """No log has the changes that the metadata poller sees, with their times."""
    journal = Journal(tmp_path / "journal.jsonl")
    journal.observe(Event(10, "leader", Source.METADATA, 8, node=2, partition=0))
    (line,) = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert json.loads(line)["node"] == 2
    assert [event.kind for event in journal.events()] == ["leader"]


def test_an_observation_outlives_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The poller's thread would end with the first change after the disk is full."""
    journal = Journal(tmp_path / "absent" / "journal.jsonl")
    journal.observe(Event(10, "leader", Source.METADATA))
    assert [event.kind for event in journal.events()] == ["leader"]
