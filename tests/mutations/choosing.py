"""The selection of mutants: which are tried, and which are known to be equivalent."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from mutations.mutator import Mutant, mutants_of
from support import tally

JOB_FOLDER: Final = Path(__file__).parents[2] / "spark_jobs"
JUDGED_BY_HISTORIES: Final = (
    *(f"io.{name}" for name in ("arrays", "columns", "units")),
    *(
        f"measures.{name}"
        for name in (
            "value_counts",
            "fates",
            "order",
            "reads",
            "latency",
            "throughput",
            "transactions",
            "trials",
        )
    ),
    "pipeline",
)
"""Modules whose mutants must fail on generated histories."""
JUDGED_BY_BOTH: Final = (
    "measures.availability",
    "measures.stalls",
    "measures.stall_rows",
    "measures.compaction",
    "measures.consumed",
    "causes.anomalous_records",
    "causes.explanations",
)
"""Modules that the plain loops judge in part; for the rest, their own planted cases must fail."""
JUDGED_BY_CASES: Final = ("causes.evidence", "causes.rules", "causes.outages")
"""Modules that no history judges: their own planted cases must fail."""
REQUESTED: Final = os.environ.get("ACKBENCH_MUTANTS", "")
"""Which mutants are tried: a number (drawn by `SEED`), `all`, or comma-separated name prefixes."""
SEED: Final = 20
EQUIVALENT: Final = Path(__file__).with_name("equivalent.txt")


def mutants_in(modules: Sequence[str]) -> list[Mutant]:
    """Return all mutants of the given modules of `spark_jobs`."""
    return [
        mutant
        for name in modules
        for mutant in mutants_of(
            f"ackbench.spark_jobs.{name}", JOB_FOLDER / f"{name.replace('.', '/')}.py"
        )
    ]


def select_mutants(mutants: Sequence[Mutant], default: str) -> Sequence[Mutant]:
    """Return the mutants to try: as `REQUESTED`, or else as `default` in the same notation."""
    requested = REQUESTED or default
    if not requested.isdigit():
        return [
            mutant
            for mutant in mutants
            if requested == "all" or mutant.name.startswith(tuple(requested.split(",")))
        ]
    return sorted(mutants, key=lambda mutant: sha256(f"{SEED} {mutant.name}".encode()).digest())[
        : int(requested)
    ]  # by hash, so that the selection is stable when code is added


def equivalent_mutants() -> Mapping[str, str]:
    """Return the mutants that are equivalent to the original: the reason by name."""
    lines = [
        line.rsplit(" | ", 1)
        for line in EQUIVALENT.read_text().splitlines()
        if line and not line.startswith("#")
    ]
    return {line[0]: line[1] for line in lines}


def assert_caught(mutants: Sequence[Mutant], how_caught: Callable[[Mutant], str | None]) -> None:
    """Assert that all mutants are caught, except the listed equivalent ones, and none of those.

    Args:
        mutants: the mutants to try.
        how_caught: returns by what a mutant is caught; `None`: it is not.
    """
    caught = {mutant.name: how_caught(mutant) for mutant in mutants}
    tally.count("mutants of the measuring code", len(caught))
    tally.count("of them caught", sum(how is not None for how in caught.values()))
    wrong = list(_wrong(caught, equivalent_mutants()))
    assert not wrong, "\n".join(wrong)


def _wrong(caught: Mapping[str, str | None], equivalent: Mapping[str, str]) -> Iterator[str]:
    yield from (
        f"mutant not caught: {name}"
        for name, how in caught.items()
        if how is None and name not in equivalent
    )
    yield from (
        f"listed as equivalent, but caught ({how}): {name}"
        for name, how in caught.items()
        if how is not None and name in equivalent
    )
