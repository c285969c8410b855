"""Name the tests whose duration varies: `python tests/support/varying_durations.py RUN.xml ...`.

Each file is of one run of the same tests, written by `pytest --junit-xml RUN.xml`. A test that
takes five times as long in one run as in another waits for something that it does not control.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

FACTOR: Final = 5.0
SHORTEST_S: Final = 0.5
"""A longest duration below this says nothing: the machine had something else to do."""


def durations_s(runs: Sequence[Path]) -> Mapping[str, list[float]]:
    """Return the durations of each test in the runs that ran it, seconds."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for case in ET.parse(run).iter("testcase"):  # noqa: S314 - pytest's own file
            if case.find("skipped") is None:
                name = f"{case.get('classname')}::{case.get('name')}"
                found[name].append(float(case.get("time", "0")))
    return found


def varying(runs: Sequence[Path]) -> Iterator[tuple[str, float, float]]:
    """Yield name, shortest and longest duration of each test that varies, the longest first."""
    ends = ((name, min(taken), max(taken)) for name, taken in durations_s(runs).items())
    for name, shortest_s, longest_s in sorted(ends, key=lambda end: -end[2]):
        if longest_s >= SHORTEST_S and longest_s > FACTOR * shortest_s:
            yield name, shortest_s, longest_s


def main(arguments: Sequence[str]) -> int:
    """Print one line per test; the exit code is 1 if there is one, and 2 without two runs."""
    if len(arguments) < 2:
        sys.stderr.write("two files or more of `pytest --junit-xml` are required\n")
        return 2
    lines = [
        f"{name}: {shortest_s:.2f} s to {longest_s:.2f} s"
        for name, shortest_s, longest_s in varying([Path(each) for each in arguments])
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
