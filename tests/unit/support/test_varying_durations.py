"""Tests are named whose duration varies from run to run."""

from pathlib import Path

import pytest
from support.varying_durations import main


def runs(folder: Path, *taken: dict[str, float | None]) -> list[str]:
    """Write one file per run with the duration of each test, seconds; `None`: it is skipped."""
    paths = []
    for number, durations in enumerate(taken):
        cases = "".join(
            f'<testcase classname="tests.unit.test_it" name="{name}" time="{seconds or 0}">'
            f"{'<skipped/>' if seconds is None else ''}</testcase>"
            for name, seconds in durations.items()
        )
        path = folder / f"{number}.xml"
        path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
        paths.append(str(path))
    return paths


def test_a_test_that_takes_more_than_five_times_as_long_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The longest first; not one with a factor of five, and not one that is always short."""
    files = runs(
        tmp_path,
        {"test_varies": 0.1, "test_steady": 10, "test_short": 0.001, "test_most": 0},
        {"test_varies": 0.51, "test_steady": 50, "test_short": 0.49, "test_most": 7},
        {"test_varies": 0.2, "test_steady": 30},
    )
    assert main(files) == 1
    assert capsys.readouterr().out.splitlines() == [
        "tests.unit.test_it::test_most: 0.00 s to 7.00 s",
        "tests.unit.test_it::test_varies: 0.10 s to 0.51 s",
    ]


def test_a_skipped_test_has_no_duration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pytest writes zero for it."""
    assert main(runs(tmp_path, {"test_it": None}, {"test_it": 9})) == 0
    assert capsys.readouterr().out == ""


def test_one_run_cannot_vary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It takes two files."""
    assert main(runs(tmp_path, {"test_it": 9})) == 2
    assert "two files" in capsys.readouterr().err
