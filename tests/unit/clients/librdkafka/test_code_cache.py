"""Compiled code is kept where it is told, for these very sources."""

from pathlib import Path

import pytest

from experiments.clients.librdkafka import code_cache


def test_the_folder_lies_in_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where nothing else is named."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    assert code_cache.cache_folder().parent == tmp_path / "cache" / "numba"


def test_a_process_that_inherits_the_folder_keeps_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is not nested once more in each."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first = code_cache.cache_folder()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(first))
    assert code_cache.cache_folder() == first
    assert first.parent == tmp_path


def test_other_sources_have_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A change in one file voids the code of all: Numba would not see it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "value.py"
    monkeypatch.setattr(code_cache, "__file__", str(source))
    source.write_text("SIZE = 1")
    before = code_cache.cache_folder()
    source.write_text("SIZE = 2")
    assert code_cache.cache_folder() != before
