"""Stored documents say which ackbench wrote them, and a reader says if that one is newer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders.result_tables import write_results
from support.builders.sweep_folders import plant_sweep, realistic_trial

from ackbench.experiments.ledger import documents
from ackbench.experiments.ledger.digests import InvalidLedger, with_digest, without_digest
from ackbench.experiments.ledger.documents import (
    WRITER,
    this_version,
    with_version,
    without_version,
)
from ackbench.experiments.ledger.location import open_location
from ackbench.experiments.ledger.planned import parse_planned
from ackbench.experiments.ledger.results_manifest import ResultsManifest, parse_results_manifest
from ackbench.experiments.ledger.terms import LEDGER_VERSION
from ackbench.experiments.ledger.trial_manifest import parse_trial_manifest
from ackbench.experiments.messages.errors import LedgerError
from ackbench.experiments.orchestration.tracking.store import TrackedSweep, tracked_sweep
from ackbench.experiments.results.lessons.tour import TourFolder, new_tour
from ackbench.experiments.results.read import read_results
from ackbench.experiments.sweep.folder import SweepFolder
from ackbench.experiments.sweep.published import keep_store, published_uri
from ackbench.experiments.sweep.several_hosts import record_machine
from ackbench.experiments.sweep.trial_lock import read_locks, take_lock
from ackbench.infra.errors import AckbenchError
from ackbench.infra.machine.home import Home

NEWER = "0.3.0"
THIS = this_version()
WORDS = f"was written by ackbench {NEWER}, newer than this one ({THIS}): read it with that version"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(WRITER),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.sampled_from([None, 1]))
def test_a_document_without_its_version_is_as_it_was(
    content: dict[str, Any], indent: int | None
) -> None:
    """With the version it is JSON too, and the version is its last key."""
    document = json.dumps(content, indent=indent)
    written = with_version(document)
    assert list(json.loads(written).items())[-1] == (WRITER, THIS)
    assert without_version(written.encode()) == document.encode()
    if WRITER not in content:
        assert without_version(document.encode()) == document.encode()


def test_a_document_with_its_digest_has_its_version() -> None:
    """The digest covers it."""
    document = json.dumps({"a": 1}, indent=1)
    written = with_digest(document)
    assert json.loads(written)[WRITER] == THIS
    assert without_digest(written.encode()) == (document.encode(), True)
    with pytest.raises(ValueError, match="was altered"):
        without_digest(written.replace(f'"{THIS}"', '"9.9"').encode())


@pytest.mark.parametrize(
    ("written", "is_newer"),
    [
        *((older, False) for older in ("0.1.0", "0.1", "0.0.9", "0.1.0+local", "", "unknown")),
        *((newer, True) for newer in ("0.1.1", "0.10.0", "1", "0.2.0.dev1")),
    ],
)
def test_releases_are_compared_by_their_numbers(
    written: str, monkeypatch: pytest.MonkeyPatch, *, is_newer: bool
) -> None:
    """A text without numbers is no newer release."""
    monkeypatch.setattr(documents, "this_version", lambda: "0.1.0")
    reason = documents.why_unreadable(f'{{"{WRITER}": "{written}"}}'.encode(), "is damaged")
    assert (reason != "is damaged") is is_newer


def as_newer(content: bytes, **fields: object) -> str:
    """Return a document as a newer ackbench would write it, with fields that this one lacks."""
    document = json.loads(without_digest(content)[0]) | (fields or {"new_field": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "this_version", lambda: NEWER)
        return with_digest(json.dumps(document, indent=1))


@pytest.fixture
def sweep(tmp_path: Path) -> SweepFolder:
    """Return a sweep of one sealed trial, with results."""
    sweep = plant_sweep(Home(tmp_path / "home"), realistic_trial(20))
    write_results(sweep, {trial: {} for trial in sweep.complete_ids()})
    return sweep


def test_a_plan_of_a_newer_ackbench_is_not_called_truncated(sweep: SweepFolder) -> None:
    """By the commands, and by the measuring job."""
    path = sweep.root / "plan.json"
    path.write_text(as_newer(path.read_bytes()))
    with pytest.raises(LedgerError, match=f"^{re.escape(f'{path} {WORDS}')}$"):
        sweep.plan()
    path.write_text(as_newer(path.read_bytes(), trials=[{"trial_id": 7}]))
    with pytest.raises(InvalidLedger, match=f"^{re.escape(f'plan.json {WORDS}')}$"):
        parse_planned(path.read_bytes())


def test_a_record_of_a_newer_ackbench_is_not_called_invalid(sweep: SweepFolder) -> None:
    """The message has no error of pydantic's."""
    (trial,) = sweep.complete_ids()
    path = sweep.trial(trial) / "trial.json"
    path.write_text(as_newer(path.read_bytes()))
    with pytest.raises(InvalidLedger, match=f"^{re.escape(f'trial {trial}: trial.json {WORDS}')}$"):
        parse_trial_manifest(path.read_bytes(), trial)
    with pytest.raises(LedgerError, match=re.escape(WORDS)):
        read_results(sweep)


