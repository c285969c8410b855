"""How a client reads its parent's lines."""

from __future__ import annotations

import os
import select
import sys

import pytest

from ackbench.experiments.trial.clients.process.client_process import expect_line, read_line


def test_two_lines_written_at_once_are_read_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second line stays in the pipe, so that `select` reports it."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin, os.fdopen(write_end, "w") as parent:
        monkeypatch.setattr(sys, "stdin", stdin)
        parent.write("hurry\nfinish\n")
        parent.flush()

        assert read_line() == "hurry"
        assert select.select([stdin], [], [], 0)[0]
        assert expect_line("finish") == ""
        assert not select.select([stdin], [], [], 0)[0]


def test_a_line_is_empty_if_the_parent_has_exited(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty line is not a command."""
    read_end, write_end = os.pipe()
    os.close(write_end)
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert read_line() == ""
