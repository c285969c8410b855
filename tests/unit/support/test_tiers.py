"""The tests that `make test` leaves out, and its closing line about missing programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.needed_programs import PACKAGES, missing, packages_for

TESTS = """
import pytest
from support.tiers import pairs

@pytest.mark.further
def test_whole(): ...

@pytest.mark.further("java")
@pytest.mark.parametrize("client", ["librdkafka", "java"])
def test_case_by_id(client): ...

@pytest.mark.further(width=[768, 1280])
@pytest.mark.parametrize("width", [400, 768, 1280])
@pytest.mark.parametrize("dark", [False, True])
def test_cases_by_value(width, dark): ...

@pytest.mark.parametrize(("letter", "number"), pairs("ab", (1, 2, 3)))
def test_pairs(letter, number): ...

def test_unmarked(): ...
"""
FIRST = {
    "test_case_by_id[librdkafka]",
    "test_cases_by_value[False-400]",
    "test_cases_by_value[True-400]",
    "test_pairs[a-1]",
    "test_pairs[b-2]",
    "test_pairs[a-3]",
    "test_unmarked",
}
FURTHER = {
    "test_whole",
    "test_case_by_id[java]",
    *(f"test_cases_by_value[{dark}-{width}]" for dark in (False, True) for width in (768, 1280)),
    *(f"test_pairs[{pair}]" for pair in ("a-2", "b-1", "b-3")),
}


def collected(folder: Path, *options: str) -> tuple[set[str], str]:
    """Return the names of the tests that pytest collects, and its whole output."""
    (folder / "test_it.py").write_text(TESTS)
    tests = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "support.tiers", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split("::")[1] for line in ran.stdout.splitlines() if "::" in line}
    return names, ran.stdout


def test_the_first_tier_leaves_out_what_is_marked_and_nothing_else(tmp_path: Path) -> None:
    """A whole test, cases by their ids or by the values of an argument, and pairs."""
    names, output = collected(tmp_path, "--first-tier")
    assert names == FIRST
    assert f"({len(FURTHER)} deselected)" in output


def test_all_tests_are_those_of_the_first_tier_and_the_further_ones(tmp_path: Path) -> None:
    """Nothing is left out without the option."""
    assert collected(tmp_path)[0] == FIRST | FURTHER


@pytest.mark.parametrize(
    ("reasons", "packages"),
    [
        (["Skipped: chromium, chromedriver: not on PATH"], "chromium chromium-driver"),
        (["Skipped: no disk images: mkfs.ext4: not on PATH"], "e2fsprogs"),
        (["ip, tc: not on PATH", "nft: not on PATH"], "iproute2 nftables"),
        (["Skipped: not root", "it does nothing on several hosts"], ""),
        (["weed: not on PATH"], "weed"),
    ],
)
def test_the_packages_that_end_skips_are_named(reasons: list[str], packages: str) -> None:
    """A reason that no package changes names none."""
    found = set(packages_for(reasons)) - {"fonts-dejavu-core"}
    assert found == set(packages.split())


def test_a_missing_program_is_the_reason_of_a_skip() -> None:
    """The same sentence as that of a fault that cannot run without it."""
    assert missing(["sh"]) is None
    assert missing(["sh", "no-such-program", "neither"]) == (
        "no-such-program, neither: not on PATH"
    )
    assert "chromium" in PACKAGES
