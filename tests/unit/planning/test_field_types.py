"""The types of values in an experiment file."""

from __future__ import annotations

import pytest

from ackbench.experiments.planning.field_types import check_cron


@pytest.mark.parametrize("expression", ["0 3 * * *", "*/5 0-6 1,15 jan-mar MON", "@daily"])
def test_valid_cron_expressions_are_accepted(expression: str) -> None:
    """An expression has five fields with ranges, lists, steps and names, or is a nickname."""
    assert check_cron(expression) == expression


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "5-1 * * * *",
        "*/0 * * * *",
        "* * * foo *",
        "@nightly",
    ],
)
def test_invalid_cron_expressions_are_refused(expression: str) -> None:
    """These have a wrong number of fields, a value out of range, a reversed range and the like."""
    with pytest.raises(ValueError, match=r"cron|as the"):
        check_cron(expression)
