"""The actions of `ackbench cluster`, wherever they are listed."""

from __future__ import annotations

import re

from support.command_line import ackbench

from ackbench.experiments.commands.machine.cluster import ACTIONS
from ackbench.infra.machine.home import REPOSITORY


def test_help_and_document_list_the_actions_that_there_are() -> None:
    """The help has them by hand, because it imports no command."""
    text = " ".join(ackbench("cluster", "--help").output.split())
    listed = re.search(r"ACTION is one of: ([a-z, -]+)\.", text)
    assert listed is not None
    assert listed[1].replace("- ", "-").split(", ") == list(ACTIONS)

    document = (REPOSITORY / "docs" / "by-hand.md").read_text()
    table = re.findall(r"^\| (`.+?) \|", document, re.MULTILINE)
    assert {span.split()[0] for row in table for span in re.findall(r"`([^`]+)`", row)} == {
        *ACTIONS
    }
