"""The cache folder of compiled code depends on the environment and on the sources."""

from pathlib import Path

import pytest

from ackbench.experiments.trial.clients.librdkafka import code_cache


def test_the_folder_is_in_the_home_by_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without `NUMBA_CACHE_DIR` it is below the home's cache."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("ACKBENCH_HOME", str(tmp_path))
    assert code_cache.cache_folder().parent == tmp_path / "cache" / "numba"


def test_a_process_that_inherits_the_folder_keeps_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The folder is not nested again in each process."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first = code_cache.cache_folder()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(first))
    assert code_cache.cache_folder() == first
    assert first.parent == tmp_path


def test_changed_sources_have_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A change in one file invalidates all compiled code: Numba would not detect it."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    source = tmp_path / "value.py"
    monkeypatch.setattr(code_cache, "__file__", str(source))
    source.write_text("SIZE = 1")
    before = code_cache.cache_folder()
    source.write_text("SIZE = 2")
    assert code_cache.cache_folder() != before
