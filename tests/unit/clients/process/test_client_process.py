"""What a client's process hears of its parent."""

from __future__ import annotations

import os
import select
import sys

import pytest

from experiments.clients.process.client_process import expect_line, read_line


def test_two_lines_said_at_once_are_heard_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What waits for words with `select` sees that there is a second one: a member that is told to hurry and to finish does both."""
    here, there = os.pipe()
    with os.fdopen(here) as stdin, os.fdopen(there, "w") as parent:
        monkeypatch.setattr(sys, "stdin", stdin)
        parent.write("hurry\nfinish\n")
        parent.flush()

        assert read_line() == "hurry"
        assert select.select([stdin], [], [], 0)[0]
        assert expect_line("finish") == ""
        assert not select.select([stdin], [], [], 0)[0]


def test_a_parent_that_has_gone_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is no word."""
    here, there = os.pipe()
    os.close(there)
    with os.fdopen(here) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert read_line() == ""