def test_results_of_a_newer_ackbench_are_not_called_altered() -> None:
    """By their manifest."""
    content = as_newer(ResultsManifest(tables={}).to_json().encode())
    with pytest.raises(InvalidLedger, match=f"^results/manifest.json {re.escape(WORDS)}$"):
        parse_results_manifest(content.encode())


@pytest.mark.parametrize("change", ["plan.json", "trial.json"])
def test_a_newer_ledger_version_names_the_ackbench_that_wrote_it(
    sweep: SweepFolder, change: str
) -> None:
    """Without that name, the remedy is a newer one, and not to run the sweep again."""
    (trial,) = sweep.complete_ids()
    path = sweep.root / change if change == "plan.json" else sweep.trial(trial) / change
    newer = as_newer(path.read_bytes(), ledger_version=LEDGER_VERSION + 1)
    path.write_text(newer)
    with pytest.raises(AckbenchError, match=re.escape(WORDS)):
        list(sweep.complete_trials() if change == "trial.json" else sweep.plan().trials)
    path.write_bytes(without_digest(newer.encode())[0])
    with pytest.raises(AckbenchError, match="the versions 4 and 5: read it with a newer ackbench"):
        list(sweep.complete_trials() if change == "trial.json" else sweep.plan().trials)


def _without_writer(path: Path) -> None:
    """Write a document as ackbench wrote it before it had a version."""
    document, has_digest = without_digest(path.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "this_version", lambda: None)
        path.write_text(with_digest(document.decode()) if has_digest else document.decode())
    assert WRITER not in path.read_text()


def test_documents_without_a_version_are_read(sweep: SweepFolder) -> None:
    """They are older."""
    (trial,) = sweep.complete_ids()
    record_machine(sweep)
    paths = [sweep.root / "plan.json", sweep.root / "machine.json"]
    for path in (*paths, sweep.trial(trial) / "trial.json"):
        _without_writer(path)
    assert read_results(sweep).trials[0].trial_id == trial
    assert sweep.machine()["cores"]


def _lock(folder: Path) -> Path:
    assert take_lock(open_location(str(folder)), "000-abcdef") is not None
    return next((folder / "claims").iterdir())


def _store(folder: Path) -> Path:
    sweep = SweepFolder(folder / "s")
    sweep.root.mkdir()
    keep_store(sweep, open_location(str(folder / "store")))
    return sweep.store


def _tracked(folder: Path) -> Path:
    sweep = SweepFolder(folder / "s")
    sweep.root.mkdir()
    tracked = TrackedSweep(
        tracking_uri="sqlite:///x", experiment_id="1", summary_run_id="2", trial_run_ids=()
    )
    sweep.write_record(sweep.tracked, tracked)
    return sweep.tracked


def _tour(folder: Path) -> Path:
    tour = TourFolder(folder / "tour")
    tour.write(new_tour(frozenset({1}), None))
    return next((folder / "tour").glob("*.json"))


SMALL: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "a lock": (_lock, lambda folder: read_locks(open_location(str(folder)))),
    "a store": (_store, lambda folder: published_uri(SweepFolder(folder / "s"))),
    "a tracked sweep": (_tracked, lambda folder: tracked_sweep(SweepFolder(folder / "s"))),
    "a tour": (_tour, lambda folder: TourFolder(folder / "tour").read()),
}
"""Small documents: how each is written, and read."""


@pytest.mark.parametrize("name", SMALL)
def test_small_documents_name_their_writer_too(name: str, tmp_path: Path) -> None:
    """They are read with and without it; one of a newer ackbench is not called damaged."""
    write, read = SMALL[name]
    path = write(tmp_path)
    assert json.loads(path.read_text())[WRITER] == THIS
    assert read(tmp_path)
    content = without_version(path.read_bytes())
    path.write_bytes(content)
    assert read(tmp_path)
    newer = json.loads(content) | {"new_field": 1, WRITER: NEWER}
    path.write_text(json.dumps(newer))
    with pytest.raises(AckbenchError, match=re.escape(WORDS)):
        read(tmp_path)
    path.write_text(json.dumps(newer | {WRITER: THIS}))
    with pytest.raises(AckbenchError, match=r"damaged|truncated"):
        read(tmp_path)


def test_each_document_of_a_sweep_names_its_writer(sweep: SweepFolder) -> None:
    """Of a trial, its record; the digests in it cover the tables."""
    (trial,) = sweep.complete_ids()
    record_machine(sweep)
    paths = [sweep.root / "plan.json", sweep.root / "machine.json"]
    for path in (*paths, sweep.trial(trial) / "trial.json"):
        assert json.loads(path.read_text())[WRITER] == THIS, path
    assert json.loads(ResultsManifest(tables={}).to_json())[WRITER] == THIS
