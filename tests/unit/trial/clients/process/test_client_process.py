"""How a client reads its parent's lines."""

from __future__ import annotations

import os
import select
import sys

import pytest

from ackbench.experiments.trial.clients.process.client_process import (
    calls_of,
    describe_calls,
    expect_line,
    is_entire,
    read_line,
)

TRACE = """warning
Current thread 0x00007f (most recent call first):
  File "/some where/producer/transactions.py", line 12 in commit
  File "/some where/group/copier.py", line 34 in commit
  File "/some where/group/member_main.py", line 56 in commit
  File "/some where/group/member_main.py", line 78 in run
  File "/some where/fork_server_main.py", line 90 in main
"""


def test_where_a_process_is_are_its_innermost_calls() -> None:
    """A trace that is not there yet, or without a call, says nothing."""
    assert describe_calls(calls_of(TRACE)) == (
        "it is in commit (transactions.py:12), called by commit (copier.py:34), called by commit "
        "(member_main.py:56), called by run (member_main.py:78)"
    )
    assert describe_calls(calls_of("warning")) == ""
    assert describe_calls(calls_of(TRACE.partition("  File")[0])) == ""


def test_a_trace_is_read_once_it_has_its_outermost_call() -> None:
    """It is written line by line: its begin alone would not name who called."""
    whole = f'{TRACE}  File "/some where/fork_server_main.py", line 99 in <module>\n'
    assert [end for end in range(len(whole) + 1) if is_entire(whole[:end])] == [len(whole)]


def test_two_lines_written_at_once_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
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
