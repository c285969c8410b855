"""Tests of tasks, which expect a process of their own: they set signal handlers and a mask."""

import pytest


@pytest.fixture(autouse=True)
def own_process_of_a_task(own_process: None) -> None:
    """Undo what a task does to its process."""
